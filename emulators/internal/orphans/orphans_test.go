package orphans_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/orphans"
	"github.com/sluicegate/sluice/tests/check"
)

func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := orphans.Lock(dir)
	check.OK(t, err)
	if _, err := orphans.Lock(dir); !errors.Is(err, orphans.ErrRunning) {
		t.Errorf("second lock: got %v, want ErrRunning", err)
	}
	check.OK(t, unlock())
	again, err := orphans.Lock(dir)
	check.OK(t, err)
	check.OK(t, again())
}

func TestStopWithoutStack(t *testing.T) {
	t.Parallel()
	stopped, err := orphans.Stop(t.Context(), t.TempDir())
	if stopped || err != nil {
		t.Errorf("got %v, %v, want false, nil", stopped, err)
	}
}

func stray(t *testing.T, dir, script string) (pid int, ended <-chan error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", script)
	cmd.Env = append(os.Environ(), orphans.Variable+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.OK(t, cmd.Start())
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd.Process.Pid, end
}

func TestEnd(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script string }{
		{"gentle", "exec sleep 600"},
		{"ignores SIGTERM", "trap '' TERM; while :; do sleep 600; done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pid, ended := stray(t, dir, tt.script)
			other, otherEnded := stray(t, dir+"-other", "exec sleep 600")
			waitFound(t, dir, pid)
			pids, err := orphans.End(t.Context(), dir)
			if err != nil || !slices.Contains(pids, pid) || slices.Contains(pids, other) {
				t.Errorf("got %v, %v, want %d and not %d", pids, err, pid, other)
			}
			<-ended
			select {
			case err := <-otherEnded:
				t.Errorf("the other stack's process ended: %v", err)
			default:
			}
		})
	}
}

func TestEndOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pid, ended := stray(t, dir, "exec sleep 600")
	waitFound(t, dir, pid)
	check.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
	if _, err := orphans.End(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func waitFound(t *testing.T, dir string, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		found, err := orphans.Find(dir)
		check.OK(t, err)
		if slices.Contains(found, pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got processes %v after 10 s, want %d", found, pid)
		}
	}
}
