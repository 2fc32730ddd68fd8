// Package spantest is a collector of spans for tests.
package spantest

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is an exported span.
type Span struct {
	Service, Name     string
	Trace, ID, Parent string // hexadecimal; Parent is "" for the first span of a trace
	Kind              otlp.Span_SpanKind
	Failed            bool
	Values            map[string]string
	Links             []string
	Took              time.Duration
}

// Receiver is a collector that receives OTLP over HTTP.
type Receiver struct {
	URL string

	mu      sync.Mutex
	raw     bytes.Buffer
	header  http.Header
	spans   []Span
	changed chan struct{} // closed by the next export
}

// New starts a collector that stops with the test.
func New(tb testing.TB) *Receiver {
	tb.Helper()
	r, end := Start()
	tb.Cleanup(end)
	return r
}

// Start starts a collector. end stops it.
func Start() (r *Receiver, end func()) {
	r = &Receiver{changed: make(chan struct{})}
	server := httptest.NewServer(r)
	r.URL = server.URL
	return r, server.Close
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(body)
	r.header = req.Header
	for _, resource := range sent.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, spanOf(resource, s))
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

func spanOf(resource *otlp.ResourceSpans, s *otlp.Span) Span {
	out := Span{
		Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Kind: s.GetKind(), Failed: s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, Values: map[string]string{},
		Took: time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()), //nolint:gosec // a span's
	}
	for _, a := range resource.GetResource().GetAttributes() {
		if a.GetKey() == "service.name" {
			out.Service = a.GetValue().GetStringValue()
		}
	}
	for _, a := range s.GetAttributes() {
		out.Values[a.GetKey()] = a.GetValue().GetStringValue()
		if n := a.GetValue().GetIntValue(); n != 0 {
			out.Values[a.GetKey()] = http.StatusText(int(n))
		}
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

// Header returns the header of the last export.
func (r *Receiver) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.header.Clone()
}

// Spans returns all received spans.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Holds reports whether an export contains the text.
func (r *Receiver) Holds(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.raw.Bytes(), []byte(text))
}

// Until waits up to a minute for a matching span, and returns the first one.
func (r *Receiver) Until(tb testing.TB, what string, fits func(Span) bool) Span {
	tb.Helper()
	found, ok := r.Within(time.Minute, fits)
	if !ok {
		tb.Fatalf("no span %s; got %+v", what, r.Spans())
	}
	return found
}

// Within waits up to limit for a matching span. It returns the first one, and false if there is
// none.
func (r *Receiver) Within(limit time.Duration, fits func(Span) bool) (Span, bool) {
	end := time.After(limit)
	for {
		r.mu.Lock()
		spans, changed := r.spans, r.changed
		r.mu.Unlock()
		if i := slices.IndexFunc(spans, fits); i >= 0 {
			return spans[i], true
		}
		select {
		case <-changed:
		case <-end:
			return Span{}, false
		}
	}
}
