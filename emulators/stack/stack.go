// Package stack runs all of Sluice on this machine without containers: the Firestore emulator,
// etcd and kube-apiserver, Traefik, the workloads and builds emulators, and each function in
// its own process.
//
// The stack emulates these parts of a cluster:
//
//   - kube-proxy: a balancer for each Service of the checkers; one of them includes the
//     stand-in.
//   - kubelet: it mounts Secrets, writes service account tokens, probes the checkers, and
//     restarts functions that end.
//   - Deployment controller: Roll replaces the checkers one by one.
//   - Knative's PingSource: it sends CloudEvents to functions.
//
// Accounts, permissions and routes come from infra/chart, so a function has the same
// permissions as in a cluster. Its Service's cluster IP is a loopback address (see package
// kube).
//
// The processes end with the stack, even if it is killed (see package child). The next start, or
// Down, ends any remaining processes. All files are below one directory, by default .local.
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

const project = "sluice-local"

// Options configure a stack. The zero value is "make up" without the demo.
type Options struct {
	Root     string // repository; empty searches upwards from the working directory
	Dir      string // empty is [DefaultDir]
	PortBase int
	Checkers int // 1 to 8; 0 is two

	// Log receives progress messages; nil discards them.
	Log io.Writer

	// Env adds to the environment by function: "checker" for all checkers, "checker-0" for one.
	Env map[string]map[string]string

	// APIServer is the API server's address for the functions, e.g. a proxy's
	// "127.0.0.1:20375". Empty is the server itself.
	APIServer string

	// Untimed are functions that get no timer events, for tests that send these events
	// themselves.
	Untimed []string

	// BuildFlags are additional arguments of "go build".
	BuildFlags []string

	// ManyCalls raises the rate limit of API callers, for tests with many calls.
	ManyCalls bool

	// NoLiveness disables liveness probes, for tests that stop a checker on purpose.
	NoLiveness bool

	Race bool
	Seed bool // project shop, environment prod, app hello
}

// Stack is a running stack.
type Stack struct {
	o        Options
	attached bool
	log      *slog.Logger // stack.log
	progress *progress.Progress

	config    *rest.Config
	api       kubernetes.Interface
	dynamic   dynamic.Interface
	addresses map[string]string
	password  string

	eventsToken  string // in the path of the build system's events
	consoleToken string // identifies the console to functions

	life  context.Context //nolint:containedctx // of the goroutines, until Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu       sync.Mutex
	info     Info
	services map[string]*managed
	programs string
	closers  []func() error

	pods     *endpoints.List   // nil without checkers
	listens  map[string]string // address of each pod
	replicas []replica
}

type managed struct {
	*child.Service

	function bool // restarted after an unexpected exit
	pod      string
	stopped  bool // stopped on purpose, by Kill or Close
}

// DefaultDir returns .local, or a folder in it for another port base than the default.
func DefaultDir(root string, portBase int) string {
	if portBase == 0 || portBase == DefaultPortBase {
		return filepath.Join(root, ".local")
	}
	return filepath.Join(root, ".local", strconv.Itoa(portBase))
}

// Start starts a stack and waits until it is ready. The stack runs until Close.
func Start(ctx context.Context, o Options) (*Stack, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	// The stack outlives the context of its start.
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
		return nil, errors.Join(err, s.closeResources())
	}
	if err := s.start(ctx, life); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.tasks.Go(func() { s.supervise(life) })
	return s, nil
}

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
		return o, fmt.Errorf("find the stack's directory: %w", err)
	}
	return o, nil
}

func (s *Stack) claim(ctx context.Context) error {
	for _, dir := range []string{s.logs(), s.programDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create the stack's directory: %w", err)
		}
	}
	unlock, err := orphans.Lock(s.o.Dir)
	if err != nil {
		return fmt.Errorf("%w: stop it with make down", err)
	}
	s.onClose(unlock)
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
	s.onClose(log.Close)
	s.log = slog.New(slog.NewJSONHandler(log, nil))
	return nil
}

// sweep removes the processes, stack.json, logs and Secrets of a previous stack. Otherwise a
// checker could start with the previous certificate, and serve it for 5 s.
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

func (s *Stack) mark() []string { return []string{orphans.Variable + "=" + s.o.Dir} }

func (s *Stack) onClose(closer func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, closer)
}

// Down stops the stack in a directory and ends remaining processes of a killed one. It returns
// a message for a person.
func Down(ctx context.Context, dir string) (string, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "No stack is running.", nil
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
		return fmt.Sprintf("The stack is stopped. Ended %d remaining processes.", len(left)), nil
	case stopped:
		return "The stack is stopped.", nil
	default:
		return "No stack is running.", nil
	}
}
