package funcmain

import (
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice/shared/span"
)

const (
	noRoute = "none"

	// maxRoutes limits the number of routes if the handler does not list them.
	maxRoutes = 200
)

// metrics are the common metrics of all functions. No label contains text that a client can
// choose.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	panics   prometheus.Counter
	calls    *prometheus.CounterVec
	callTime *prometheus.HistogramVec

	mu     sync.Mutex
	fixed  bool
	routes map[string]bool
}

func newMetrics(target string, f *Function, spans *span.Tracer) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests by route pattern, method and status.",
		}, []string{"route", "method", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_duration_seconds", Help: "Duration of requests by route pattern.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_http_panics_total", Help: "Requests that ended in a panic outside the API's handlers.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_store_operations_total", Help: "Document store calls by operation and gRPC status.",
		}, []string{"op", "outcome"}),
		callTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_store_operation_duration_seconds", Help: "Duration of document store calls by operation, without listeners.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"op"}),
		routes: map[string]bool{},
	}
	m.registry.MustRegister(buildInfo(target), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(spanned(spans)...)
	if !f.Lean {
		m.registry.MustRegister(m.requests, m.latency, m.panics)
		m.know(f.Handler)
	}
	if f.Store != nil {
		m.registry.MustRegister(m.calls, m.callTime)
		f.Store.Observe(m.called)
	}
	m.registry.MustRegister(f.Collectors...)
	return m
}

func buildInfo(target string) prometheus.Collector {
	version, revision, goVersion := "unknown", "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the labels identify the program.",
		ConstLabels: prometheus.Labels{"function": target, "version": version, "revision": revision, "go_version": goVersion},
	}, func() float64 { return 1 })
}

func spanned(spans *span.Tracer) []prometheus.Collector {
	one := func(outcome string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sluice_spans_total", Help: "Ended spans by outcome.", ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		one("exported", func() uint64 { return spans.Counts().Exported }),
		one("failed", func() uint64 { return spans.Counts().Failed }),
		one("dropped", func() uint64 { return spans.Counts().Dropped }),
	}
}

// know registers the routes of a handler that lists them, e.g. [httpapi.Mux]. Each has a time
// series from the start, so that rates include the first request.
func (m *metrics) know(h http.Handler) {
	if p, ok := h.(interface{ Panics() uint64 }); ok {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sluice_api_panics_total", Help: "API requests that ended in a panic and returned 500.",
		}, func() float64 { return float64(p.Panics()) }))
	}
	r, ok := h.(interface{ Routes() []string })
	if !ok {
		return
	}
	m.fixed = true
	m.routes[EventRoute] = true
	for _, route := range append(r.Routes(), noRoute) {
		m.routes[route] = true
		m.latency.WithLabelValues(route)
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: 5 * time.Second})
}

func (m *metrics) answered(pattern, method string, code int, took time.Duration) (route string) {
	route = m.route(pattern)
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(code)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
	return route
}

func (m *metrics) called(op, outcome string, took time.Duration, lasting bool) {
	m.calls.WithLabelValues(op, outcome).Inc()
	if !lasting {
		m.callTime.WithLabelValues(op).Observe(took.Seconds())
	}
}

// route returns the label for a pattern. net/http can create patterns from paths when it
// redirects, so the patterns must be known or are limited in number.
func (m *metrics) route(pattern string) string {
	if pattern == "" {
		return noRoute
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.routes[pattern]:
	case m.fixed || len(m.routes) >= maxRoutes:
		return noRoute
	default:
		m.routes[pattern] = true
	}
	return pattern
}

func knownMethod(method string) string {
	known := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}
	if slices.Contains(known, method) {
		return method
	}
	return "other"
}
