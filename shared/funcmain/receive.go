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

// receiver passes events to a function. It replaces the SDK's handler, which has two faults: its
// queue can mix up the responses of concurrent events, and it returns 500 for unreadable events,
// which senders retry.
type receiver struct {
	receive Receive
	log     *slog.Logger
}

func (receiver) Routes() []string { return []string{EventRoute} }

// ServeHTTP returns 200 for an accepted event and 4xx for an invalid event, a batch or a large
// body. It returns 500 if the function fails, so that the sender retries.
func (h receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Pattern = EventRoute
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		httpapi.WriteProblem(w, problem.FromCode(problem.MethodNotAllowed))
		return
	}
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), cloudevents.ApplicationCloudEventsBatchJSON) {
		httpapi.WriteProblem(w, problem.New(problem.UnsupportedMediaType, "Batches of events are not supported. Send each event in its own request."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxEvent)
	e, err := cloudevents.NewEventFromHTTPRequest(r)
	if err == nil {
		err = e.Validate()
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		httpapi.WriteProblem(w, problem.FromCode(problem.BodyTooLarge))
		return
	}
	if err != nil {
		httpapi.WriteProblem(w, problem.New(problem.MalformedJSON, "The request is not a valid CloudEvent."))
		return
	}
	if err := h.receive(r.Context(), *e); err != nil {
		h.log.ErrorContext(r.Context(), "event failed", "type", e.Type(), "id", e.ID(), "error", err)
		httpapi.WriteProblem(w, problem.FromCode(problem.Internal))
		return
	}
	w.WriteHeader(http.StatusOK)
}
