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

// program is the stack as a process of its own.
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

// said waits until the program has printed something.
func (p *program) said(t *testing.T, text string) {
	t.Helper()
	check.Eventually(t, "say "+text, 2*time.Minute, func() error {
		ended := p.over()
		p.mu.Lock()
		defer p.mu.Unlock()
		if strings.Contains(p.out.String(), text) {
			return nil
		}
		if ended {
			t.Fatalf("it ended before it said %q; it said\n%s", text, p.out.String())
		}
		return fmt.Errorf("it said %q", p.out.String())
	})
}

// over tells whether the program has ended.
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

// up runs "stack up" on ports of its own.
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
		_ = p.Wait() // killed, most often
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

// A stack that is killed in the middle of its start leaves nothing, and the next
// one starts in its place; down ends that one.
func TestKilledHalfWay(t *testing.T) {
	file, base := buildProgram(t), freeBase(t)
	first := up(t, file, base)
	first.said(t, "kube-apiserver   ready")
	check.OK(t, first.Process.Kill())
	<-first.ended
	gone(t, first.dir, base)

	second := up(t, file, base)
	second.said(t, "traefik          ready")
	if got := down(t, file, base); got != "the stack is down" {
		t.Errorf("down said %q", got)
	}
	<-second.ended
	gone(t, second.dir, base)
	if got := down(t, file, base); got != "no stack is running" {
		t.Errorf("second down said %q", got)
	}
}

func TestInterruptedHalfWay(t *testing.T) {
	file, base := buildProgram(t), freeBase(t)
	p := up(t, file, base)
	p.said(t, "firestore        ready")
	check.OK(t, p.Process.Signal(os.Interrupt))
	<-p.ended
	if ports := open(t.Context(), base); len(ports) > 0 {
		t.Errorf("open after its end: %v", ports)
	}
	gone(t, p.dir, base)
}
