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

// PingType is the type of the event that a timer sends, as Knative's PingSource does.
const PingType = "dev.knative.sources.ping"

// EventRoute is what events count as in metrics, whatever the path was.
const EventRoute = "POST event"

// maxEvent bounds an event's body, in bytes.
const maxEvent = 1 << 20

// Events makes a handler of a CloudEvent function (HTTP binding, binary and
// structured mode). As with the functions-framework, an error answers 5xx and
// the sender tries again, so a function returns nil for what no retry can help. What
// is no event is answered with a 4xx for the same reason.
//
// The work on an event is the system's own, in the request that the event's
// attribute "requestid" names; without one the event's id stands for it. Its trace is the
// one of the attribute "traceparent", or else of the request's header of that name.
func Events(log *slog.Logger, receive func(ctx context.Context, e cloudevents.Event) error) http.Handler {
	return receiver{log: log, receive: events(receive)}
}

// events has an event worked on in its own request and trace.
func events(receive Receive) Receive {
	return func(ctx context.Context, e cloudevents.Event) error {
		ctx, event := inTrace(ctx, e)
		err := receive(inRequest(ctx, e), e)
		event.End(err)
		return err
	}
}

// inTrace begins a span in an event's trace, where that is not the one of the request
// that has brought it.
func inTrace(ctx context.Context, e cloudevents.Event) (context.Context, span.Span) {
	parent := trace.Request{Parent: parentOf(e)}
	around := trace.Request{Parent: span.Of(ctx).Parent()}
	if parent.Trace() == "" || parent.Trace() == around.Trace() {
		return ctx, span.Span{}
	}
	return span.Consume(ctx, parent.Parent)
}

// parentOf is the traceparent among an event's attributes, or "".
func parentOf(e cloudevents.Event) string {
	parent, _ := e.Extensions()[trace.ParentHeader].(string)
	return trace.ValidParent(parent)
}

// inRequest gives the context in which an event is worked on.
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
