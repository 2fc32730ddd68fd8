package stack_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/emulators/stack/internal/leftover"
)

const (
	root      = "../.."
	portCount = 11 // of a stack, see ports.go
)

// freeBase finds a port base of which all ports are free.
func freeBase(t *testing.T) int {
	t.Helper()
	for range 100 {
		base := 20000 + 16*rand.IntN(700)
		if len(open(t.Context(), base)) == 0 {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

// open gives the ports of a stack on which something listens.
func open(ctx context.Context, base int) []int {
	var list []int
	var d net.Dialer
	for port := base; port < base+portCount; port++ {
		for _, host := range []string{"127.0.0.1", "::1"} {
			if c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
				_ = c.Close()
				list = append(list, port)
			}
		}
	}
	return list
}

// eventually waits until check gives nil.
func eventually(t *testing.T, what string, limit time.Duration, check func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}

// gone waits until no process and no port of a stack is left.
func gone(t *testing.T, dir string, base int) {
	t.Helper()
	eventually(t, "leave nothing behind", 10*time.Second, func() error {
		left, err := leftover.Find(dir)
		if err != nil {
			return err
		}
		if ports := open(t.Context(), base); len(left) > 0 || len(ports) > 0 {
			return fmt.Errorf("processes %v, ports %v", left, ports)
		}
		return nil
	})
}

// fast makes the checkers ready soon.
func fast() map[string]map[string]string {
	return map[string]map[string]string{"checker": {"CANARY_INTERVAL": "1s"}}
}

func TestStack(t *testing.T) {
	t.Parallel()
	dir, base := t.TempDir(), freeBase(t)
	s, err := stack.Start(t.Context(), stack.Options{
		Root: root, Dir: dir, PortBase: base, Log: t.Output(), Env: fast(), Seed: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	t.Cleanup(func() {
		if !closed {
			_ = s.Close()
		}
	})
	t.Run("stack.json", func(t *testing.T) { checkInfo(t, dir, s) })
	t.Run("the demo app answers to the demo key alone", func(t *testing.T) { checkDemo(t, s.Info()) })
	t.Run("Secrets are mounted and followed", func(t *testing.T) { checkMounts(t, dir, s.Info()) })
	t.Run("a function that ends is started again", func(t *testing.T) { checkSupervision(t, s) })
	t.Run("a killed process stays down until it is restarted", func(t *testing.T) { checkKill(t, s) })
	t.Run("the directory is taken", func(t *testing.T) {
		_, err := stack.Start(t.Context(), stack.Options{Root: root, Dir: dir, PortBase: freeBase(t)})
		if !errors.Is(err, leftover.ErrRunning) {
			t.Errorf("a second stack: %v, want ErrRunning", err)
		}
	})
	t.Run("the ports are taken", func(t *testing.T) {
		_, err := stack.Start(t.Context(), stack.Options{Root: root, Dir: t.TempDir(), PortBase: base})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d is in use", base)) {
			t.Errorf("a second stack: %v, want the port named", err)
		}
	})
	closed = true
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(open(t.Context(), base)) > 0 {
		t.Errorf("open after Close: %v", open(t.Context(), base))
	}
	gone(t, dir, base)
	if _, err := stack.ReadInfo(dir); err == nil {
		t.Error("stack.json is left")
	}
}

func checkInfo(t *testing.T, dir string, s *stack.Stack) {
	t.Helper()
	read, err := stack.ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Info(), read); diff != "" {
		t.Errorf("Info and stack.json (-info +file):\n%s", diff)
	}
	file, err := os.Stat(filepath.Join(dir, "stack.json"))
	if err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", file.Mode(), err)
	}
	for _, name := range []string{"firestore", "etcd", "kube-apiserver", "traefik", "workloads", "session", "checker-0", "checker-1"} {
		if pid := read.PIDs[name]; pid <= 0 || syscall.Kill(pid, 0) != nil {
			t.Errorf("%s has pid %d, which does not run", name, pid)
		}
	}
}

// ask sends a request to the demo app.
func ask(ctx context.Context, info stack.Info, key string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, info.IngressURL+"/", nil)
	if err != nil {
		return 0, err
	}
	req.Host = strings.TrimPrefix(info.Demo.AppURL, "http://")
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

func checkDemo(t *testing.T, info stack.Info) {
	t.Helper()
	for key, want := range map[string]int{info.Demo.Key: http.StatusOK, "": http.StatusUnauthorized} {
		if got, err := ask(t.Context(), info, key); got != want || err != nil {
			t.Errorf("with key %v: status %d, %v; want %d", key != "", got, err, want)
		}
	}
}

func checkMounts(t *testing.T, dir string, info stack.Info) {
	t.Helper()
	names := func(mount string) []string {
		var list []string
		entries, err := os.ReadDir(filepath.Join(dir, "secrets", mount))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") {
				list = append(list, filepath.Ext(e.Name()))
			}
		}
		slices.Sort(list)
		return list
	}
	want := map[string][]string{"session-keys": {".key", ".pub"}, "session-public-keys": {".pub"}}
	for mount, extensions := range want {
		if diff := cmp.Diff(extensions, names(mount)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mount, diff)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := client.CoreV1().Secrets("sluice-system")
	secret, err := secrets.Get(t.Context(), "sluice-session-keys", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rotate(t, secret)
	if _, err := secrets.Update(t.Context(), secret, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "mount the second key", 10*time.Second, func() error {
		if got := len(names("session-public-keys")); got != 2 {
			return fmt.Errorf("%d public keys", got)
		}
		return nil
	})
}

// rotate adds a second key, of an earlier name so that the first one still signs.
func rotate(t *testing.T, secret *core.Secret) {
	t.Helper()
	added := map[string][]byte{}
	for name, value := range secret.Data {
		added["2000-01-01a"+filepath.Ext(name)] = value
	}
	for name, value := range added {
		secret.Data[name] = value
	}
}

func checkSupervision(t *testing.T, s *stack.Stack) {
	t.Helper()
	before, err := s.Pid("keys")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "start keys again", 20*time.Second, func() error {
		now, err := s.Pid("keys")
		if err == nil && now == before {
			err = errors.New("still the old process")
		}
		return err
	})
}

