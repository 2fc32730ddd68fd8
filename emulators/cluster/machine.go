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
	lookEvery  = 100 * time.Millisecond
	sweepLimit = 60 * time.Second
)

// machine is the node as this process sees it: a process with namespaces of its own.
type machine struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // valid once done is closed
}

// startMachine starts the node and leads a link into it. What runs inside goes on after
// this process.
func (o Options) startMachine(ctx context.Context, programs Programs) (*machine, error) {
	for _, dir := range append(o.stateDirs(), o.logs(), o.path("git"), o.path("registry")) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a place for the node: %w", err)
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
		return nil, fmt.Errorf("make a pipe: %w", err)
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
		return nil, errors.Join(fmt.Errorf("tell the node of its link: %w", err), m.cmd.Process.Kill())
	}
	return m, nil
}

// run starts the first process of the node's namespaces.
func (m *machine) run(self string, wait *os.File, dir string) error {
	defer wait.Close() //nolint:errcheck // the node has its own
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the node's log: %w", err)
	}
	defer log.Close()                       //nolint:errcheck // the node has its own
	m.cmd = exec.Command(self, "init", dir) //nolint:noctx // it lives on
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

// link makes a pair of interfaces, one here and one in the node's network, and routes the
// cluster's addresses over it.
func link(ctx context.Context, pid int) error {
	return ip(ctx,
		fmt.Sprintf("link add %s type veth peer name %s netns %d", hostLink, nodeLink, pid),
		"address add "+hostIP+linkBits+" dev "+hostLink,
		"link set "+hostLink+" up",
		"route add "+podRange+" via "+nodeIP,
		"route add "+services+" via "+nodeIP,
	)
}

// until waits for a check, or for the node's end.
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
	err := child.Until(ctx, lookEvery, check)
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

// lastLines is the end of a log.
func lastLines(file string) string {
	const most = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// hierarchies are the folders that control groups can be made in: that of version 2, or
// those of each controller of version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.procs")); err == nil {
		return []string{cgroups}, nil
	}
	found, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	if err == nil && len(found) == 0 {
		err = errors.New("nothing is mounted at " + cgroups)
	}
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found, nil
}

// makeCgroups makes the groups that all pods are in, so that they are told from others.
func makeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, cgroupName), 0o755); err != nil { //nolint:gosec // as the kernel makes them
			return fmt.Errorf("make a control group: %w", err)
		}
	}
	return nil
}

// removeCgroups removes them from the innermost on.
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
			return nil // one that has just gone is what is wanted
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

// sweep ends a node that is there, and removes all that it had: processes, and with them
// its namespaces and mounts, the link, control groups and state. It tells whether there
// was a node.
func (o Options) sweep(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sweepLimit, errors.New("it does not go away"))
	defer cancel()
	was := false
	err := child.Until(ctx, lookEvery, func() error {
		left, err := orphans.Find(o.Dir)
		if err != nil || len(left) == 0 {
			return err
		}
		was = true
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended since
		}
		return fmt.Errorf("processes are left: %v", left)
	})
	if err == nil {
		err = child.Until(ctx, lookEvery, removeCgroups)
	}
	// The kernel takes it away by itself, but only when the last connection that was cut
	// has given up.
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

// processes gives the ids of the node's own programs, by name, as this machine counts
// them.
func (o Options) processes() (map[string]int, error) {
	pids, err := orphans.Find(o.Dir)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, pid := range pids {
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue // it has just ended
		}
		for v := range strings.SplitSeq(string(environment), "\x00") {
			name, ok := strings.CutPrefix(v, ProcessVariable+"=")
			// The last one counts; of the processes of a name, the first: others are its children.
			if ok && (found[name] == 0 || pid < found[name]) {
				found[name] = pid
			}
		}
	}
	return found, nil
}
