package span

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Closing is the longest wait for the last export when a process stops.
const Closing = 5 * time.Second

const scope = "github.com/sluicegate/sluice"

// Tracer creates a function's spans. The zero value and nil create none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	exporter *exporter
}

// Open returns a function's tracer. The default service name is "sluice-" and the function's name.
// Open makes no requests.
func Open(ctx context.Context, cfg Settings, function string, log *slog.Logger) (*Tracer, error) {
	if !cfg.on() {
		return &Tracer{}, nil
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	service, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sluice-"+function)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("create span exporter: %w", err)
	}
	e := &exporter{SpanExporter: to, room: int64(cfg.Queue), log: log}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(service), sdktrace.WithSpanProcessor(queue{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(e, sdktrace.WithMaxQueueSize(cfg.Queue)), to: e,
	}))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), exporter: e}, nil
}

// On reports whether spans are exported.
func (t *Tracer) On() bool { return t != nil && t.provider != nil }

// Close exports the remaining spans within [Closing].
func (t *Tracer) Close(ctx context.Context) {
	if !t.On() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Closing)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.exporter.log.Warn("export last spans failed", "error", reason(err))
		_ = t.exporter.Shutdown(ctx) // stops the export in progress
	}
}

// Server starts the span of a request, in the trace of parent or in a new trace. [Span.Answered]
// ends it.
func (t *Tracer) Server(ctx context.Context, parent string) (context.Context, Span) {
	if !t.On() {
		return ctx, Span{}
	}
	return t.start(ctx, remote(ctx, parent), "request", oteltrace.WithSpanKind(oteltrace.SpanKindServer))
}

// Record creates a server span for finished work.
func (t *Tracer) Record(ctx context.Context, parent, name string, began, ended time.Time, fields ...Field) {
	_, s := t.tracer.Start(remote(ctx, parent), name, oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithTimestamp(began))
	if s.IsRecording() {
		s.SetAttributes(attributes(fields)...)
	}
	s.End(oteltrace.WithTimestamp(ended))
}

func (t *Tracer) start(ctx, parent context.Context, name string, options ...oteltrace.SpanStartOption) (context.Context, Span) {
	_, s := t.tracer.Start(parent, name, options...)
	of := Span{tracer: t, span: s}
	return context.WithValue(ctx, key{}, of), of
}

func remote(ctx context.Context, parent string) context.Context {
	return oteltrace.ContextWithRemoteSpanContext(ctx, contextOf(parent))
}

func contextOf(parent string) oteltrace.SpanContext {
	const id, span, flags = len("00-"), len("00-") + 32 + 1, len("00-") + 32 + 1 + 16 + 1
	if len(parent) != flags+2 {
		return oteltrace.SpanContext{}
	}
	var c oteltrace.SpanContextConfig
	var err error
	if c.TraceID, err = oteltrace.TraceIDFromHex(parent[id : span-1]); err != nil {
		return oteltrace.SpanContext{}
	}
	if c.SpanID, err = oteltrace.SpanIDFromHex(parent[span : flags-1]); err != nil {
		return oteltrace.SpanContext{}
	}
	last := parent[flags+1]
	if last >= 'a' {
		last -= 'a' - 10
	}
	c.TraceFlags, c.Remote = oteltrace.TraceFlags(last)&oteltrace.FlagsSampled, true
	return oteltrace.NewSpanContext(c)
}

// Counts are the numbers of ended spans by result.
type Counts struct{ Exported, Failed, Dropped uint64 }

// Counts returns the current numbers.
func (t *Tracer) Counts() Counts {
	if !t.On() {
		return Counts{}
	}
	return Counts{t.exporter.exported.Load(), t.exporter.failed.Load(), t.exporter.dropped.Load()}
}
