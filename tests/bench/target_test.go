package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

type target struct {
	address string
	pid     int
}

func (b *bench) build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// start runs a program until the test ends. It waits until the path ready, if any, returns 200.
func start(t *testing.T, program, ready string, env ...string) target {
	t.Helper()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	check.OK(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), append(env, "HOST=127.0.0.1", "PORT="+port)...)
	check.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	if ready != "" {
		until(t, 2*time.Minute, program+" is ready", func(ctx context.Context) bool {
			return status(ctx, http.DefaultClient, "http://"+address+ready) == http.StatusOK
		})
	}
	return target{address: address, pid: cmd.Process.Pid}
}

func until(t *testing.T, limit time.Duration, what string, done func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}

// status returns 0 without a response.
func status(ctx context.Context, c *http.Client, url string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	res, err := c.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// resident returns bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check.OK(t, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kb, err := strconv.Atoi(fields[1])
			check.OK(t, err)
			return kb << 10
		}
	}
	t.Fatalf("process %d has no resident size", pid)
	return 0
}

// processor returns the processor time of all threads.
func processor(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check.OK(t, err)
	// Fields 14 and 15 follow the name in parentheses, in units of 10 ms.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		check.OK(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
