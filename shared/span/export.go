package span

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter counts spans by result, and logs only the first of consecutive failures.
type exporter struct {
	sdktrace.SpanExporter
	room    int64 // maximum number of waiting spans
	waiting atomic.Int64
	log     *slog.Logger

	exported, failed, dropped atomic.Uint64
	failing, full             atomic.Bool
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.failed.Add(uint64(len(spans)))
		if !e.failing.Swap(true) {
			e.log.WarnContext(ctx, "export spans failed", "error", reason(err))
		}
		return nil
	}
	e.exported.Add(uint64(len(spans)))
	e.full.Store(false)
	if e.failing.Swap(false) {
		e.log.InfoContext(ctx, "span export resumed")
	}
	return nil
}

// reason returns an error's text without the collector's response, which may repeat exported data.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "body: ")
	return strings.TrimRight(text, " (:")
}

type queue struct {
	sdktrace.SpanProcessor
	to *exporter
}

func (q queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.to.waiting.Add(1) > q.to.room {
		q.to.waiting.Add(-1)
		q.to.dropped.Add(1)
		if !q.to.full.Swap(true) {
			q.to.log.Warn("spans dropped", "waiting", q.to.room)
		}
		return
	}
	q.SpanProcessor.OnEnd(s)
}
