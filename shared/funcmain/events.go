package funcmain

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/problem"
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
// attribute "requestid" names; without one the event's id stands for it. (Not the
// HTTP request's: the library may hand an event to another request's goroutine.)
func Events(receive func(ctx context.Context, e cloudevents.Event) error) (http.Handler, error) {
	protocol, err := cloudevents.NewHTTP()
	if err != nil {
		return nil, fmt.Errorf("cloudevents protocol: %w", err)
	}
	h, err := cloudevents.NewHTTPReceiveHandler(context.Background(), protocol, func(ctx context.Context, e cloudevents.Event) error {
		return receive(inRequest(ctx, e), e)
	})
	if err != nil {
		return nil, fmt.Errorf("cloudevents handler: %w", err)
	}
	return eventHandler{h}, nil
}

type eventHandler struct{ next http.Handler }

// Routes says what all of them count as.
func (eventHandler) Routes() []string { return []string{EventRoute} }

// ServeHTTP implements [http.Handler].
func (h eventHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Pattern = EventRoute
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), cloudevents.ApplicationCloudEventsBatchJSON) {
		httpapi.Fail(w, problem.New(problem.UnsupportedMediaType, "Events come one by one, not in batches."))
		return
	}
	body, err := httpapi.ReadBody(w, r, maxEvent)
	if err == nil {
		err = wellFormed(r, body)
	}
	if err != nil {
		httpapi.Fail(w, problem.From(err))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.next.ServeHTTP(w, r)
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
	return trace.As(trace.Begin(ctx, trace.Request{ID: id}), trace.Actor{Kind: trace.System, Name: "system"})
}

// wellFormed looks at an event before the library does, which answers most of what it
// cannot read with 500. Problem: malformed_json.
func wellFormed(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost { // the library refuses it
		return nil
	}
	seen := r.Clone(r.Context())
	seen.Body = io.NopCloser(bytes.NewReader(body))
	e, err := cloudevents.NewEventFromHTTPRequest(seen)
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		return problem.New(problem.MalformedJSON, "The request is not a CloudEvent.").Because(err)
	}
	return nil
}
