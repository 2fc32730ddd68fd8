// Package child runs programs that must not outlive this process.
//
// On Linux the kernel kills a child when the thread that started it ends (PR_SET_PDEATHSIG), even
// after SIGKILL. The goroutine that starts a child therefore locks its thread until the child has
// ended. Each child leads its own process group: therefore, Ctrl-C reaches only the parent, which
// stops its children in order.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const defaultGrace = 10 * time.Second

// Command is a program to run.
type Command struct {
	Name string
	Path string // looked up in $PATH if it contains no slash
	Args []string
	Env  []string // nil inherits the environment
	Dir  string   // empty is the current one

	// LogFile receives both output streams, appended. Without it, Log receives them; without
	// both, they are discarded. Errors always contain the last lines.
	LogFile string
	Log     io.Writer

	Grace time.Duration // between SIGTERM and SIGKILL; 0 is 10 s

	// Tree also ends the programs that the child starts, such as those of go build.
	Tree bool
}

// Process is a started child.
type Process struct {
	name  string
	grace time.Duration
	tree  bool
	cmd   *exec.Cmd
	tail  *tail
	done  chan struct{}
	err   error // valid once done is closed
}

// Start runs a command until Close.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, grace: c.Grace, tree: c.Tree, done: make(chan struct{})}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	//nolint:noctx // the caller chooses the program, and Close stops it gracefully, unlike a context
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env, p.cmd.Dir = c.Env, c.Dir
	closeLog, err := p.log(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer closeLog()
	p.cmd.WaitDelay = time.Second // a grandchild may hold the output open
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

func (p *Process) log(c Command) (closeLog func(), err error) {
	if c.LogFile == "" {
		p.tail = &tail{next: c.Log}
		p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
		return func() {}, nil
	}
	f, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	p.tail = &tail{file: c.LogFile}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	return func() { _ = f.Close() }, nil
}

func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err != nil {
		started <- err
		return
	}
	var watch *guard
	if p.tree {
		watch, err = newGuard(p.Pid(), p.cmd.Env)
	}
	if err != nil {
		err = errors.Join(err, p.cmd.Process.Kill())
	}
	started <- err
	p.err = p.cmd.Wait()
	if watch != nil {
		watch.dismiss()
	}
	close(p.done)
}

// Pid returns the ID of the child and of its process group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed at the child's end.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the child's end and returns the exit status and the last lines of output. It
// never returns nil: a child that runs until Close must not end earlier.
func (p *Process) Err() error {
	<-p.done
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	if last := p.tail.String(); last != "" {
		return fmt.Errorf("%s ended: %s: %s", p.name, how, last)
	}
	return fmt.Errorf("%s ended: %s", p.name, how)
}

// Wait waits for a child that ends without Close, and returns an error if it failed.
func (p *Process) Wait() error {
	<-p.done
	if p.err == nil {
		return nil
	}
	return p.Err()
}

// Signal signals the child, but not its process group.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill kills the child's process group and waits for the end.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Close sends SIGTERM, kills the child after the grace period, and waits for the end. It also
// continues a stopped child, which would not receive SIGTERM.
func (p *Process) Close() error {
	// Both fail only if the child has just ended.
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT)
	late := time.NewTimer(p.grace)
	defer late.Stop()
	select {
	case <-p.done:
		return nil
	case <-late.C:
		return p.Kill()
	}
}

const (
	pollEvery = 20 * time.Millisecond
	pollLimit = 2 * time.Second
)

// Ready waits until check returns nil. It returns an error if the child or ctx ends first.
func (p *Process) Ready(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		checkCtx, cancel := context.WithTimeout(ctx, pollLimit)
		err := check(checkCtx)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w", p.name, context.Cause(ctx)), last)
		case <-tick.C:
		}
	}
}

// guardScript kills the process group $1 if its input ends without a line, which means that the
// writer is gone.
const guardScript = `read -r _ || kill -KILL "-$1"`

// guard kills a child's descendants when this process dies. The kernel kills only the child.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File // write end; only this process has it
}

func newGuard(group int, env []string) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create a guard's pipe: %w", err)
	}
	//nolint:noctx // a fixed script that ends with the pipe
	cmd := exec.Command("sh", "-c", guardScript, "guard", strconv.Itoa(group))
	cmd.Env, cmd.Stdin = env, read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a guard: %w", err), read.Close(), write.Close())
	}
	return &guard{cmd: cmd, hold: write}, read.Close()
}

func (g *guard) dismiss() {
	// An error means that the guard has already ended.
	_, _ = g.hold.WriteString("\n")
	_ = g.hold.Close()
	_ = g.cmd.Wait()
}
