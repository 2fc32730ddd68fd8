package attack

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
)

func signature(token, body string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

func TestWebhookReplay(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "replay of a webhook call: unchanged, changed, to other apps, after token renewal",
		"unchanged: the first response; otherwise 401 or 409; nothing deployed")
	s := stacktest.New(t, world)
	s.App("hello")
	s.App("other")
	elsewhere := s.In("test")
	elsewhere.App("hello")
	address, token := s.Webhook("hello")
	otherAddress, _ := s.Webhook("other")
	elseAddress, _ := elsewhere.Webhook("hello")
	const body = `{"image":"registry.example/echo:v2"}`
	signed := signature(token, body)
	headers := []string{"X-Hub-Signature-256", signed, "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
	first := s.Post(address, []byte(body), headers...)
	if first.Status != http.StatusAccepted {
		t.Fatalf("first call: got %d %s, want %d", first.Status, first.Body, http.StatusAccepted)
	}
	s.Settled("hello", 2, "live")
	before := s.Snapshot()
	for range 5 {
		if a := s.Post(address, []byte(body), headers...); a.Status != http.StatusAccepted || a.Body != first.Body || a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("identical call: got %d %s", a.Status, a.Body)
		}
	}
	const second = `{"image":"registry.example/echo:v3"}`
	tests := []struct {
		name, address, body string
		status              int
		header              []string
	}{
		{"another app", otherAddress, body, 401, headers},
		{"another environment", elseAddress, body, 401, headers},
		{"another body", address, second, 401, headers},
		{"another body, the same delivery", address, second, 409, []string{"X-Hub-Signature-256", signature(token, second), headers[2], headers[3]}},
		{"an additional byte", address, body + " ", 401, headers},
		{"fields in another order", address, `{ "image":"registry.example/echo:v2"}`, 401, headers},
		{"a query", address + "?image=x", second, 401, headers},
		{"signature of nothing", address, body, 401, []string{"X-Hub-Signature-256", signature(token, "")}},
		{"signature under no token", address, body, 401, []string{"X-Hub-Signature-256", signature("", body)}},
		{"only the digest", address, body, 401, []string{"X-Hub-Signature-256", strings.TrimPrefix(signed, "sha256=")}},
		{"half the digest", address, body, 401, []string{"X-Hub-Signature-256", signed[:39]}},
		{"two signatures", address, body, 401, []string{"X-Hub-Signature-256", "sha256=00", "X-Hub-Signature-256", signed}},
		{"a list of signatures", address, body, 401, []string{"X-Hub-Signature-256", "sha256=00, " + signed}},
		{"SHA-1", address, body, 401, []string{"X-Hub-Signature", sha1Signature(token, body)}},
		{"SHA-1 in the other header", address, body, 401, []string{"X-Hub-Signature-256", sha1Signature(token, body)}},
		{"the signature as token", address, body, 401, []string{"X-Service-Token", signed}},
		{"a session", address, body, 401, []string{"Authorization", "Bearer " + adminToken(t)}},
		{"the token in the address", address + "?token=" + token, body, 401, nil},
		{"the token as bearer", address, body, 401, []string{"Authorization", "Bearer " + token}},
		{"the token in a cookie", address, body, 401, []string{"Cookie", "X-Service-Token=" + token}},
	}
	for _, test := range tests {
		if a := s.Post(test.address, []byte(test.body), test.header...); a.Status != test.status {
			t.Errorf("%s: got %d %s, want %d", test.name, a.Status, a.Body, test.status)
		}
	}
	unchanged(s, before)
	_, renewed := s.Webhook("hello")
	if a := s.Post(address, []byte(body), headers...); a.Status != http.StatusUnauthorized {
		t.Errorf("after the token renewal: got %d %s, want %d", a.Status, a.Body, http.StatusUnauthorized)
	}
	if h := s.History("hello"); len(h) != 2 || renewed == token {
		t.Errorf("%d revisions", len(h))
	}
	row.Measured(fmt.Sprintf("%d calls", len(tests)+6))
}

func sha1Signature(token, body string) string {
	m := hmac.New(sha1.New, []byte(token))
	m.Write([]byte(body))
	return "sha1=" + hex.EncodeToString(m.Sum(nil))
}

