package functest

import (
	"net/http"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/tests/check"
)

// Event returns a call with a CloudEvent. An empty subject is omitted.
func Event(tb testing.TB, kind, subject string) Call {
	tb.Helper()
	e := cloudevents.NewEvent()
	e.SetID("1")
	e.SetSource("/test")
	e.SetType(kind)
	if subject != "" {
		e.SetSubject(subject)
	}
	r, err := cloudevents.NewHTTPRequestFromEvent(tb.Context(), "/", e)
	check.OK(tb, err)
	return Call{Method: http.MethodPost, Path: "/", Header: r.Header}
}

// Bearer returns an Authorization header.
func Bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
