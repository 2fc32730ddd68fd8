package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/emulators/internal/orphans"
	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	root      = "../.."
	portCount = 11 // see environment.go
)

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

func gone(t *testing.T, dir string, base int) {
	t.Helper()
	check.Eventually(t, "leave nothing behind", 10*time.Second, func() error {
		left, err := orphans.Find(dir)
		if err != nil {
			return err
		}
		if ports := open(t.Context(), base); len(left) > 0 || len(ports) > 0 {
			return fmt.Errorf("processes %v, ports %v", left, ports)
		}
		return nil
	})
}

func fast() map[string]map[string]string {
	return map[string]map[string]string{"checker": {"CANARY_INTERVAL": "1s"}}
}

func TestStack(t *testing.T) {
	dir, base := t.TempDir(), freeBase(t)
	s, err := stack.Start(t.Context(), stack.Options{
		Root: root, Dir: dir, PortBase: base, Log: t.Output(), Env: fast(), Seed: true,
	})
	check.OK(t, err)
	closed := false
	t.Cleanup(func() {
		if !closed {
			_ = s.Close()
		}
	})
	t.Run("stack.json", func(t *testing.T) { checkInfo(t, dir, s) })
	t.Run("the demo app accepts only the demo key", func(t *testing.T) { checkDemo(t, s.Info()) })
	t.Run("Secrets are mounted and updated", func(t *testing.T) { checkMounts(t, dir, s.Info()) })
	t.Run("a function that ends is restarted", func(t *testing.T) { checkSupervision(t, s) })
	t.Run("a killed process stays down until it is restarted", func(t *testing.T) { checkKill(t, s) })
	t.Run("the directory is in use", func(t *testing.T) {
		_, err := stack.Start(t.Context(), stack.Options{Root: root, Dir: dir, PortBase: freeBase(t)})
		if !errors.Is(err, orphans.ErrRunning) {
			t.Errorf("second stack: got %v, want ErrRunning", err)
		}
	})
	t.Run("the ports are in use", func(t *testing.T) {
		_, err := stack.Start(t.Context(), stack.Options{Root: root, Dir: t.TempDir(), PortBase: base})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d is in use", base)) {
			t.Errorf("second stack: got %v, want an error that names the port", err)
		}
	})
	info := s.Info()
	closed = true
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(open(t.Context(), base)) > 0 {
		t.Errorf("got open ports %v after Close, want none", open(t.Context(), base))
	}
	gone(t, dir, base)
	if _, err := os.Stat(filepath.Join(dir, "stack.json")); err == nil {
		t.Error("stack.json exists after Close")
	}
	checkLogs(t, dir, info)
}

func checkInfo(t *testing.T, dir string, s *stack.Stack) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	check.OK(t, err)
	var read stack.Info
	check.OK(t, json.Unmarshal(text, &read))
	if diff := cmp.Diff(s.Info(), read); diff != "" {
		t.Errorf("Info and stack.json (-info +file):\n%s", diff)
	}
	file, err := os.Stat(filepath.Join(dir, "stack.json"))
	if err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", file.Mode(), err)
	}
	for _, name := range []string{"firestore", "etcd", "kube-apiserver", "traefik", "workloads", "session", "checker-0", "checker-1"} {
		if pid := read.PIDs[name]; pid <= 0 || syscall.Kill(pid, 0) != nil {
			t.Errorf("%s: pid %d does not run", name, pid)
		}
	}
}

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
			t.Errorf("with key %v: got status %d, %v, want %d", key != "", got, err, want)
		}
	}
}

func checkSupervision(t *testing.T, s *stack.Stack) {
	t.Helper()
	before, err := s.Pid("keys")
	check.OK(t, err)
	check.OK(t, syscall.Kill(before, syscall.SIGKILL))
	check.Eventually(t, "restart keys", 20*time.Second, func() error {
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
		check.OK(t, s.Kill(name))
	}
	info := s.Info()
	if got, err := ask(t.Context(), info, info.Demo.Key); err != nil || got < 500 {
		t.Errorf("without checkers: got status %d, %v, want 500 or higher", got, err)
	}
	for _, name := range []string{"checker-0", "checker-1"} {
		check.OK(t, s.Restart(t.Context(), name))
	}
	check.Eventually(t, "serve again", 20*time.Second, func() error {
		got, err := ask(t.Context(), info, info.Demo.Key)
		if err == nil && got != http.StatusOK {
			err = fmt.Errorf("status %d", got)
		}
		return err
	})
	if err := s.Kill("no-such-process"); err == nil {
		t.Error("kill of an unknown process: got no error, want one")
	}
}
