package funcmain

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/tests/check"
)

type fakeStore struct {
	called func(op, outcome string, took time.Duration, lasting bool)
}

func (f *fakeStore) Observe(called func(op, outcome string, took time.Duration, lasting bool)) {
	f.called = called
}

func (*fakeStore) Close() error { return nil }

func scrape(t *testing.T, r *running) string {
	t.Helper()
	res, err := get(t, r.metrics)
	check.OK(t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %d, %v", res.StatusCode, err)
	}
	return string(b)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	api := httpapi.New(slog.New(slog.DiscardHandler))
	api.Handle("GET /things/{name}", noContent)
	api.Handle("GET /boom", func(http.ResponseWriter, *http.Request) error { panic("boom") })
	api.Mount("GET /bang", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("bang") }))
	events := Events(slog.New(slog.DiscardHandler), func(context.Context, cloudevents.Event) error { return nil })
	api.Mount("POST /{$}", events)
	st := &fakeStore{}
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_own_total", Help: "A function's own."})
	r := serveIt(t, &Function{
		Handler: api, Store: st, Collectors: []prometheus.Collector{own},
		Private: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "for operators") }),
	})
	if !strings.Contains(scrape(t, r), `sluice_http_request_duration_seconds_count{route="GET /things/{name}"} 0`) {
		t.Error("a route has no series before its first request")
	}
	for _, path := range []string{"/things/a", "/things/b", "/boom", "/bang", "/elsewhere"} {
		res, err := get(t, r.url+path)
		check.OK(t, err)
		_ = res.Body.Close()
	}
	event := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte("{}")))
	for k, v := range map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "Content-Type": "application/json"} {
		event.Header.Set(k, v)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/", event.Body)
	check.OK(t, err)
	req.Header = event.Header
	if res, err := http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	} else {
		_ = res.Body.Close()
	}
	st.called("commit", "OK", time.Millisecond, false)
	st.called("listen", "Unavailable", time.Hour, true)
	text := scrape(t, r)
	for _, want := range []string{
		`sluice_http_requests_total{code="204",method="GET",route="GET /things/{name}"} 2`,
		`sluice_http_requests_total{code="500",method="GET",route="GET /boom"} 1`,
		`sluice_http_requests_total{code="500",method="GET",route="GET /bang"} 1`,
		`sluice_http_requests_total{code="404",method="GET",route="none"} 1`,
		`sluice_http_requests_total{code="200",method="POST",route="POST event"} 1`,
		`sluice_http_request_duration_seconds_count{route="GET /things/{name}"} 2`,
		`sluice_api_panics_total 1`, `sluice_http_panics_total 1`,
		`sluice_store_operations_total{op="commit",outcome="OK"} 1`,
		`sluice_store_operations_total{op="listen",outcome="Unavailable"} 1`,
		`sluice_store_operation_duration_seconds_count{op="commit"} 1`,
		`sluice_build_info{function="test",go_version="go`, "sluice_own_total 0", "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics: want %s", want)
		}
	}
	for _, not := range []string{"/elsewhere", `duration_seconds_count{op="listen"}`, `route="GET /healthz"`} {
		if strings.Contains(text, not) {
			t.Errorf("metrics: unexpected %s", not)
		}
	}
	res, err := get(t, strings.TrimSuffix(r.metrics, "/metrics")+"/other")
	check.OK(t, err)
	defer func() { _ = res.Body.Close() }()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "for operators" {
		t.Errorf("private port: got %q, %v", b, err)
	}
	if res, err := get(t, r.url+"/metrics"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("/metrics on the public port: got %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
}

func TestCardinality(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux() // lists no routes and creates patterns when it redirects
	mux.HandleFunc("/tree/{name}/", func(http.ResponseWriter, *http.Request) {})
	m := newMetrics("test", &Function{Handler: mux}, nil)
	o := &observer{next: mux, metrics: m, clients: reqctx.NewClients(reqctx.Proxies{}, ""), log: slog.New(slog.DiscardHandler), now: time.Now}
	for i := range 5000 {
		for _, path := range []string{"/tree/x", "/", "/tree/x/y", "//a/../"} {
			r := httptest.NewRequest("M"+strconv.Itoa(i), "/", nil)
			r.URL.Path = path + strconv.Itoa(i)
			o.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	families, err := m.registry.Gather()
	check.OK(t, err)
	for _, f := range families {
		if n := len(f.GetMetric()); n > 3*maxRoutes {
			t.Errorf("%s: got %d series", f.GetName(), n)
		}
	}
}

// The handler, its log and the client see the same ID and address.
func TestRequestReachesTheHandler(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var seen reqctx.Request
	api := httpapi.New(slog.New(slog.NewJSONHandler(&log, nil)))
	api.Handle("GET /x", func(w http.ResponseWriter, r *http.Request) error {
		seen, _ = reqctx.FromContext(r.Context())
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	var proxies reqctx.Proxies
	if err := proxies.UnmarshalText([]byte("192.0.2.0/24")); err != nil { // address of httptest's requests
		t.Fatal(err)
	}
	o := &observer{next: api, metrics: newMetrics("test", &Function{Handler: api}, nil), clients: reqctx.NewClients(proxies, ""), log: slog.New(slog.DiscardHandler), now: time.Now}
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.Header.Set("X-Request-Id", "r1")
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	if seen != (reqctx.Request{ID: "r1", Address: "203.0.113.9"}) {
		t.Errorf("request in the handler: got %+v", seen)
	}
	if w.Header().Get("X-Request-Id") != "r1" || strings.Count(log.String(), `"request_id":"r1"`) != 1 {
		t.Errorf("got header %v, log %s", w.Header(), &log)
	}
}

func TestEventsWorkInARequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, attribute, id, want string }{
		{"named", "r1", "e1", "r1"},
		{"not named", "", "e1", "e1"},
		{"named badly", "a b", "e1", "e1"},
		{"nothing good", "a b", "é", ""},
	} {
		e := cloudevents.NewEvent()
		e.SetID(tt.id)
		if tt.attribute != "" {
			e.SetExtension("requestid", tt.attribute)
		}
		ctx := inRequest(t.Context(), e)
		if got := reqctx.ID(ctx); tt.want != "" && got != tt.want || !reqctx.ValidID(got) {
			t.Errorf("%s: got request ID %q", tt.name, got)
		}
		if reqctx.ActorFrom(ctx).Kind != reqctx.System {
			t.Errorf("%s: got actor %v", tt.name, reqctx.ActorFrom(ctx))
		}
	}
}

func noContent(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
