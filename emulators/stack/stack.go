// Package stack runs all of Sluice on this machine, from real parts and without
// containers: the Firestore emulator, etcd and kube-apiserver, Traefik, the
// workloads emulator, and every function of the repository as a process of its
// own, two checkers among them, or as many as asked for.
//
// The stack itself plays what a cluster's nodes would do:
//
//   - kube-proxy: a balancer on the cluster IP of the Service sluice-checker, in front
//     of the checkers and their stand-in, as far as they are ready, and one on that of
//     sluice-checker-replicas, in front of the checkers alone.
//   - kubelet: mounts Secrets as directories that follow changes, gives each function
//     a token of its service account, probes whether the checkers are ready and alive,
//     and restarts a function that ends.
//   - the Deployment controller: Roll replaces the checkers one after the other.
//   - Knative's PingSource: sends its CloudEvent to wiring and rollup.
//
// Service accounts, their rights and the routes come from infra/chart, as in any cluster: a function
// here can do what it could do there, and no more.
//
// Each other function listens on the cluster IP of its own Service, which is a
// loopback address (see package kube).
//
// Nothing outlives the stack: the kernel ends its processes with it, also when it
// is killed (see package child), and the next start, and Down, end what should be
// left all the same. Everything is below one directory, by default .local.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/orphans"
	"github.com/sluicegate/sluice/emulators/internal/progress"
	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/stack/internal/endpoints"
)

// project is the Google Cloud project that the functions believe to be in.
const project = "sluice-local"

// Options of a stack. The zero value is the one that "make up" runs, without the
// demo.
type Options struct {
	Root     string // of the repository; empty looks upwards from the working directory
	Dir      string // for everything the stack writes; empty is [DefaultDir]
	PortBase int    // first of its ports, 0 is DefaultPortBase
	Checkers int    // how many, 1 to 8; 0 is two

	// Log takes a line for each thing that a person waits for. nil drops them.
	Log io.Writer

	// Env adds to the environment of functions, by function: "checker" is all of them,
	// "checker-0" one of them.
	Env map[string]map[string]string

	// APIServer is where the functions reach the API server, e.g. a proxy's
	// "127.0.0.1:20375"; empty is the server itself. All else asks the server.
	APIServer string

	// Untimed are functions that get no timer's events, for tests that send them
	// themselves.
	Untimed []string

	// BuildFlags are additional arguments of "go build" for the functions.
	BuildFlags []string

	// ManyCalls raises the budget of each caller of the management API, for tests whose
	// admin makes many calls.
	ManyCalls bool

	// NoLiveness lets a checker hang that stops responding. Otherwise its liveness probe ends
	// it. It is for tests that stop a checker on purpose.
	NoLiveness bool

	Race bool // builds the functions with the race detector
	Seed bool // makes the demo: project shop, environment prod, app hello
}

// Stack is a running one.
type Stack struct {
	o        Options
	attached bool         // somebody else runs it
	log      *slog.Logger // of what the stack itself does, in stack.log
	progress *progress.Progress

	config    *rest.Config // of an administrator
	api       kubernetes.Interface
	dynamic   dynamic.Interface
	addresses map[string]string // cluster IP of each Service, by name
	password  string            // of the first admin

	eventsToken  string // in the path on which builds takes the build system's events
	consoleToken string // by which the functions know the console

	life  context.Context    //nolint:containedctx // of what runs in this process, until Close
	end   context.CancelFunc // ends it
	tasks sync.WaitGroup     // and waits for it

	mu       sync.Mutex
	info     Info
	services map[string]*managed
	programs string         // of UsePrograms
	closers  []func() error // of what is not a process, in the order it was opened

	pods     *endpoints.List   // of the checkers and their stand-in; nil without them
	listens  map[string]string // where each pod listens, e.g. "127.0.0.10:8086"
	replicas []replica         // the current ones
}

// managed is a process of the stack.
type managed struct {
	*child.Service

	function bool   // started again when it ends by itself
	pod      string // its name among the endpoints, "" of what is in no Service
	meant    bool   // to be down: Kill, or Close
}