func TestWebhookFlood(t *testing.T) {
	stacktest.Insides(t, "it calls the function directly and measures its memory")
	row := attacks.Test(t, "400 unauthenticated webhook calls a second and 160 connections that stall after 1 MiB",
		"401 or 429, never 5xx; authenticated calls deploy; `webhook` uses at most 192 MiB")
	s := stacktest.New(t, world)
	s.App("hello")
	address, token := s.Webhook("hello")
	own := strings.TrimPrefix(address, world.Info().BaseURL)
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	defer senders.Wait()
	defer stop()
	for i := range 160 {
		senders.Go(func() { hold(ctx, atFunction("webhook"), own, i) })
	}
	refused, others := flood(ctx, &senders, atFunction("webhook"), own)
	const most = 15 * time.Second // includes up to three seconds for a registry lookup; the flood uses the same processors
	slowest := time.Duration(0)
	for i := range 20 {
		body := fmt.Sprintf(`{"image":"registry.example/echo:v2","commit":"%040x"}`, i)
		start := time.Now()
		if a := s.Post(address, []byte(body), "X-Service-Token", token); a.Status/100 != 2 {
			t.Errorf("call %d: got %d %s", i, a.Status, a.Body)
		}
		slowest = max(slowest, time.Since(start))
	}
	if slowest > most {
		t.Errorf("slowest call: got %s, want at most %s", slowest, most)
	}
	took := taken(t, "webhook")
	if took > 192<<20 {
		t.Errorf("memory of webhook: got %.0f bytes, want at most %d", took, 192<<20)
	}
	if others.Load() > 0 || refused.Load() == 0 {
		t.Errorf("got %d rejected calls and %d other responses, want no others", refused.Load(), others.Load())
	}
	measured := fmt.Sprintf("20 calls took at most %s; %d MiB", slowest.Round(time.Millisecond), int(took)>>20)
	row.Measured(measured)
	t.Log(measured)
}

func flood(ctx context.Context, senders *sync.WaitGroup, at, own string) (refused, others *atomic.Int64) {
	refused, others = &atomic.Int64{}, &atomic.Int64{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 40}}
	send := func(i int) {
		path := own
		if i%2 == 0 {
			path = fmt.Sprintf("/api/v1/webhook/made-up-%d/hello", i)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+path, strings.NewReader(`{"image":"a:1"}`))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%200))
		req.Header.Set("X-Service-Token", strings.Repeat("A", 43))
		res, err := client.Do(req)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
		} else {
			others.Add(1)
		}
	}
	next := make(chan int)
	for range 40 {
		senders.Go(func() {
			for i := range next {
				send(i)
			}
		})
	}
	senders.Go(func() {
		defer close(next)
		tick := time.NewTicker(time.Second / 400)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				next <- i
			case <-ctx.Done():
				return
			}
		}
	})
	return refused, others
}

// hold sends bodies without their last byte, one after the other, until ctx ends.
func hold(ctx context.Context, at, own string, i int) {
	const size = 1 << 20
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nX-Forwarded-For: 198.51.100.%d\r\n"+
		"X-Hub-Signature-256: sha256=%064d\r\nContent-Length: %d\r\n\r\n", own, i%200, 0, size)
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err != nil {
			continue
		}
		release := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, _ = io.WriteString(c, head+strings.Repeat(" ", size-1))
		_, _ = io.Copy(io.Discard, c)
		release()
		_ = c.Close()
	}
}

// taken returns the memory that a function's Go runtime reports, which excludes the race
// detector's.
func taken(t *testing.T, function string) float64 {
	t.Helper()
	for line := range strings.Lines(stacktest.Get(t, world.Info().Metrics[function]).Body) {
		var n float64
		if _, err := fmt.Sscanf(line, "go_memstats_sys_bytes %g", &n); err == nil {
			return n
		}
	}
	t.Fatalf("%s has no metric go_memstats_sys_bytes", function)
	return 0
}

// TestEvents sends events directly to the function, as an attacker inside the cluster could.
func TestEvents(t *testing.T) {
	stacktest.Insides(t, "it calls the function directly")
	t.Parallel()
	row := attacks.Test(t, "build events with a missing, wrong or encoded token; other paths", "401 for a wrong token, else 404; no build changes")
	event := `{"specversion":"1.0","id":"1","source":"x","type":"dev.tekton.event.pipelinerun.successful.v1","data":{"pipelineRun":{}}}`
	paths := map[string]int{
		"/events/x": 401, "/events/%00": 401, "/events/" + strings.Repeat("a", 5000): 401,
		"/events/": 404, "/events//": 404, "/events/../events/x": 404, "/events/x/y": 404, "/Events/x": 404, "/events/%2e%2e": 404,
	}
	for path, want := range paths {
		got := raw(t, atFunction("builds"), "POST "+path+" HTTP/1.1\r\nHost: builds\r\nConnection: close\r\nContent-Type: application/cloudevents+json\r\n"+
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(event), event))
		if a := answers(t, got); len(a) != 1 || a[0].Status != want {
			t.Errorf("%.40s: got %.200q, want status %d", path, got, want)
		}
	}
	row.Measured(fmt.Sprintf("%d", len(paths)))
}
