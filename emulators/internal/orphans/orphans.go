// Package orphans finds and ends the processes of a stack that is gone, and
// tells whether one is there.
//
// A stack holds a lock on a file for as long as it lives; the kernel lets go of
// it when the process ends, however it ends. All of its processes carry the
// stack's directory in their environment, so what they are can be told for
// certain, which a process id alone could not: ids are used again.
package orphans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Variable is set in the environment of each process of a stack, to the stack's
// directory.
const Variable = "SLUICE_STACK_DIR"

const (
	lockFile  = "stack.lock"
	pollEvery = 50 * time.Millisecond
	killAfter = 5 * time.Second // from SIGTERM to SIGKILL
)

// ErrRunning says that a stack lives in the directory.
var ErrRunning = errors.New("a stack is running")

// Lock claims a directory for this process; ErrRunning, with the process that
// has it, when another one lives.
func Lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the stack's directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := owner(dir)
		return nil, errors.Join(fmt.Errorf("%w in %s (pid %d)", ErrRunning, dir, pid), f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the stack's directory: %w", err), f.Close())
	}
	// Closing alone would leave the lock to a program that is being started elsewhere in
	// this process: until it is, it holds a copy of the file.
	return func() error { return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) }, nil
}

// owner is the process that wrote itself into the lock; 0 when that can't be read.
func owner(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// Stop asks the stack that lives in a directory to end, and waits until it has.
// It tells whether there was one.
func Stop(ctx context.Context, dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for asked := false; ; {
		unlock, err := Lock(dir)
		if err == nil {
			return asked, unlock()
		}
		if !errors.Is(err, ErrRunning) {
			return asked, err
		}
		// The lock is held, so who holds it lives and has written who it is, but
		// for the moment between the two.
		if pid := owner(dir); pid > 0 && !asked {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return false, fmt.Errorf("stop the stack (pid %d): %w", pid, err)
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return asked, fmt.Errorf("wait for the stack's end: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// End ends the processes that a stack in this directory left behind, at once, and
// gives their ids. It must not be called while that stack lives.
func End(ctx context.Context, dir string) ([]int, error) {
	var ended []int
	sent := syscall.SIGTERM
	limit := time.NewTimer(killAfter)
	defer limit.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	asked := map[int]syscall.Signal{}
	for {
		left, err := Find(dir)
		if err != nil || len(left) == 0 {
			return ended, err
		}
		for _, pid := range left {
			if asked[pid] == sent {
				continue
			}
			if asked[pid] == 0 {
				ended = append(ended, pid)
			}
			asked[pid] = sent
			// It may end between the look and the signal; a stopped one must go on.
			_ = syscall.Kill(pid, sent)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		select {
		case <-ctx.Done():
			return ended, fmt.Errorf("end what a stack left: %w", context.Cause(ctx))
		case <-limit.C:
			sent = syscall.SIGKILL
		case <-tick.C:
		}
	}
}

// Find gives the processes that belong to a stack in this directory, without
// this process.
func Find(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // no Linux, no way to tell
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	mark := []byte(Variable + "=" + dir)
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Other users' processes and those just ended can't be read; a zombie's
		// environment is empty.
		environment, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(environment, []byte{0}) {
			if bytes.Equal(v, mark) {
				found = append(found, pid)
				break
			}
		}
	}
	return found, nil
}