// DefaultDir is .local, or for a port base of its own a folder in it, so that
// stacks side by side stay apart.
func DefaultDir(root string, portBase int) string {
	if portBase == 0 || portBase == DefaultPortBase {
		return filepath.Join(root, ".local")
	}
	return filepath.Join(root, ".local", strconv.Itoa(portBase))
}

// Start starts a stack and waits until all of it answers. It ends with Close.
func Start(ctx context.Context, o Options) (*Stack, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	// What runs for as long as the stack must not end with the start's context.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Stack{
		o: o, life: life, end: end, services: map[string]*managed{}, addresses: map[string]string{}, listens: map[string]string{},
		progress: progress.New(o.Log, time.Now),
	}
	for i := range o.Checkers {
		s.replicas = append(s.replicas, replica{index: i})
	}
	if err := s.claim(ctx); err != nil {
		end()
		return nil, errors.Join(err, s.closeOpened())
	}
	if err := s.start(ctx, life); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.tasks.Go(func() { s.supervise(life) })
	return s, nil
}

// complete fills in what is not said.
func (o Options) complete() (Options, error) {
	var err error
	if o.Root, err = tool.Root(o.Root); err != nil {
		return o, err
	}
	if o.PortBase == 0 {
		o.PortBase = DefaultPortBase
	}
	if o.Checkers == 0 {
		o.Checkers = DefaultCheckers
	}
	if o.Checkers < 1 || o.Checkers > mostCheckers {
		return o, fmt.Errorf("%d checkers: must be from 1 to %d", o.Checkers, mostCheckers)
	}
	if o.Dir == "" {
		o.Dir = DefaultDir(o.Root, o.PortBase)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("place the stack: %w", err)
	}
	return o, nil
}

// claim makes the directory this stack's, ends what a former one left in it, and
// makes sure of the ports.
func (s *Stack) claim(ctx context.Context) error {
	for _, dir := range []string{s.logs(), s.programDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("place the stack: %w", err)
		}
	}
	unlock, err := orphans.Lock(s.o.Dir)
	if err != nil {
		return fmt.Errorf("%w: stop it with make down", err)
	}
	s.opened(unlock)
	if err := sweep(ctx, s.o.Dir); err != nil {
		return err
	}
	if err := s.o.checkPorts(ctx); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.logs(), "stack.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the stack's log: %w", err)
	}
	s.opened(log.Close)
	s.log = slog.New(slog.NewJSONHandler(log, nil))
	return nil
}

// sweep removes what a previous stack left: processes, stack.json, logs and mounted Secrets.
// A checker that starts with an outdated certificate serves it for 5 s.
func sweep(ctx context.Context, dir string) error {
	if _, err := orphans.End(ctx, dir); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, "secrets")); err != nil {
		return fmt.Errorf("clear %s: %w", dir, err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	if err != nil {
		return fmt.Errorf("clear %s: %w", dir, err)
	}
	for _, file := range append(logs, filepath.Join(dir, infoFile)) {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clear %s: %w", dir, err)
		}
	}
	return nil
}

func (s *Stack) path(name string) string { return filepath.Join(s.o.Dir, name) }
func (s *Stack) logs() string            { return s.path("logs") }

// mark tells the processes of this stack from all others.
func (s *Stack) mark() []string { return []string{orphans.Variable + "=" + s.o.Dir} }

// opened keeps what Close must close.
func (s *Stack) opened(closer func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, closer)
}

// Down stops the stack that lives in a directory, whoever started it, and ends
// what one that was killed may have left. It says what it did.
func Down(ctx context.Context, dir string) (string, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "no stack is running", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the stack: %w", err)
	}
	stopped, err := orphans.Stop(ctx, dir)
	if err != nil {
		return "", err
	}
	left, err := orphans.End(ctx, dir)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(dir, infoFile)); err != nil {
		return "", fmt.Errorf("remove %s: %w", infoFile, err)
	}
	switch {
	case len(left) > 0:
		return fmt.Sprintf("the stack is down; ended %d processes that were left", len(left)), nil
	case stopped:
		return "the stack is down", nil
	default:
		return "no stack is running", nil
	}
}
