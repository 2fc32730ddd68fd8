package funcmain

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
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
	parent := reqctx.Request{Parent: parentOf(e)}
	around := reqctx.Request{Parent: span.FromContext(ctx).Parent()}
	if parent.Trace() == "" || parent.Trace() == around.Trace() {
		return ctx, span.Span{}
	}
	return span.Consume(ctx, parent.Parent)
}

func parentOf(e cloudevents.Event) string {
	parent, _ := e.Extensions()[reqctx.ParentHeader].(string)
	return reqctx.ValidParent(parent)
}

func inRequest(ctx context.Context, e cloudevents.Event) context.Context {
	id, _ := e.Extensions()[notify.RequestID].(string)
	if !reqctx.ValidID(id) {
		id = e.ID()
	}
	if !reqctx.ValidID(id) {
		id = reqctx.NewID()
	}
	around, _ := reqctx.FromContext(ctx)
	parent := cmp.Or(span.FromContext(ctx).Parent(), parentOf(e), around.Parent)
	return reqctx.WithActor(reqctx.Begin(ctx, reqctx.Request{ID: id, Parent: parent}), reqctx.Actor{Kind: reqctx.System, Name: "system"})
}
