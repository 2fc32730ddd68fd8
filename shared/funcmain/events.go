package funcmain

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

// PingType is the type of ticks, the periodic events from Knative's PingSource.
const PingType = "dev.knative.sources.ping"

// EventRoute is the route of events in metrics.
const EventRoute = "POST event"

const maxEvent = 1 << 20

// Events returns a handler that passes CloudEvents to receive (HTTP binding, binary and structured
// mode). An error of receive causes a 500 response and a retry by the sender, so receive must
// return nil if a retry cannot help. Invalid events get a 4xx response.
//
// The context of receive has the actor "system". Its request ID is the event's attribute
// "requestid", or the event's ID. Its trace is the attribute "traceparent", or the request's header.
func Events(log *slog.Logger, receive func(ctx context.Context, e cloudevents.Event) error) http.Handler {
	return receiver{log: log, receive: events(receive)}
}

func events(receive Receive) Receive {
	return func(ctx context.Context, e cloudevents.Event) error {
		ctx, event := inTrace(ctx, e)
		err := receive(inRequest(ctx, e), e)
		event.End(err)
		return err
	}
}

// inTrace starts a span in the event's trace if that differs from the request's trace.
func inTrace(ctx context.Context, e cloudevents.Event) (context.Context, span.Span) {
	parent := trace.Request{Parent: parentOf(e)}
	around := trace.Request{Parent: span.Of(ctx).Parent()}
	if parent.Trace() == "" || parent.Trace() == around.Trace() {
		return ctx, span.Span{}
	}
	return span.Consume(ctx, parent.Parent)
}

func parentOf(e cloudevents.Event) string {
	parent, _ := e.Extensions()[trace.ParentHeader].(string)
	return trace.ValidParent(parent)
}

func inRequest(ctx context.Context, e cloudevents.Event) context.Context {
	id, _ := e.Extensions()[nudge.RequestID].(string)
	if !trace.ValidID(id) {
		id = e.ID()
	}
	if !trace.ValidID(id) {
		id = trace.NewID()
	}
	around, _ := trace.Of(ctx)
	parent := cmp.Or(span.Of(ctx).Parent(), parentOf(e), around.Parent)
	return trace.As(trace.Begin(ctx, trace.Request{ID: id, Parent: parent}), trace.Actor{Kind: trace.System, Name: "system"})
}
