// Package orphans stops the remaining processes of a stack, and reports whether a stack is
// running.
//
// A stack holds a file lock, which the kernel releases when the process ends. Its processes are
// found by the directory in their environment: a process ID would not suffice, because the system
// reuses it.
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

// Variable is the environment variable with the directory of a process's stack.
const Variable = "SLUICE_STACK_DIR"

const (
	lockFile  = "stack.lock"
	pollEvery = 50 * time.Millisecond
	killAfter = 5 * time.Second
)

// ErrRunning is returned if a stack is running.
var ErrRunning = errors.New("a stack is running")

// Lock locks a directory for this process. It returns ErrRunning, with the owner's process ID,
// if another process has locked it.
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
	// A program that is being started may have inherited the file, so closing it does not unlock
	// it.
	return func() error { return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) }, nil
}

// owner returns 0 if the process ID cannot be read.
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

// Stop sends SIGTERM to the stack in a directory and waits for its end. It reports whether a
// stack was running.
func Stop(ctx context.Context, dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for signaled := false; ; {
		unlock, err := Lock(dir)
		if err == nil {
			return signaled, unlock()
		}
		if !errors.Is(err, ErrRunning) {
			return signaled, err
		}
		// The owner runs, but the file may lack its process ID for a short time.
		if pid := owner(dir); pid > 0 && !signaled {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return false, fmt.Errorf("stop the stack (pid %d): %w", pid, err)
			}
			signaled = true
		}
		select {
		case <-ctx.Done():
			return signaled, fmt.Errorf("wait for the stack to stop: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// End stops the remaining processes of a stack, and returns their IDs. The stack must not be
// running.
func End(ctx context.Context, dir string) ([]int, error) {
	var ended []int
	sent := syscall.SIGTERM
	limit := time.NewTimer(killAfter)
	defer limit.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	signaled := map[int]syscall.Signal{}
	for {
		left, err := Find(dir)
		if err != nil || len(left) == 0 {
			return ended, err
		}
		for _, pid := range left {
			if signaled[pid] == sent {
				continue
			}
			if signaled[pid] == 0 {
				ended = append(ended, pid)
			}
			signaled[pid] = sent
			// A suspended process receives the signal only after SIGCONT.
			_ = syscall.Kill(pid, sent)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		select {
		case <-ctx.Done():
			return ended, fmt.Errorf("stop remaining processes of a stack: %w", context.Cause(ctx))
		case <-limit.C:
			sent = syscall.SIGKILL
		case <-tick.C:
		}
	}
}

// Find returns the IDs of a stack's processes, except this process.
func Find(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // not Linux
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
		// Processes of other users and ended ones cannot be read.
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
