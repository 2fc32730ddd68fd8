// Package notify asks another function, asynchronously and on a best-effort basis, to process an
// app. It sends a CloudEvent whose subject is the app. A lost or repeated event does no harm: the
// function's periodic resync finds the same work. The event carries the request ID ([RequestID])
// and the traceparent, both as an attribute and as a header.
package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// RequestID is the CloudEvents attribute with the request ID.
const RequestID = "requestid"

const (
	timeout = 25 * time.Second // for one event: the receiver responds after it has processed the app

	// maxOpen limits the events in progress. Further events are dropped.
	maxOpen = 32

	maxAnswer = 1 << 12 // bytes read of a response
)

// Sender sends events to one function.
type Sender struct {
	url    string
	source string
	client *http.Client
	room   chan struct{}
	log    *slog.Logger

	ctx    context.Context //nolint:containedctx // events outlive the requests that cause them
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// New returns a sender of events to url; an empty url disables it. source identifies the sender,
// e.g. "/sluice/webhook".
func New(url, source string, log *slog.Logger) *Sender {
	ctx, cancel := context.WithCancel(context.Background())
	return &Sender{
		url: url, source: source, client: &http.Client{Timeout: timeout}, room: make(chan struct{}, maxOpen), log: log,
		ctx: ctx, cancel: cancel,
	}
}

// Notify sends an event about an app, e.g. [app.DeployRequested], and returns immediately. It
// uses only the request ID and the trace from ctx.
func (s *Sender) Notify(ctx context.Context, eventType string, ref app.Ref) {
	if s.url == "" {
		return
	}
	select {
	case s.room <- struct{}{}:
	default:
		s.log.WarnContext(ctx, "notify failed", "type", eventType, "app", ref.String(), "error", "too many events in progress")
		return
	}
	of, _ := reqctx.FromContext(ctx)
	_, event := span.Start(ctx, span.Producer, "notify "+eventType, span.OfApp(ref)...)
	of.Parent = cmp.Or(event.Parent(), of.Parent)
	s.group.Go(func() {
		defer func() { <-s.room }()
		err := s.send(eventType, ref, of)
		event.End(err)
		if err != nil {
			s.log.WarnContext(ctx, "notify failed", "type", eventType, "app", ref.String(), "error", err)
		}
	})
}

func (s *Sender) send(eventType string, ref app.Ref, of reqctx.Request) error {
	e := cloudevents.NewEvent()
	e.SetID(rand.Text())
	e.SetSource(s.source)
	e.SetType(eventType)
	e.SetSubject(ref.String())
	if of.ID != "" {
		e.SetExtension(RequestID, of.ID)
	}
	if of.Parent != "" {
		e.SetExtension(reqctx.ParentHeader, of.Parent)
	}
	return Post(s.ctx, s.client, s.url, e)
}

// Post sends a CloudEvent once, in HTTP binary mode. It returns an [StatusError] unless the
// status is 2xx. Unlike the SDK's client, it limits how much of a response it reads.
func Post(ctx context.Context, client *http.Client, url string, e cloudevents.Event) error {
	req, err := cloudevents.NewHTTPRequestFromEvent(ctx, url, e)
	if err != nil {
		return err
	}
	if parent, ok := e.Extensions()[reqctx.ParentHeader].(string); ok {
		req.Header.Set(reqctx.ParentHeader, parent)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // read to the end to reuse the connection
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &StatusError{Status: resp.StatusCode, Again: resp.Header.Get("Retry-After"), text: answer}
	}
	return nil
}

// StatusError is a response with an error status.
type StatusError struct {
	Status int    // of HTTP, e.g. 503
	Again  string // Retry-After; "" without one
	text   []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("receiver returned %d: %.200q", e.Status, e.text)
}

// Close waits for the events in progress, and cancels them when ctx ends.
func (s *Sender) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.group.Wait()
		close(done)
	}()
	defer s.cancel()
	select {
	case <-done:
	case <-ctx.Done():
		s.cancel()
		<-done
	}
	return nil
}
