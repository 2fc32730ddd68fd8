// Package nudge tells another function, in the background and at best effort,
// that there is work on an app: a CloudEvent whose subject is the app. It only
// hurries that function up; its periodic pass finds the same work, so an event
// that is lost, or comes twice, does no harm. It carries the id of the request that
// causes it ([RequestID]), so that the other function's log lines can be found by it, and
// its traceparent, as the attribute of the distributed tracing extension and as the header.
package nudge

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
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

// RequestID is the CloudEvents attribute of a request's id.
const RequestID = "requestid"

const (
	timeout = 25 * time.Second // for one event: the receiver answers when it has worked on it

	// maxOpen bounds events on their way. One that finds no room is dropped.
	maxOpen = 32

	maxAnswer = 1 << 12 // bytes that are read of an answer
)

// Sender sends nudges to one function.
type Sender struct {
	url    string // "" tells nobody
	source string
	client *http.Client
	room   chan struct{}
	log    *slog.Logger

	ctx    context.Context //nolint:containedctx // the events' own: they outlive the requests that cause them
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// New makes a sender to the function that takes CloudEvents at url, which may be
// "" where there is none; source says who sends, e.g. "/sluice/webhook".
func New(url, source string, log *slog.Logger) *Sender {
	ctx, cancel := context.WithCancel(context.Background())
	return &Sender{
		url: url, source: source, client: &http.Client{Timeout: timeout}, room: make(chan struct{}, maxOpen), log: log,
		ctx: ctx, cancel: cancel,
	}
}

// Notify sends an event of a type about an app, e.g. [app.DeployRequested], and does
// not wait. Of ctx it takes the request's id and trace alone: the event outlives the request.
func (s *Sender) Notify(ctx context.Context, eventType string, ref app.Ref) {
	if s.url == "" {
		return
	}
	select {
	case s.room <- struct{}{}:
	default:
		s.log.WarnContext(ctx, "notify failed", "type", eventType, "app", ref.String(), "error", "too many events on their way")
		return
	}
	of, _ := trace.Of(ctx)
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

// send sends one event.
func (s *Sender) send(eventType string, ref app.Ref, of trace.Request) error {
	e := cloudevents.NewEvent()
	e.SetID(rand.Text())
	e.SetSource(s.source)
	e.SetType(eventType)
	e.SetSubject(ref.String())
	if of.ID != "" {
		e.SetExtension(RequestID, of.ID)
	}
	if of.Parent != "" {
		e.SetExtension(trace.ParentHeader, of.Parent)
	}
	return Post(s.ctx, s.client, s.url, e)
}

// Post sends a CloudEvent in HTTP's binary mode, once. Anything but a 2xx is an
// [AnswerError]. (The SDK's own client reads the whole answer to a failure, however long.)
func Post(ctx context.Context, client *http.Client, url string, e cloudevents.Event) error {
	req, err := cloudevents.NewHTTPRequestFromEvent(ctx, url, e)
	if err != nil {
		return err
	}
	if parent, ok := e.Extensions()[trace.ParentHeader].(string); ok {
		req.Header.Set(trace.ParentHeader, parent)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()                        // nothing was written through it
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // to its end, so that the connection can be used again
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &AnswerError{Status: resp.StatusCode, Again: resp.Header.Get("Retry-After"), text: answer}
	}
	return nil
}

// AnswerError is an answer that is not good.
type AnswerError struct {
	Status int    // of HTTP, e.g. 503
	Again  string // Retry-After; "" without one
	text   []byte
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the receiver answered %d %.200q", e.Status, e.text)
}

// Close waits for the events on their way; those that are not through when ctx
// ends are given up.
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
