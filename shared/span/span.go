package span

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Kind is the kind of a span.
type Kind oteltrace.SpanKind

// The kinds of spans for [Start].
const (
	Internal = Kind(oteltrace.SpanKindInternal)
	Client   = Kind(oteltrace.SpanKindClient)
	Producer = Kind(oteltrace.SpanKindProducer)
)

// Key is the name of a field.
type Key string

// The keys. Keys without the prefix sluice follow OpenTelemetry's conventions.
const (
	Namespace Key = "sluice.namespace" // e.g. "shop-prod"
	App       Key = "sluice.app"       // e.g. "hello"
	Verdict   Key = "sluice.verdict"   // allowed, preflight, or a denial's code
	Problem   Key = "sluice.problem"   // e.g. "not_found"
	RequestID Key = "sluice.request_id"
	Outcome   Key = "rpc.response.status" // of a store call, e.g. "OK"
	Operation Key = "db.operation.name"   // of a store call, e.g. "commit"
	method    Key = "http.request.method" // or "_OTHER"
	server    Key = "server.address"      // host without a port
	route     Key = "http.route"          // the pattern
)

// Field is an attribute of a span.
type Field struct {
	Key   Key
	Value string
}

// OfApp returns the fields of an app.
func OfApp(ref app.Ref) []Field { return []Field{{Namespace, ref.Namespace}, {App, ref.Name}} }

// Span is a span in progress. The zero value is valid and does nothing.
type Span struct {
	tracer *Tracer
	span   oteltrace.Span
}

type key struct{}

// FromContext returns the span of a context, or the zero value.
func FromContext(ctx context.Context) Span {
	s, _ := ctx.Value(key{}).(Span)
	return s
}

// ContextWith returns a context with the span, for work that outlives the span's context.
func (s Span) ContextWith(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// Start starts a child of the context's span, if there is one. The name must not contain text from
// clients.
func Start(ctx context.Context, kind Kind, name string, fields ...Field) (context.Context, Span) {
	above := FromContext(ctx)
	if above.span == nil {
		return ctx, above
	}
	parent := oteltrace.ContextWithSpanContext(ctx, above.span.SpanContext())
	return above.tracer.start(ctx, parent, name, oteltrace.WithSpanKind(oteltrace.SpanKind(kind)), oteltrace.WithAttributes(attributes(fields)...))
}

// Consume starts the span of an event with the given traceparent, and links it to the span of the
// request that delivered the event. It does nothing if the request has no span.
func Consume(ctx context.Context, parent string) (context.Context, Span) {
	request := FromContext(ctx)
	if request.span == nil {
		return ctx, request
	}
	return request.tracer.start(ctx, remote(ctx, parent), "event", oteltrace.WithSpanKind(oteltrace.SpanKindConsumer),
		oteltrace.WithLinks(oteltrace.Link{SpanContext: request.span.SpanContext()}))
}

// Parent returns the traceparent to send with calls, or "".
func (s Span) Parent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & oteltrace.FlagsSampled).String()
}

// Set adds fields to the span.
func (s Span) Set(fields ...Field) {
	if s.span != nil && s.span.IsRecording() {
		s.span.SetAttributes(attributes(fields)...)
	}
}

// EndHTTP ends a request's span. The span's name is the pattern of the route, or the method.
func (s Span) EndHTTP(pattern, requestMethod string, status int, requestID string) {
	if s.span == nil {
		return
	}
	name, path := requestMethod, ""
	if verb, rest, ok := strings.Cut(pattern, " "); ok {
		name, path = verb+" "+rest, rest
	}
	s.span.SetName(name)
	s.Set(Field{method, requestMethod}, Field{route, path}, Field{RequestID, requestID})
	s.answered(status, http.StatusInternalServerError)
	s.span.End()
}

// answered sets the HTTP status. Statuses from failure upward mark the span as failed.
func (s Span) answered(status, failure int) {
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= failure {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span. It records whether there was an error, but not its text.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

func attributes(fields []Field) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(fields))
	for _, f := range fields {
		if f.Value != "" {
			all = append(all, attribute.String(string(f.Key), f.Value))
		}
	}
	return all
}

// Transport returns a transport that creates a client span for each request. name is the receiver,
// e.g. "kubernetes". If tell is true, requests contain the traceparent.
func Transport(next http.RoundTripper, name string, tell bool) http.RoundTripper {
	return transport{next, name, tell}
}

type transport struct {
	next http.RoundTripper
	name string
	tell bool
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, s := Start(r.Context(), Client, t.name+" "+r.Method, Field{method, r.Method}, Field{server, r.URL.Hostname()})
	if s.span == nil {
		return t.next.RoundTrip(r)
	}
	r = r.WithContext(ctx)
	if t.tell {
		r.Header = r.Header.Clone()
		r.Header.Set(reqctx.ParentHeader, s.Parent())
	}
	res, err := t.next.RoundTrip(r)
	if err == nil {
		s.answered(res.StatusCode, http.StatusBadRequest)
	}
	s.End(err)
	return res, err
}
