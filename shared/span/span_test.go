package span

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	sampled = "00-" + traceID + "-b7ad6b7169203331-01"
)

func exporting(t *testing.T, log *slog.Logger, settings map[string]string) (*Tracer, *spantest.Receiver) {
	t.Helper()
	r := spantest.New(t)
	settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = r.URL
	return open(t, log, settings), r
}

func open(t *testing.T, log *slog.Logger, settings map[string]string) *Tracer {
	t.Helper()
	for name, value := range settings {
		t.Setenv(name, value)
	}
	cfg := Settings{
		Endpoint: settings["OTEL_EXPORTER_OTLP_ENDPOINT"], Headers: settings["OTEL_EXPORTER_OTLP_HEADERS"],
		Sampler: settings["OTEL_TRACES_SAMPLER"], Ratio: settings["OTEL_TRACES_SAMPLER_ARG"], Queue: 2048,
	}
	tracer, err := Open(t.Context(), cfg, "test", log)
	check.OK(t, err)
	return tracer
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// The spans of a request are in the caller's trace, with only the documented fields.
func TestSpans(t *testing.T) {
	tracer, r := exporting(t, quiet(), map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20planted", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=here"})
	var told string
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = r.Header.Get(reqctx.ParentHeader)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer to.Close()

	ctx, request := tracer.Server(t.Context(), sampled)
	below, work := Start(ctx, Internal, "reconcile", OfApp(app.Ref{Namespace: "shop-prod", Name: "hello"})...)
	client := &http.Client{Transport: Transport(http.DefaultTransport, "kubernetes", true)}
	req, err := http.NewRequestWithContext(below, http.MethodGet, to.URL+"/path-planted?query=planted", nil)
	check.OK(t, err)
	req.Header.Set("Authorization", "planted")
	res, err := client.Do(req)
	check.OK(t, err)
	_ = res.Body.Close()
	work.End(errors.New("error-planted"))
	request.Set(Field{Problem, "internal"})
	request.EndHTTP("POST /api/v1/projects/{project}", http.MethodPost, http.StatusInternalServerError, "r1")
	tracer.Close(t.Context())

	all := map[string]spantest.Span{}
	for _, s := range r.Spans() {
		if all[s.Name] = s; s.Trace != traceID || s.Service != "sluice-test" {
			t.Errorf("unexpected trace or service: %+v", s)
		}
	}
	top, middle, call := all["POST /api/v1/projects/{project}"], all["reconcile"], all["kubernetes GET"]
	if len(all) != 3 || top.Parent != "b7ad6b7169203331" || middle.Parent != top.ID || call.Parent != middle.ID {
		t.Errorf("spans: got %+v", all)
	}
	if told != "00-"+traceID+"-"+call.ID+"-01" || req.Header.Get(reqctx.ParentHeader) != "" {
		t.Errorf("traceparent: got %q at the server, %q in the request", told, req.Header.Get(reqctx.ParentHeader))
	}
	for key, want := range map[string]string{"http.route": "/api/v1/projects/{project}", "sluice.problem": "internal", "sluice.request_id": "r1", "http.response.status_code": "Internal Server Error"} {
		if top.Values[key] != want {
			t.Errorf("%s: got %q, want %q", key, top.Values[key], want)
		}
	}
	if !top.Failed || !middle.Failed || !call.Failed || middle.Values["sluice.namespace"] != "shop-prod" || middle.Values["sluice.app"] != "hello" {
		t.Errorf("spans: got %+v", all)
	}
	if r.Holds("planted") {
		t.Error("a secret was exported")
	}
	if got := r.Header().Get("Authorization"); got != "Bearer planted" {
		t.Errorf("header at the collector: got %q", got)
	}
	if n := tracer.Counts(); n != (Counts{Exported: 3}) {
		t.Errorf("counts: got %+v", n)
	}
}

