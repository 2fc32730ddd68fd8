package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

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
