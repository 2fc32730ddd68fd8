package checker

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/tests/check"
)

func exporting(tb testing.TB, c *Checker, url string) (end func()) {
	tb.Helper()
	tb.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	spans, err := span.Open(tb.Context(), span.Settings{Endpoint: url, Queue: 2048}, "checker", slog.New(slog.DiscardHandler))
	check.OK(tb, err)
	c.Export(spans)
	return func() { c.Export(nil); spans.Close(tb.Context()) }
}

// TestChecksHaveSpans tests that a span contains nothing of the key or of the client's headers.
func TestChecksHaveSpans(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := spantest.New(t)
	c, full := loaded(t, 1)
	end := exporting(t, c, r.URL)
	rep := replica{Checker: c}
	rep.sendCheck("shop-prod/hello", keyHeader, full, "Traceparent", parent, "Cookie", "planted")
	rep.sendCheck("shop-prod/hello", keyHeader, "planted", "Traceparent", parent, "X-Request-Id", "r1")
	rep.sendCheck("shop-prod/other", keyHeader, full, "Traceparent", "00-planted")
	rep.sendCheck("Planted/planted", keyHeader, full)
	end()

	got := r.Spans()
	if len(got) != 4 {
		t.Fatalf("spans: got %+v, want four", got)
	}
	for i, want := range []struct{ verdict, namespace, app, id, parent string }{
		{"allowed", "shop-prod", "hello", "", "b7ad6b7169203331"},
		{"invalid_key", "shop-prod", "hello", "r1", "b7ad6b7169203331"},
		{"invalid_key", "shop-prod", "other", got[2].Values["sluice.request_id"], ""},
		{"misconfigured", "", "", got[3].Values["sluice.request_id"], ""},
	} {
		v := got[i].Values
		if got[i].Name != "check" || v["sluice.verdict"] != want.verdict || v["sluice.namespace"] != want.namespace || v["sluice.app"] != want.app ||
			v["sluice.request_id"] != want.id || got[i].Parent != want.parent || got[i].Service != "sluice-checker" {
			t.Errorf("span %d: got %+v, want %+v", i, got[i], want)
		}
	}
	for _, secret := range []string{full, full[len(full)-38:], full[7:15], "planted", "Planted"} {
		if r.Holds(secret) {
			t.Errorf("%q was exported", secret)
		}
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	c, full := loaded(t, 1)
	h := http.Header{keyHeader: {full}, methodHeader: {"GET"}}
	if n := testing.AllocsPerRun(1000, func() { c.check(h, "shop-prod/hello", c.now()) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
	w, r := &sink{h: http.Header{}}, httptest.NewRequest(http.MethodGet, "/check/shop-prod/hello", nil)
	r.Header = h
	with := testing.AllocsPerRun(1000, func() { clear(w.h); c.serveCheck(w, r, "shop-prod/hello") })
	without := testing.AllocsPerRun(1000, func() { clear(w.h); bare(c, w, r, "shop-prod/hello") })
	if with != without {
		t.Errorf("allocations: got %v with code for spans, want %v as without", with, without)
	}
}

func bare(c *Checker, w http.ResponseWriter, r *http.Request, address string) {
	began := c.now()
	o := c.respond(w, r, address, began)
	ended := c.now()
	c.metrics.observe(o, ended.Sub(began))
}

func TestCollectorDown(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	c, full := loaded(t, 1)
	end := exporting(t, c, down.URL)
	for range 5000 { // more than the queue of spans holds
		rep := replica{Checker: c}
		if res := rep.sendCheck("shop-prod/hello", keyHeader, full); res.StatusCode != http.StatusOK {
			t.Fatalf("status: got %d, want 200", res.StatusCode)
		}
	}
	end()
}

// BenchmarkSpans compares checks with and without spans, measured in turn.
func BenchmarkSpans(b *testing.B) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	collector := spantest.New(b)
	for _, kind := range []struct{ name, flag string }{{"off", "1"}, {"unsampled", "0"}, {"sampled", "1"}} {
		b.Run(kind.name, func(b *testing.B) {
			c, full := loaded(b, 1_000)
			if kind.name != "off" {
				defer exporting(b, c, collector.URL)()
			}
			w, r := &sink{h: http.Header{}}, httptest.NewRequest(http.MethodGet, "/check/shop-prod/hello", nil)
			r.Header = http.Header{keyHeader: {full[:apikey.Length]}, methodHeader: {"GET"}, "Traceparent": {parent + kind.flag}}
			turn := func(serve func()) time.Duration {
				began := time.Now()
				for range 100 {
					clear(w.h)
					serve()
				}
				return time.Since(began)
			}
			var without, with []time.Duration
			for b.Loop() {
				without = append(without, turn(func() { bare(c, w, r, "shop-prod/hello") }))
				with = append(with, turn(func() { c.serveCheck(w, r, "shop-prod/hello") }))
			}
			slices.Sort(without)
			slices.Sort(with)
			one, other := with[len(with)/2], without[len(without)/2]
			b.ReportMetric(float64(one)/100, "check-ns")
			b.ReportMetric(float64(one)/float64(other), "ratio")
		})
	}
}