// The parent's flag decides, or the sampler if there is no parent. A trace that is not sampled is
// passed on to other functions.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		sampler, ratio, parent string
		want                   bool
	}{
		{"", "", "", true},
		{"", "", sampled, true},
		{"", "", "00-" + traceID + "-b7ad6b7169203331-00", false},
		{"parentbased_always_off", "", "", false},
		{"parentbased_always_off", "", sampled, true},
		{"parentbased_traceidratio", "0", "", false},
		{"always_on", "", "00-" + traceID + "-b7ad6b7169203331-00", true},
		{"always_off", "", sampled, false},
	} {
		t.Run(tt.sampler+" "+tt.parent, func(t *testing.T) {
			settings := map[string]string{}
			if tt.sampler != "" {
				settings["OTEL_TRACES_SAMPLER"] = tt.sampler
			}
			if tt.ratio != "" {
				settings["OTEL_TRACES_SAMPLER_ARG"] = tt.ratio
			}
			tracer, r := exporting(t, quiet(), settings)
			ctx, s := tracer.Server(t.Context(), tt.parent)
			_, below := Start(ctx, Internal, "below")
			below.End(nil)
			s.EndHTTP("GET /x", http.MethodGet, http.StatusOK, "r1")
			tracer.Record(t.Context(), tt.parent, "check", time.Now(), time.Now())
			tracer.Close(t.Context())
			want := 0
			if tt.want {
				want = 3
			}
			if got := r.Spans(); len(got) != want {
				t.Errorf("got %d spans: %+v", len(got), got)
			}
			parent := s.Parent()
			if reqctx.ValidParent(parent) != parent || strings.HasSuffix(parent, "-01") != tt.want || parent == tt.parent {
				t.Errorf("traceparent: got %q", parent)
			}
			if tt.parent != "" && !strings.HasPrefix(parent, "00-"+traceID+"-") {
				t.Errorf("traceparent with another trace: got %q", parent)
			}
		})
	}
}

func TestConsume(t *testing.T) {
	tracer, r := exporting(t, quiet(), map[string]string{})
	ctx, request := tracer.Server(t.Context(), "")
	within, event := Consume(ctx, sampled)
	if FromContext(within).Parent() != event.Parent() || FromContext(event.ContextWith(t.Context())).Parent() != event.Parent() {
		t.Error("the context holds another span")
	}
	event.End(nil)
	request.EndHTTP("POST event", http.MethodPost, http.StatusOK, "r1")
	tracer.Close(t.Context())
	got := r.Spans()
	if len(got) != 2 || got[0].Trace != traceID || got[1].Trace == traceID || len(got[0].Links) != 1 || got[0].Links[0] != got[1].ID {
		t.Errorf("spans: got %+v", got)
	}
}

func TestDisabledTracerDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waits for all goroutines
		for _, cfg := range []Settings{{Queue: 1}, {Endpoint: "http://127.0.0.1:4318", Disabled: true}, {Endpoint: "http://127.0.0.1:4318", Exporter: "none"}} {
			tracer, err := Open(t.Context(), cfg, "test", quiet())
			if err != nil || tracer.On() {
				t.Fatalf("%+v: %v", cfg, err)
			}
		}
	})
	tracer, ctx := &Tracer{}, context.Background()
	if n := testing.AllocsPerRun(100, func() {
		within, s := tracer.Server(ctx, sampled)
		_, below := Start(within, Internal, "below")
		below.Set(Field{Problem, "internal"})
		below.End(nil)
		s.EndHTTP("GET /x", http.MethodGet, http.StatusOK, "r1")
		if s.Parent() != "" {
			t.Error("got a span")
		}
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
	tracer.Close(ctx)
	if tracer.Counts() != (Counts{}) {
		t.Error("got counted spans")
	}
}

// A failing collector is logged once, without its response.
func TestFailingCollectorIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("answer-planted"))
	}))
	defer down.Close()
	tracer := open(t, slog.New(slog.NewTextHandler(&log, nil)), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": down.URL})
	for range 3 {
		_, s := tracer.Server(t.Context(), "")
		s.End(nil)
		check.OK(t, tracer.provider.ForceFlush(t.Context()))
	}
	tracer.Close(t.Context())
	if n := tracer.Counts(); n != (Counts{Failed: 3}) {
		t.Errorf("counts: got %+v", n)
	}
	if strings.Count(log.String(), "export spans failed") != 1 || !strings.Contains(log.String(), "403") || strings.Contains(log.String(), "planted") {
		t.Errorf("log: got %s", &log)
	}
}

