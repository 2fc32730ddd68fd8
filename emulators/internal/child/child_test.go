package child_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/tests/check"
)

const parentVariable = "CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if script := os.Getenv(parentVariable); script != "" {
		os.Exit(parent(script))
	}
	os.Exit(m.Run())
}

func parent(script string) int {
	output, log := io.Pipe()
	p, err := child.Start(child.Command{
		Name: "child", Path: "sh", Args: []string{"-c", script}, Log: log, Tree: true,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := io.Copy(os.Stdout, output); err != nil {
		fmt.Println(err)
	}
	<-p.Done()
	return 0
}

func shell(t *testing.T, script string, change func(*child.Command)) *child.Process {
	t.Helper()
	c := child.Command{Name: "test", Path: "sh", Args: []string{"-c", script}}
	if change != nil {
		change(&c)
	}
	p, err := child.Start(c)
	check.OK(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestClose(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		signal       syscall.Signal
	}{
		{name: "gentle", script: "exec sleep 600"},
		{name: "stopped", script: "exec sleep 600", signal: syscall.SIGSTOP},
		{name: "ignores SIGTERM", script: "trap '' TERM; while :; do sleep 1; done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := shell(t, tt.script, func(c *child.Command) { c.Grace = 500 * time.Millisecond })
			if tt.signal != 0 {
				check.OK(t, p.Signal(tt.signal))
			}
			check.OK(t, p.Close())
			if err := syscall.Kill(p.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("pid %d still exists: %v", p.Pid(), err)
			}
			if err := p.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

func TestErrHoldsTheLastLines(t *testing.T) {
	t.Parallel()
	script := "echo first; echo last; exit 3"
	for _, file := range []string{"", filepath.Join(t.TempDir(), "child.log")} {
		p := shell(t, script, func(c *child.Command) { c.LogFile = file })
		err := p.Err()
		for _, want := range []string{"test", "exit status 3", "last"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("log file %q: got error %q, want one with %q", file, err, want)
			}
		}
	}
}

func TestLogGetsAllOutput(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := shell(t, "echo out; echo err >&2", func(c *child.Command) { c.Log = &log })
	check.OK(t, p.Wait())
	if got := log.String(); got != "out\nerr\n" {
		t.Errorf("got log %q, want \"out\\nerr\\n\"", got)
	}
}

func TestStartOfMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(child.Command{Name: "none", Path: "/no/such/program"}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v, want an error that names the program", err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	p := shell(t, "exec sleep 600", nil)
	checks := 0
	err := p.Ready(t.Context(), func(context.Context) error {
		if checks++; checks < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || checks != 3 {
		t.Errorf("got %v after %d checks, want nil after 3", err, checks)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = p.Ready(ctx, func(context.Context) error { return errors.New("the reason") })
	if err == nil || !strings.Contains(err.Error(), "the reason") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the error of the last check", err)
	}
	check.OK(t, p.Close())
	if err := p.Ready(t.Context(), func(context.Context) error { return errors.New("no") }); err == nil {
		t.Error("Ready of an ended child: got no error, want one")
	}
}

// TestKilledParent checks that the child and its children end when the parent is killed.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check.OK(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), parentVariable+"=sleep 600 & echo $$ $!; wait")
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(line[:n])) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("got output %q, want two pids", line[:n])
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("got output %q, want two pids", line[:n])
	}
	check.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range pids {
		ended(t, pid)
	}
}

func ended(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d still runs a minute after its parent", pid)
		}
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	starts := 0
	s, err := child.Run(t.Context(), "service", 10*time.Second, func() (child.Command, child.Check) {
		starts++
		return child.Command{Path: "sleep", Args: []string{"600"}}, func(context.Context) error { return nil }
	})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Kill() })
	first := s.Pid()
	check.OK(t, s.Restart(t.Context()))
	if s.Pid() == first || starts != 2 {
		t.Errorf("got pid %d, previously %d, and %d starts, want another pid and 2 starts", s.Pid(), first, starts)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestServiceThatNeverResponds(t *testing.T) {
	t.Parallel()
	s, err := child.Run(t.Context(), "service", 50*time.Millisecond, func() (child.Command, child.Check) {
		return child.Command{Path: "sleep", Args: []string{"600"}}, func(context.Context) error { return errors.New("unresponsive") }
	})
	if err == nil {
		_ = s.Kill()
	}
	if err == nil || !strings.Contains(err.Error(), "unresponsive") || !strings.Contains(err.Error(), "no response within 50ms") {
		t.Errorf("got %v, want both reasons", err)
	}
}