func checkKill(t *testing.T, s *stack.Stack) {
	t.Helper()
	for _, name := range []string{"checker-0", "checker-1"} {
		if err := s.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	info := s.Info()
	if got, err := ask(t.Context(), info, info.Demo.Key); err != nil || got < 500 {
		t.Errorf("without checkers: status %d, %v; want a refusal", got, err)
	}
	for _, name := range []string{"checker-0", "checker-1"} {
		if err := s.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "serve again", 20*time.Second, func() error {
		got, err := ask(t.Context(), info, info.Demo.Key)
		if err == nil && got != http.StatusOK {
			err = fmt.Errorf("status %d", got)
		}
		return err
	})
	if err := s.Kill("no-such-process"); err == nil {
		t.Error("a process that does not exist was killed")
	}
}

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
	eventually(t, "say "+text, 2*time.Minute, func() error {
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
	if err != nil {
		t.Fatal(err)
	}
	p := &program{dir: stack.DefaultDir(absolute, base), base: base, ended: make(chan struct{})}
	p.Cmd = exec.CommandContext(context.WithoutCancel(t.Context()), file, "up")
	p.Dir = root
	p.Env = append(os.Environ(), "SLUICE_PORT_BASE="+strconv.Itoa(base))
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
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
	t.Parallel()
	file, base := buildProgram(t), freeBase(t)
	first := up(t, file, base)
	first.said(t, "kube-apiserver   ready")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
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
	t.Parallel()
	file, base := buildProgram(t), freeBase(t)
	p := up(t, file, base)
	p.said(t, "firestore        ready")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if ports := open(t.Context(), base); len(ports) > 0 {
		t.Errorf("open after its end: %v", ports)
	}
	gone(t, p.dir, base)
}

// Keys must not reach a log: neither the full key nor a header that holds it.
func TestAccessLogHasNoHeaders(t *testing.T) {
	t.Parallel()
	dir, base := t.TempDir(), freeBase(t)
	s, err := stack.Start(t.Context(), stack.Options{Root: root, Dir: dir, PortBase: base, Log: t.Output(), Env: fast(), Seed: true})
	if err != nil {
		t.Fatal(err)
	}
	info := s.Info()
	if _, err := ask(t.Context(), info, info.Demo.Key); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	if err != nil || len(logs) < 10 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(info.Demo.Key)) || bytes.Contains(b, []byte(info.Admin.Password)) {
			t.Errorf("%s holds a secret", filepath.Base(log))
		}
	}
	lines := accessLines(t, filepath.Join(dir, "logs", "traefik-access.log"))
	if len(lines) == 0 {
		t.Error("the access log is empty")
	}
	for _, line := range lines {
		for field := range line {
			if strings.HasPrefix(field, "request_") || strings.HasPrefix(field, "origin_") {
				t.Errorf("the access log has the field %s", field)
			}
		}
	}
}

func accessLines(t *testing.T, file string) []map[string]any {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []map[string]any
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		var line map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}