type hanging struct{ release chan struct{} }

func (h hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (hanging) Shutdown(context.Context) error { return nil }

// Requests do not wait for a blocked collector.
func TestBlockedCollectorDoesNotDelayRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := hanging{make(chan struct{})}
		e := &exporter{SpanExporter: h, room: 10, log: slog.New(slog.NewTextHandler(&log, nil))}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(queue{
			SpanProcessor: sdktrace.NewBatchSpanProcessor(e, sdktrace.WithMaxQueueSize(10), sdktrace.WithMaxExportBatchSize(2)), to: e,
		}))
		tracer := &Tracer{provider: provider, tracer: provider.Tracer(scope), exporter: e}
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					_, s := tracer.Server(t.Context(), "")
					s.End(nil)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 0 || e.dropped.Load() != 70 {
			t.Errorf("got %v and %d dropped spans", took, e.dropped.Load())
		}
		tracer.Close(t.Context())
		if took := time.Since(began); took != Closing {
			t.Errorf("got an end after %v", took)
		}
		close(h.release)
		synctest.Wait()
		if n := tracer.Counts(); n != (Counts{Exported: 10, Dropped: 70}) || strings.Count(log.String(), "spans dropped") != 1 {
			t.Errorf("got counts %+v, log %s", n, &log)
		}
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   string // part of the error; "" for none
	}{
		{"an address", func(*Settings) {}, ""},
		{"no scheme", func(c *Settings) { c.Endpoint = "planted:4318" }, "OTEL_EXPORTER_OTLP_ENDPOINT must"},
		{"a password", func(c *Settings) { c.Traces = "https://planted:planted@collector/" }, "TRACES_ENDPOINT must"},
		{"a query", func(c *Settings) { c.Endpoint = "https://collector/?key=planted" }, "ENDPOINT must"},
		{"headers", func(c *Settings) { c.Headers = "authorization=Bearer%20a, x-b = c " }, ""},
		{"a header without a value", func(c *Settings) { c.Headers = "planted" }, "OTEL_EXPORTER_OTLP_HEADERS must"},
		{"a header badly encoded", func(c *Settings) { c.TracesHeaders = "a=planted%zz" }, "OTEL_EXPORTER_OTLP_TRACES_HEADERS must"},
		{"a header's name", func(c *Settings) { c.Headers = "a b=planted" }, "OTEL_EXPORTER_OTLP_HEADERS must"},
		{"gRPC", func(c *Settings) { c.Protocol = "grpc" }, "must be http/protobuf"},
		{"gRPC for others", func(c *Settings) { c.Protocol, c.TracesProtocol = "grpc", "http/protobuf" }, ""},
		{"an exporter", func(c *Settings) { c.Exporter = "jaeger" }, "otlp or none"},
		{"a sampler", func(c *Settings) { c.Sampler = "sometimes" }, "must be one of always_on"},
		{"a ratio", func(c *Settings) { c.Sampler, c.Ratio = "traceidratio", "0.25" }, ""},
		{"a bad ratio", func(c *Settings) { c.Sampler, c.Ratio = "traceidratio", "NaN" }, "from 0 to 1"},
		{"no room", func(c *Settings) { c.Queue = 0 }, "at least 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Settings{Endpoint: "http://collector:4318", Queue: 1}
			tt.change(&c)
			err := c.check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err != nil && strings.Contains(err.Error(), "planted") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzParent(f *testing.F) {
	for _, s := range []string{sampled, "", "00", "00-" + traceID + "-b7ad6b7169203331-ff", "01-" + traceID + "-b7ad6b7169203331-0b-x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parent := reqctx.ValidParent(s)
		c := contextOf(parent)
		if c.IsValid() != (parent != "") {
			t.Fatalf("%q: got %v", parent, c)
		}
		if parent != "" && (c.TraceID().String() != parent[3:35] || c.SpanID().String() != parent[36:52] || c.IsSampled() != strings.Contains("13579bdf", parent[54:])) {
			t.Errorf("%q: got %+v", parent, c)
		}
	})
}
