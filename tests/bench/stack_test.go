package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const portBase = 30980

func (b *bench) stack(t *testing.T) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{Root: b.root, Dir: t.TempDir(), PortBase: portBase, Log: t.Output(), ManyCalls: true})
	check.OK(t, err)
	check.Closes(t, s)
	return s
}

func (b *bench) onStack(t *testing.T) {
	t.Helper()
	s := b.stack(t)
	site := stacktest.New(t, s)
	b.functions(t, s)
	b.webhook(t, site)
	b.endToEnd(t, site)
}

// endToEnd compares an app with its gate, with a gate that allows all requests, and without a
// gate.
func (b *bench) endToEnd(t *testing.T, site *stacktest.Site) {
	t.Helper()
	site.App("open")
	site.GatedApp("gated")
	always := start(t, b.build(t, "./tests/bench/target"), "", "ROLE=bare", "TLS=true")
	copied := alwaysAllow(t, site, "gated", "https://"+always.address)
	rate, burst, quota, period := 100_000.0, int64(1_000_000), int64(1_000_000_000), "month"
	p := site.Plan(wire.CreatePlan{Name: ptr("Bench"), Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period})
	var keys []string
	for range 200 {
		keys = append(keys, site.Key(p).Full)
	}
	hosts := []string{site.Host("open"), copied, site.Host("gated")}
	rates := make([][]float64, len(hosts))
	waits := make([][]float64, len(hosts))
	ingress := strings.TrimPrefix(site.Stack.Info().IngressURL, "http://")
	for range 2*rounds + 2 { // the turns are short, because all programs share the processors
		for i, host := range hosts {
			l := load.Load{
				Address: ingress, Connections: connections, Head: "GET / HTTP/1.1\r\nHost: " + host + "\r\n", Keys: keys, For: window, Now: time.Now,
			}
			r, err := l.Run(t.Context())
			if err != nil || r.Statuses[http.StatusOK] != r.Requests {
				t.Fatalf("%s: %v, %v", host, r.Statuses, err)
			}
			rates[i], waits[i] = append(rates[i], r.Rate()), append(waits[i], ms(r.P99))
		}
	}
	for i := range hosts {
		rates[i], waits[i] = rates[i][1:], waits[i][1:]
	}
	byAll, byOpen := shares(rates[2], rates[1]), shares(rates[2], rates[0])
	b.row("gated app through Traefik: requests per second, divided by those with an HTTP/2 forward-auth server that allows all requests",
		spread("%.2f", byAll)+fmt.Sprintf(": %.0f / %.0f", median(rates[2]), median(rates[1])), "0.97", median(byAll) >= 0.97)
	b.row("gated app through Traefik: requests per second, divided by those of an app without a gate", spread("%.2f", byOpen)+fmt.Sprintf(": %.0f / %.0f", median(rates[2]), median(rates[0])), "", true)
	b.note("99th percentile through Traefik: without a gate %.1f ms, with a gate that allows all requests %.1f ms, with the gate %.1f ms.", median(waits[0]), median(waits[1]), median(waits[2]))
}

func ptr[T any](v T) *T { return &v }

func (b *bench) webhook(t *testing.T, site *stacktest.Site) {
	t.Helper()
	site.App("deployed")
	url, token := site.Webhook("deployed")
	var took []float64
	for i := range 50 {
		body := []byte(fmt.Sprintf(`{"image":"registry.example/echo:v%d"}`, i))
		began := time.Now()
		if a := site.Post(url, body, "X-Service-Token", token); a.Status != http.StatusAccepted {
			t.Fatalf("call %d: got status %d, want 202: %s", i, a.Status, a.Body)
		}
		took = append(took, ms(time.Since(began)))
	}
	b.row("webhook call that deploys an image, until it is accepted", spread("%.0f ms", took), "50 ms", within(took, 50))
}

func (b *bench) functions(t *testing.T, s *stack.Stack) {
	t.Helper()
	var slowest, largest string
	var slow, large []float64
	for name := range s.Info().Functions {
		pid := s.Info().PIDs[name]
		var took []float64
		for range 7 {
			took = append(took, ms(firstResponse(t, pid)))
		}
		if median(took) > median(slow) {
			slow, slowest = took, name
		}
		if size := []float64{float64(resident(t, pid)) / 1e6}; median(size) > median(large) {
			large, largest = size, name
		}
	}
	b.row("slowest management function, from process start to the first response", spread("%.0f ms", slow)+": "+slowest, "60 ms", within(slow, 60))
	b.row("largest management function, resident size when idle", spread("%.0f MB", large)+": "+largest, "40 MB", within(large, 40))
}

// firstResponse starts a copy of a running process and waits for its first response.
func firstResponse(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	check.OK(t, err)
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	check.OK(t, err)
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	check.OK(t, err)
	own := func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"", "HOST", "PORT", "METRICS_PORT"}, name)
	}
	cmd := exec.Command(program)
	cmd.Env = append(slices.DeleteFunc(strings.Split(string(text), "\x00"), own), "HOST=127.0.0.1", "PORT="+port)
	var log bytes.Buffer
	cmd.Stderr = &log
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	began := time.Now()
	check.OK(t, cmd.Start())
	until(t, time.Minute, filepath.Base(program)+" responds", func(ctx context.Context) bool { return status(ctx, client, "http://"+address+"/healthz") != 0 })
	took := time.Since(began)
	check.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", program, err, log.String())
	}
	return took
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
