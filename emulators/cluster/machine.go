package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/orphans"
)

const (
	cgroups    = "/sys/fs/cgroup"
	pollEvery  = 100 * time.Millisecond
	sweepLimit = 60 * time.Second
)

type machine struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // valid once done is closed
}

// startMachine starts the node, which outlives this process.
func (o Options) startMachine(ctx context.Context, programs Programs) (*machine, error) {
	for _, dir := range append(o.stateDirs(), o.logs(), o.path("git"), o.path("registry")) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create a directory of the node: %w", err)
		}
	}
	if err := makeCgroups(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(programs)
	if err == nil {
		err = os.WriteFile(o.path(programsFile), text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the list of programs: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	wait, ready, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	defer ready.Close() //nolint:errcheck // its other end is closed with it
	m := &machine{log: o.log("node"), done: make(chan struct{})}
	if err := m.run(self, wait, o.Dir); err != nil {
		return nil, err
	}
	if err := link(ctx, m.cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, m.cmd.Process.Kill())
	}
	if _, err := ready.Write([]byte{1}); err != nil {
		return nil, errors.Join(fmt.Errorf("notify the node of its link: %w", err), m.cmd.Process.Kill())
	}
	return m, nil
}

func (m *machine) run(self string, wait *os.File, dir string) error {
	defer wait.Close() //nolint:errcheck // the node has its own copy
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the node's log: %w", err)
	}
	defer log.Close()                       //nolint:errcheck // the node has its own copy
	m.cmd = exec.Command(self, "init", dir) //nolint:noctx // it outlives this process
	if m.cmd.SysProcAttr, err = namespaces(); err != nil {
		return err
	}
	m.cmd.Env = append(os.Environ(), orphans.Variable+"="+dir, ProcessVariable+"=node")
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.ExtraFiles = log, log, []*os.File{wait}
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return nil
}

// link connects the node with this machine by a pair of interfaces.
func link(ctx context.Context, pid int) error {
	return ip(ctx,
		fmt.Sprintf("link add %s type veth peer name %s netns %d", hostLink, nodeLink, pid),
		"address add "+hostIP+linkBits+" dev "+hostLink,
		"link set "+hostLink+" up",
		"route add "+podRange+" via "+nodeIP,
		"route add "+services+" via "+nodeIP,
	)
}

func (m *machine) until(ctx context.Context, what string, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-m.done:
			cancel()
		case <-stop:
		}
	}()
	err := child.Until(ctx, pollEvery, check)
	if err == nil {
		return nil
	}
	select {
	case <-m.done:
		return fmt.Errorf("%s: the node ended: %w: %s", what, m.err, lastLines(m.log))
	default:
		return fmt.Errorf("%s: %w: see %s", what, err, filepath.Dir(m.log))
	}
}

func lastLines(file string) string {
	const most = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// hierarchies returns the cgroup folders: one for version 2, one per controller for version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.procs")); err == nil {
		return []string{cgroups}, nil
	}
	found, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	if err == nil && len(found) == 0 {
		err = errors.New("no file system is mounted at " + cgroups)
	}
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found, nil
}

// makeCgroups creates the cgroups of all pods.
func makeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, cgroupName), 0o755); err != nil { //nolint:gosec // as the kernel makes them
			return fmt.Errorf("create a control group: %w", err)
		}
	}
	return nil
}

func removeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	var failed error
	for _, dir := range dirs {
		var all []string
		err := filepath.WalkDir(filepath.Join(dir, cgroupName), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0 && err == nil; i-- {
			if err = syscall.Rmdir(all[i]); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// sweep stops a running node and removes all that it used. It reports whether a node was
// running.
func (o Options) sweep(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sweepLimit, errors.New("the node still exists"))
	defer cancel()
	was := false
	err := child.Until(ctx, pollEvery, func() error {
		left, err := orphans.Find(o.Dir)
		if err != nil || len(left) == 0 {
			return err
		}
		was = true
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return fmt.Errorf("remaining processes: %v", left)
	})
	if err == nil {
		err = child.Until(ctx, pollEvery, removeCgroups)
	}
	// The kernel removes the link only after broken connections have timed out.
	if _, found := net.InterfaceByName(hostLink); err == nil && found == nil {
		err = ip(ctx, "link delete "+hostLink)
	}
	for _, dir := range append(o.stateDirs(), o.path(infoFile), o.kubeconfig(), o.path(programsFile)) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return was, fmt.Errorf("end the node: %w", err)
	}
	return was, nil
}

func (o Options) processes() (map[string]int, error) {
	pids, err := orphans.Find(o.Dir)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, pid := range pids {
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue
		}
		for v := range strings.SplitSeq(string(environment), "\x00") {
			name, ok := strings.CutPrefix(v, ProcessVariable+"=")
			// The program has the lowest process ID; its children inherit the variable.
			if ok && (found[name] == 0 || pid < found[name]) {
				found[name] = pid
			}
		}
	}
	return found, nil
}
