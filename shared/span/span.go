package span

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/trace"
)

// Kind says on which side of a call a span is.
type Kind oteltrace.SpanKind

// The kinds of spans that [Start] begins.
const (
	Internal = Kind(oteltrace.SpanKindInternal)
	Client   = Kind(oteltrace.SpanKindClient)
	Producer = Kind(oteltrace.SpanKindProducer)
)

// Key names a value of a span.
type Key string

// The keys, beside those of OpenTelemetry's conventions for HTTP.
const (
	Namespace Key = "sluice.namespace"    // of an app, e.g. "shop-prod"
	App       Key = "sluice.app"          // e.g. "hello"
	Verdict   Key = "sluice.verdict"      // of a check: allowed, preflight, or a denial's code
	Problem   Key = "sluice.problem"      // an answer's code, e.g. "not_found"
	RequestID Key = "sluice.request_id"   // what X-Request-Id holds
	Outcome   Key = "rpc.response.status" // of a call of the store, e.g. "OK"
	Operation Key = "db.operation.name"   // of a call of the store, e.g. "commit"
	method    Key = "http.request.method" // one that is known, or "_OTHER"
	server    Key = "server.address"      // of what is asked, without a port
	route     Key = "http.route"          // the pattern
)

// Field is a value of a span.
type Field struct {
	Key   Key
	Value string
}

// OfApp are the fields of an app.
func OfApp(ref app.Ref) []Field { return []Field{{Namespace, ref.Namespace}, {App, ref.Name}} }

// Span is a part of a trace that is under way. The zero value is none: it takes everything
// and does nothing.
type Span struct {
	tracer *Tracer
	span   oteltrace.Span
}

type key struct{}

// Of gives the span of a context, or none.
func Of(ctx context.Context) Span {
	s, _ := ctx.Value(key{}).(Span)
	return s
}

// In gives a context with the span, for work that outlives the context that it began in.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// Start begins a span below the one of ctx, and none where there is none. The name must be
// of a closed list.
func Start(ctx context.Context, kind Kind, name string, fields ...Field) (context.Context, Span) {
	above := Of(ctx)
	if above.span == nil {
		return ctx, above
	}
	parent := oteltrace.ContextWithSpanContext(ctx, above.span.SpanContext())
	return above.tracer.start(ctx, parent, name, oteltrace.WithSpanKind(oteltrace.SpanKind(kind)), oteltrace.WithAttributes(attributes(fields)...))
}

// Consume begins the span of an event that is in another trace than the request that
// brought it, which it is linked to. Without a span of that request it begins none.
func Consume(ctx context.Context, parent string) (context.Context, Span) {
	request := Of(ctx)
	if request.span == nil {
		return ctx, request
	}
	return request.tracer.start(ctx, remote(ctx, parent), "event", oteltrace.WithSpanKind(oteltrace.SpanKindConsumer),
		oteltrace.WithLinks(oteltrace.Link{SpanContext: request.span.SpanContext()}))
}

// Parent is the span as the traceparent of what it causes, or "".
func (s Span) Parent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & oteltrace.FlagsSampled).String()
}

// Set adds values.
func (s Span) Set(fields ...Field) {
	if s.span != nil && s.span.IsRecording() {
		s.span.SetAttributes(attributes(fields)...)
	}
}

// Answered ends a request's span with the pattern of its route, such as "GET /api/v1/key",
// or another word where it has none, and its status.
func (s Span) Answered(pattern, requestMethod string, status int, requestID string) {
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

// answered notes an HTTP status; from failure on it is an error.
func (s Span) answered(status, failure int) {
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= failure {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span. Of an error it is said that there was one, not what it says.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// attributes gives the fields that have a value.
func attributes(fields []Field) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(fields))
	for _, f := range fields {
		if f.Value != "" {
			all = append(all, attribute.String(string(f.Key), f.Value))
		}
	}
	return all
}

// Transport makes a span of each request below a span, called by the name of who is asked,
// e.g. "kubernetes". tell says that they are told of the trace.
func Transport(next http.RoundTripper, name string, tell bool) http.RoundTripper {
	return transport{next, name, tell}
}

type transport struct {
	next http.RoundTripper
	name string
	tell bool
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, s := Start(r.Context(), Client, t.name+" "+r.Method, Field{method, r.Method}, Field{server, r.URL.Hostname()})
	if s.span == nil {
		return t.next.RoundTrip(r)
	}
	r = r.WithContext(ctx)
	if t.tell {
		r.Header = r.Header.Clone()
		r.Header.Set(trace.ParentHeader, s.Parent())
	}
	res, err := t.next.RoundTrip(r)
	if err == nil {
		s.answered(res.StatusCode, http.StatusBadRequest)
	}
	s.End(err)
	return res, err
}
