package funcmain

import (
	"context"
	"fmt"
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
// the sender tries again, so a function returns nil for what no retry can help.
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
		r.Body = http.MaxBytesReader(w, r.Body, maxEvent)
		h.ServeHTTP(w, r)
	}), nil
}
