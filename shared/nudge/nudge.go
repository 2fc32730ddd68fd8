// Package nudge tells another function, in the background and at best effort,
// that there is work on an app: a CloudEvent whose subject is the app. It only
// hurries that function up; its periodic pass finds the same work, so an event
// that is lost, or comes twice, does no harm. It carries the id of the request that
// causes it ([RequestID]), so that the other function's log lines can be found by it.
package nudge

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/trace"
)

// RequestID is the CloudEvents attribute of a request's id.
const RequestID = "requestid"

const (
	timeout = 25 * time.Second // for one event: the receiver answers when it has worked on it

	// maxOpen bounds events on their way. One that finds no room is dropped.
	maxOpen = 32
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

// Tell sends an event of a type about an app, e.g. [app.DeployRequested], and does
// not wait. Of ctx it takes the request's id alone: the event outlives the request.
func (s *Sender) Tell(ctx context.Context, eventType string, ref app.Ref) {
	if s.url == "" {
		return
	}
	select {
	case s.room <- struct{}{}:
	default:
		s.log.WarnContext(ctx, "not told: too many events on their way", "type", eventType, "app", ref.String())
		return
	}
	id := trace.ID(ctx)
	s.group.Go(func() {
		defer func() { <-s.room }()
		if err := s.send(eventType, ref, id); err != nil {
			s.log.WarnContext(ctx, "not told", "type", eventType, "app", ref.String(), "error", err)
		}
	})
}

// send sends a CloudEvent in HTTP's binary mode.
func (s *Sender) send(eventType string, ref app.Ref, id string) error {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Ce-Specversion", "1.0")
	req.Header.Set("Ce-Id", rand.Text())
	req.Header.Set("Ce-Source", s.source)
	req.Header.Set("Ce-Type", eventType)
	req.Header.Set("Ce-Subject", ref.String())
	if id != "" {
		req.Header.Set("Ce-Requestid", id)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written through it
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the receiver answered %d", resp.StatusCode)
	}
	return nil
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
