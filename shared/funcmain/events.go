package funcmain

import (
	"context"
	"log/slog"
	"net/http"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

// PingType is the type of the event that a timer sends, as Knative's PingSource does.
const PingType = "dev.knative.sources.ping"

// maxEvent bounds an event's body, in bytes.
const maxEvent = 1 << 20

// Events makes a handler of a CloudEvent function (HTTP binding, binary and
// structured mode). As with the functions-framework, an error answers 5xx and
// the sender tries again, so a function returns nil for what no retry can help.
func Events(log *slog.Logger, receive func(ctx context.Context, e cloudevents.Event) error) http.Handler {
	return receiver{receive: receive, log: log}
}
