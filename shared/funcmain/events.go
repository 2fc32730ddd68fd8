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
	"github.com/sluicegate/sluice/shared/problem"
)

// PingType is the type of the event that a timer sends, as Knative's PingSource does.
const PingType = "dev.knative.sources.ping"

// maxEvent bounds an event's body, in bytes.
const maxEvent = 1 << 20

// Events makes a handler of a CloudEvent function (HTTP binding, binary and
// structured mode). As with the functions-framework, an error answers 5xx and
// the sender tries again, so a function returns nil for what no retry can help. What
// is no event is answered with a 4xx for the same reason.
func Events(receive func(ctx context.Context, e cloudevents.Event) error) (http.Handler, error) {
	protocol, err := cloudevents.NewHTTP()
	if err != nil {
		return nil, fmt.Errorf("cloudevents protocol: %w", err)
	}
	h, err := cloudevents.NewHTTPReceiveHandler(context.Background(), protocol, receive)
	if err != nil {
		return nil, fmt.Errorf("cloudevents handler: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		h.ServeHTTP(w, r)
	}), nil
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
