package funcmain

import (
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

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

func exporting(t *testing.T, url string) func(*Config) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	return func(c *Config) { c.Settings = span.Settings{Endpoint: url, Queue: 2048} }
}

// The spans of a request, its notification and the event are in the caller's trace. Nothing else
// from the caller is exported.
func TestTrace(t *testing.T) {
	collector := spantest.New(t)
	exported := exporting(t, collector.URL)
	log := slog.New(slog.DiscardHandler)
	worked := make(chan reqctx.Request, 1)
	second := serveWith(t, &Function{Receive: func(ctx context.Context, _ cloudevents.Event) error {
		of, _ := reqctx.FromContext(ctx)
		worked <- of
		return nil
	}}, exported)
	sender := notify.New(second.url, "/sluice/test", log)
	api := httpapi.New(log)
	api.Handle("POST /things/{name}", func(_ http.ResponseWriter, r *http.Request) error {
		sender.Notify(r.Context(), app.DeployRequested, app.Ref{Namespace: "shop-prod", Name: "hello"})
		return problem.New(problem.NotFound, "The planted does not exist.")
	})
	first := serveWith(t, &Function{Handler: api}, exported)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.url+"/things/planted?token=planted", strings.NewReader(`{"secret":"planted"}`))
	check.OK(t, err)
	req.Header = http.Header{"Traceparent": {parent}, "Tracestate": {"a=planted"}, "Baggage": {"a=planted"}, "X-Api-Key": {"planted"}, "Authorization": {"planted"}, "X-Request-Id": {"r1"}}
	res, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	_ = res.Body.Close()
	check.OK(t, sender.Close(t.Context()))

	name := func(want string) spantest.Span {
		return collector.Until(t, want, func(s spantest.Span) bool { return s.Name == want })
	}
	request, told, event := name("POST /things/{name}"), name("notify "+app.DeployRequested), name(EventRoute)
	if request.Parent != "b7ad6b7169203331" || told.Parent != request.ID || event.Parent != told.ID {
		t.Errorf("request %+v, notification %+v, event %+v", request, told, event)
	}
	if request.Values["sluice.problem"] != "not_found" || request.Values["sluice.request_id"] != "r1" || request.Failed || told.Values["sluice.app"] != "hello" {
		t.Errorf("request %+v, notification %+v", request, told)
	}
	if of := <-worked; of.ID != "r1" || of.Parent != "00-"+traceID+"-"+event.ID+"-01" {
		t.Errorf("request of the event: got %+v", of)
	}
	for _, s := range collector.Spans() {
		if s.Trace != traceID {
			t.Errorf("unexpected trace: %+v", s)
		}
	}
	if collector.Holds("planted") {
		t.Error("text from the caller was exported")
	}
}

func TestTraceOfAnEvent(t *testing.T) {
	collector := spantest.New(t)
	worked := make(chan reqctx.Request, 1)
	r := serveWith(t, &Function{Receive: func(ctx context.Context, _ cloudevents.Event) error {
		of, _ := reqctx.FromContext(ctx)
		worked <- of
		return nil
	}}, exporting(t, collector.URL))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader("{}"))
	check.OK(t, err)
	for k, v := range map[string]string{
		"ce-specversion": "1.0", "ce-id": "e1", "ce-source": "/s", "ce-type": "planted", "ce-traceparent": parent,
		"Traceparent": "00-11111111111111111111111111111111-2222222222222222-01", "Content-Type": "application/json",
	} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	_ = res.Body.Close()
	event := collector.Until(t, "event", func(s spantest.Span) bool { return s.Name == "event" })
	request := collector.Until(t, "request", func(s spantest.Span) bool { return s.Name == EventRoute })
	if event.Trace != traceID || request.Trace == traceID || len(event.Links) != 1 || event.Links[0] != request.ID {
		t.Errorf("event %+v, request %+v", event, request)
	}
	if of := <-worked; of.Parent != "00-"+traceID+"-"+event.ID+"-01" {
		t.Errorf("request of the event: got %+v", of)
	}
	if collector.Holds("planted") {
		t.Error("text from the sender was exported")
	}
}

// Invalid traceparents start a new trace. Paths without a route are not exported.
func TestBadParent(t *testing.T) {
	collector := spantest.New(t)
	api := httpapi.New(slog.New(slog.DiscardHandler))
	r := serveWith(t, &Function{Handler: api}, exporting(t, collector.URL))
	bad := []string{"", "planted", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", strings.ToUpper(parent), "ff" + parent[2:], parent + "-planted"}
	for i, s := range bad {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/planted", nil)
		check.OK(t, err)
		req.Header.Set("Traceparent", s)
		req.Header.Set("X-Request-Id", "r"+strconv.Itoa(i))
		res, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		_ = res.Body.Close()
		got := collector.Until(t, s, func(got spantest.Span) bool { return got.Values["sluice.request_id"] == "r"+strconv.Itoa(i) })
		if got.Trace == traceID || got.Parent != "" || got.Name != http.MethodGet {
			t.Errorf("%q: got %+v", s, got)
		}
	}
	if collector.Holds("planted") {
		t.Error("text from the caller was exported")
	}
}

// A process exports its last spans when it ends. A blocked collector does not prevent the end.
func TestLastSpans(t *testing.T) {
	collector := spantest.New(t)
	entered := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the client's disconnect is noticed
		close(entered)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	for name, url := range map[string]string{"there": collector.URL, "hanging": hangs.URL} {
		t.Run(name, func(t *testing.T) {
			exporting(t, url)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
			port := freePort(t)
			t.Setenv("HOST", "127.0.0.1")
			t.Setenv("PORT", strconv.Itoa(port))
			h := &hosted{name: "test", build: func(context.Context, *slog.Logger) (*Function, error) {
				return &Function{Handler: httpapi.New(slog.New(slog.DiscardHandler))}, nil
			}}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.run(ctx) }()
			answered(t, "http://127.0.0.1:"+strconv.Itoa(port)+"/x")
			began := time.Now()
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 3*span.Closing {
				t.Errorf("got an end after %v", took)
			}
			if name == "hanging" {
				<-entered
				return
			}
			if n := len(collector.Spans()); n != 1 {
				t.Errorf("exported spans: got %d", n)
			}
		})
	}
}

func answered(t *testing.T, url string) {
	t.Helper()
	for begin := time.Now(); ; {
		res, err := get(t, url)
		if err == nil {
			_ = res.Body.Close()
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
	}
}
