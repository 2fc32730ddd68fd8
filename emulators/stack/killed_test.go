package stack_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
)

type program struct {
	*exec.Cmd

	dir   string
	base  int
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) waitOutput(t *testing.T, text string) {
	t.Helper()
	check.Eventually(t, "print "+text, 2*time.Minute, func() error {
		ended := p.over()
		p.mu.Lock()
		defer p.mu.Unlock()
		if strings.Contains(p.out.String(), text) {
			return nil
		}
		if ended {
			t.Fatalf("the program ended before it printed %q; output:\n%s", text, p.out.String())
		}
		return fmt.Errorf("output: %q", p.out.String())
	})
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stack")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", file, "./cmd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return file
}

func up(t *testing.T, file string, base int) *program {
	t.Helper()
	absolute, err := filepath.Abs(root)
	check.OK(t, err)
	p := &program{dir: stack.DefaultDir(absolute, base), base: base, ended: make(chan struct{})}
	p.Cmd = exec.CommandContext(context.WithoutCancel(t.Context()), file, "up")
	p.Dir = root
	p.Env = append(os.Environ(), "SLUICE_PORT_BASE="+strconv.Itoa(base))
	p.Stdout, p.Stderr = p, p
	check.OK(t, p.Start())
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		if err := os.RemoveAll(p.dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func down(t *testing.T, file string, base int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), file, "down")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "SLUICE_PORT_BASE="+strconv.Itoa(base))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestKilledHalfWay kills a stack while it starts. It checks that no process remains and that the
// next stack starts in the same directory.
func TestKilledHalfWay(t *testing.T) {
	file, base := buildProgram(t), freeBase(t)
	first := up(t, file, base)
	first.waitOutput(t, "kube-apiserver   ready")
	check.OK(t, first.Process.Kill())
	<-first.ended
	gone(t, first.dir, base)

	second := up(t, file, base)
	second.waitOutput(t, "traefik          ready")
	if got := down(t, file, base); got != "The stack is stopped." {
		t.Errorf("down: got %q, want \"The stack is stopped.\"", got)
	}
	<-second.ended
	gone(t, second.dir, base)
	if got := down(t, file, base); got != "No stack is running." {
		t.Errorf("second down: got %q, want \"No stack is running.\"", got)
	}
}

func TestInterruptedHalfWay(t *testing.T) {
	file, base := buildProgram(t), freeBase(t)
	p := up(t, file, base)
	p.waitOutput(t, "firestore        ready")
	check.OK(t, p.Process.Signal(os.Interrupt))
	<-p.ended
	if ports := open(t.Context(), base); len(ports) > 0 {
		t.Errorf("got open ports %v after the end, want none", ports)
	}
	gone(t, p.dir, base)
}
