package funcmain

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/tests/check"
)

type running struct {
	url     string
	metrics string // URL
	stop    context.CancelFunc
	done    chan error
}

func freePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
}

func serveIt(t *testing.T, f *Function) *running {
	t.Helper()
	return serveWith(t, f, func(*Config) {})
}

func serveWith(t *testing.T, f *Function, change func(*Config)) *running {
	t.Helper()
	port, metrics := freePort(t), freePort(t)
	ctx, stop := context.WithCancel(context.Background())
	base := "http://127.0.0.1:"
	r := &running{
		url: base + strconv.Itoa(port), metrics: base + strconv.Itoa(metrics) + "/metrics",
		stop: stop, done: make(chan error, 1),
	}
	cfg := Config{Host: "127.0.0.1", Port: port, MetricsPort: metrics, Drain: 5, Read: 5, Write: 5, Idle: 5, Header: 1, Target: "test"}
	change(&cfg)
	log, h := slog.New(slog.DiscardHandler), &hosted{name: "test", build: func(context.Context, *slog.Logger) (*Function, error) { return f, nil }}
	check.OK(t, h.open(ctx, cfg, log))
	h.opened.Do(func() {})
	go func() { r.done <- serve(ctx, cfg, log, h) }()
	t.Cleanup(stop)
	for begin := time.Now(); ; {
		res, err := get(t, r.url+"/healthz")
		if err == nil {
			_ = res.Body.Close()
			return r
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check.OK(t, err)
	return http.DefaultClient.Do(req)
}

// A request in progress at SIGTERM gets its response, followed by the end of Background and
// Close.
func TestDrain(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
	r := serveIt(t, &Function{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-release
			note("answered")
			_, _ = io.WriteString(w, "whole")
		}),
		Background: func(ctx context.Context) error { <-ctx.Done(); note("background"); return ctx.Err() },
	})
	answer := make(chan string, 1)
	go func() {
		res, err := get(t, r.url+"/")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		answer <- string(b)
	}()
	<-entered
	r.stop()
	close(release)
	if got := <-answer; got != "whole" {
		t.Errorf("response: got %q", got)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if strings.Join(order, ",") != "answered,background" {
		t.Errorf("order: got %v", order)
	}
}

// An idle connection whose TLS handshake ends after SIGTERM does not delay the shutdown.
func TestDrainOfALateConnection(t *testing.T) {
	t.Parallel()
	with := httptest.NewUnstartedServer(nil)
	with.StartTLS()
	certificate := with.TLS.Certificates[0]
	with.Close()
	entered, release := make(chan struct{}), make(chan struct{})
	l, err := listen(t.Context(), "127.0.0.1", 0)
	check.OK(t, err)
	cfg := Config{Drain: 15, Read: 60, Write: 60, Idle: 60, Header: 60}
	f := &Function{TLS: &tls.Config{
		NextProtos: []string{"h2"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			close(entered)
			<-release
			return &certificate, nil
		},
	}}
	s := start(l, cfg, slog.New(slog.DiscardHandler), http.NotFoundHandler(), f, func(err error) { t.Error(err) })
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(release) }))
	gone := make(chan error, 1)
	go func() { gone <- idleOverHTTP2(t.Context(), l.Addr().String()) }()
	<-entered
	if err := shutdown(t.Context(), cfg, []*http.Server{s}); err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

func idleOverHTTP2(ctx context.Context, address string) error {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty settings
	if _, err := io.WriteString(conn, hello); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

func TestBackgroundFailureEndsTheProcess(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := make(chan struct{})
	r := serveIt(t, &Function{
		Handler:    http.NotFoundHandler(),
		Background: func(context.Context) error { <-fail; return broken },
	})
	close(fail)
	if err := <-r.done; !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}
}

func TestSlowClient(t *testing.T) {
	t.Parallel()
	r := serveWith(t, &Function{Handler: http.NotFoundHandler()}, func(c *Config) { c.Read = 60 })
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	check.OK(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHo"); err != nil {
		t.Fatal(err)
	}
	check.OK(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connection after the header timeout: got %v", err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	var got []string
	h := Events(slog.New(slog.DiscardHandler), func(_ context.Context, e cloudevents.Event) error {
		if e.Type() == "fail" {
			return errors.New("try again")
		}
		got = append(got, e.Type()+" "+e.Subject())
		return nil
	})
	r := serveIt(t, &Function{Handler: h})
	structured, err := json.Marshal(map[string]any{"specversion": "1.0", "id": "1", "source": "/test", "type": "structured", "subject": "s"})
	check.OK(t, err)
	tests := []struct {
		name   string
		header map[string]string
		body   string
		want   int
	}{
		{"binary", map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/test", "ce-type": "binary", "ce-subject": "s"}, "", 2},
		{"structured", map[string]string{"Content-Type": "application/cloudevents+json"}, string(structured), 2},
		{"broken", map[string]string{"Content-Type": "application/cloudevents+json"}, string(structured[:20]), 4},
		{"batch", map[string]string{"Content-Type": "application/cloudevents-batch+json"}, "[" + string(structured) + "]", 4},
		{"no event", map[string]string{"Content-Type": "text/plain"}, "hello", 4},
		{"fails", map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/test", "ce-type": "fail"}, "", 5},
	}
	for _, test := range tests {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, bytes.NewReader([]byte(test.body)))
		check.OK(t, err)
		for k, v := range test.header {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		_ = res.Body.Close()
		if res.StatusCode/100 != test.want {
			t.Errorf("%s: got status %d", test.name, res.StatusCode)
		}
	}
	if strings.Join(got, ",") != "binary s,structured s" {
		t.Errorf("received: got %v", got)
	}
}

func TestTarget(t *testing.T) {
	t.Setenv("FUNCTION_TARGET", "other")
	h := &hosted{name: "this", build: func(context.Context, *slog.Logger) (*Function, error) { return nil, errors.New("built") }}
	err := h.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got error %v", err)
	}
}
