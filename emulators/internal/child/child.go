// Package child runs the programs that an emulator is made of: it starts them,
// tells when they end, and makes sure that they never outlive who started them.
//
// On Linux the kernel kills a child when its parent dies, even by SIGKILL
// (PR_SET_PDEATHSIG). The kernel means the parent's *thread* by that, so the
// goroutine that starts a child keeps its thread until the child has ended.
// Each child leads a process group of its own: a terminal's Ctrl-C reaches only
// the parent, which then stops its children in the right order.
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

// defaultGrace is how long a child may take from SIGTERM to its end.
const defaultGrace = 10 * time.Second

// Command is a program to run.
type Command struct {
	Name string   // in messages, e.g. "etcd"
	Path string   // of the program, looked up in $PATH when it has no slash
	Args []string // without the program itself
	Env  []string // "NAME=value", nil takes over this process's
	Dir  string   // working directory, empty is this process's

	// LogFile takes both output streams; they are added to its end. Without it
	// Log takes them, and without both only the last lines are kept. Either way
	// the error of a child that fails holds its last lines.
	LogFile string
	Log     io.Writer

	Grace time.Duration // from SIGTERM to SIGKILL, default 10 s

	// Tree is for a program that starts others, such as go build: they too end
	// with this process.
	Tree bool
}

// Process is a child that was started.
type Process struct {
	name  string
	grace time.Duration
	tree  bool
	cmd   *exec.Cmd
	tail  *tail
	done  chan struct{}
	err   error // valid once done is closed
}

// Start runs a command. The caller ends it with Close.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, grace: c.Grace, tree: c.Tree, done: make(chan struct{})}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	//nolint:noctx // the caller names the program; Close ends it gently, which a context can't
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

// log connects the child's output. closeLog ends this process's hold of the
// log's file once the child has its own.
func (p *Process) log(c Command) (closeLog func(), err error) {
	if c.LogFile == "" {
		p.tail = &tail{next: c.Log}
		p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
		return func() {}, nil
	}
	f, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	p.tail = &tail{file: c.LogFile}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	return func() { _ = f.Close() }, nil
}

// run owns the child from start to end, on one thread.
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

// Pid is the child's process id; its process group has the same number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended, with the last lines of its output. It waits for the end and is never nil: a child that runs until it
// is closed should not end by itself, not even well.
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

// Wait waits for the child's end and gives an error when it failed. It is for
// children that end by themselves.
func (p *Process) Wait() error {
	<-p.done
	if p.err == nil {
		return nil
	}
	return p.Err()
}

// Signal sends a signal to the child alone.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the child and its process group at once and waits for the end.
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

// Close asks the child to end, kills it when the grace is over, and waits. A
// stopped child is continued, else it would not see the request. Closing a child
// that has ended is fine.
func (p *Process) Close() error {
	// Both fail only for a child that has just ended.
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
	pollEvery = 20 * time.Millisecond // from one look at a starting child to the next
	pollLimit = 2 * time.Second       // for one look
)

// Ready waits until check gives nil. It fails when the child ends before that,
// or, with the reason of the last check, when ctx does.
func (p *Process) Ready(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		look, cancel := context.WithTimeout(ctx, pollLimit)
		err := check(look)
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

// guardScript kills the process group $1 when its input ends without a line: the
// process that holds the other end of the pipe is then gone.
const guardScript = `read -r _ || kill -KILL "-$1"`

// guard ends the children of a child when this process dies. The kernel does so
// only for the child itself.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File // the end of the pipe that this process alone has
}

func newGuard(group int, env []string) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a guard's pipe: %w", err)
	}
	//nolint:noctx // a script of our own; it ends with the pipe
	cmd := exec.Command("sh", "-c", guardScript, "guard", strconv.Itoa(group))
	cmd.Env, cmd.Stdin = env, read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a guard: %w", err), read.Close(), write.Close())
	}
	return &guard{cmd: cmd, hold: write}, read.Close()
}

// dismiss ends the guard without harm: the child has ended.
func (g *guard) dismiss() {
	// A guard that is gone has nothing left to do.
	_, _ = g.hold.WriteString("\n")
	_ = g.hold.Close()
	_ = g.cmd.Wait()
}
