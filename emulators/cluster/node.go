package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // Go 1.6.3 fixed the vulnerability
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/cluster/internal/registry"
	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/emulators/internal/child"
)

// ProcessVariable is the environment variable with the name of a node's process, e.g.
// "kubelet".
const ProcessVariable = "SLUICE_CLUSTER_PROCESS"

const (
	daemonLimit   = 2 * time.Minute
	restartPause  = time.Second
	headerLimit   = 10 * time.Second
	programsFile  = "programs.json"
	gitBackend    = "/usr/lib/git-core/git-http-backend"
	forwardSwitch = "/proc/sys/net/ipv4/ip_forward"
)

// Node is the program in the node's namespaces.
type Node struct {
	o    Options
	log  *slog.Logger
	life context.Context //nolint:containedctx // of the node
}

// RunNode runs the node until it is killed.
func RunNode(ctx context.Context, o Options) error {
	n := &Node{o: o, log: slog.New(slog.NewJSONHandler(os.Stderr, nil)), life: ctx}
	text, err := os.ReadFile(o.path(programsFile))
	if err != nil {
		return fmt.Errorf("read the list of programs: %w", err)
	}
	var programs Programs
	if err := json.Unmarshal(text, &programs); err != nil {
		return fmt.Errorf("read the list of programs: %w", err)
	}
	if err := n.network(ctx); err != nil {
		return err
	}
	if err := n.serveAll(ctx); err != nil {
		return err
	}
	for _, write := range []func() error{
		func() error { return o.writePKI(time.Now()) }, //nolint:forbidigo // the start of the program
		o.writeContainerd, o.writeKubernetes,
	} {
		if err := write(); err != nil {
			return err
		}
	}
	started := make(chan error, 1)
	go func() { started <- n.startFirestore(ctx) }()
	for _, d := range daemons(o, programs) {
		if err := n.start(ctx, d); err != nil {
			return err
		}
	}
	if err := <-started; err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (n *Node) network(ctx context.Context) error {
	err := ip(ctx,
		"link set lo up",
		"address add "+nodeIP+linkBits+" dev "+nodeLink,
		"link set "+nodeLink+" up",
		"route add default via "+hostIP, // for responses to the machine
	)
	if err != nil {
		return err
	}
	if err := os.WriteFile(forwardSwitch, []byte("1"), 0); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	return nil
}

func ip(ctx context.Context, commands ...string) error {
	for _, c := range commands {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func (n *Node) serveAll(ctx context.Context) error {
	images, err := registry.New(n.o.path("registry"), at(registryPort), exampleRegistry, echoImage)
	if err != nil {
		return err
	}
	git := &cgi.Handler{
		Path: gitBackend,
		Env:  []string{"GIT_PROJECT_ROOT=" + n.o.path("git"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	for port, handler := range map[int]http.Handler{registryPort: images, gitPort: git, identityPort: &identityServer{kubeconfig: n.o.kubeconfig(), log: n.log}} {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", at(port))
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit, ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug)}
		go func() { n.log.Error("server failed", "port", port, "error", server.Serve(l)) }()
	}
	return nil
}

func (n *Node) startFirestore(ctx context.Context) error {
	log, err := os.OpenFile(n.o.log("firestore"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of firestore: %w", err)
	}
	server, err := firestore.Start(ctx, firestore.Options{IP: nodeIP, Port: firestorePort, Log: log, Env: []string{ProcessVariable + "=firestore"}})
	if err != nil {
		return err
	}
	go n.supervise(ctx, "firestore", server.Service)
	return nil
}

func (n *Node) start(ctx context.Context, d daemon) error {
	command := child.Command{
		Path: d.program, Args: d.args, LogFile: n.o.log(d.name),
		Env: append(os.Environ(), ProcessVariable+"="+d.name, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin"),
	}
	check := func(context.Context) error { return nil }
	if d.url != "" {
		// Clients verify the API server's certificate.
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above
		check = func(ctx context.Context) error { return child.Get(ctx, client, d.url) }
	}
	service, err := child.Run(ctx, d.name, daemonLimit, func() (child.Command, child.Check) { return command, check })
	if err != nil {
		return err
	}
	go n.supervise(ctx, d.name, service)
	return nil
}

func (n *Node) supervise(ctx context.Context, name string, service *child.Service) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-service.Process().Done():
		}
		n.log.Warn("program ended, restarting", "name", name, "error", service.Process().Err())
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartPause):
		}
		if err := service.Restart(ctx); err != nil {
			n.log.Error("restart program failed", "name", name, "error", err)
		}
	}
}

// Init is the main function of the first process in the node's namespaces. It waits for the link,
// mounts file systems, runs serve, and reaps orphaned processes. When the process ends, the
// kernel ends all others in the namespaces.
func Init(serve []string) error {
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the link: %w", err)
	}
	if err := mountAll(); err != nil {
		return err
	}
	p, err := os.StartProcess(serve[0], serve, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	var once sync.Once
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		s := <-signals
		once.Do(func() { _ = p.Signal(s) })
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the node: %w", err)
		case pid == p.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("the node ended: exit status %d", status.ExitStatus())
		case pid == p.Pid:
			return nil
		}
	}
}
