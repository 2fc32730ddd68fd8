package funcmain

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

// receiver hands the event in a request to a function, in that request's own
// goroutine and context. (The SDK's handler has a queue between the two, so that a
// request can be answered with what another one's event came to; and it answers
// 500 to what can't be read, which makes senders repeat it.)
type receiver struct {
	receive Receive
	log     *slog.Logger
}

// Routes says what all events count as in metrics.
func (receiver) Routes() []string { return []string{EventRoute} }

// ServeHTTP answers 200 to an event that was taken, a 4xx to what is none, is a batch
// or is too large, and 500 when the function failed: then the sender tries again.
func (h receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Pattern = EventRoute
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		httpapi.Fail(w, problem.Of(problem.MethodNotAllowed))
		return
	}
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), cloudevents.ApplicationCloudEventsBatchJSON) {
		httpapi.Fail(w, problem.New(problem.UnsupportedMediaType, "Events come one by one, not in batches."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxEvent)
	e, err := cloudevents.NewEventFromHTTPRequest(r)
	if err == nil {
		err = e.Validate()
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		httpapi.Fail(w, problem.Of(problem.BodyTooLarge))
		return
	}
	if err != nil {
		httpapi.Fail(w, problem.New(problem.MalformedJSON, "The request is not a CloudEvent."))
		return
	}
	if err := h.receive(r.Context(), *e); err != nil {
		h.log.ErrorContext(r.Context(), "event failed", "type", e.Type(), "id", e.ID(), "error", err)
		httpapi.Fail(w, problem.Of(problem.Internal))
		return
	}
	w.WriteHeader(http.StatusOK)
}
