package apps

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
)

const (
	// tellTimeout bounds one event: wiring answers once it has tried to prove the
	// gate, which it gives up after some seconds.
	tellTimeout = 25 * time.Second

	// maxTelling bounds events on their way. One that finds no room is dropped, and
	// wiring's next tick finds the work.
	maxTelling = 32
)

// wiring tells the wiring function which app's gate was switched, in the
// background and at best effort.
type wiring struct {
	url    string // "" tells nobody
	client *http.Client
	room   chan struct{}
	log    *slog.Logger

	ctx    context.Context //nolint:containedctx // the events' own: they outlive the requests that cause them
	cancel context.CancelFunc
	group  sync.WaitGroup
}

func newWiring(url string, log *slog.Logger) *wiring {
	ctx, cancel := context.WithCancel(context.Background())
	return &wiring{
		url: url, client: &http.Client{Timeout: tellTimeout}, room: make(chan struct{}, maxTelling), log: log,
		ctx: ctx, cancel: cancel,
	}
}

// tell sends the event and does not wait.
func (n *wiring) tell(ref app.Ref) {
	if n.url == "" {
		return
	}
	select {
	case n.room <- struct{}{}:
	default:
		n.log.Warn("wiring not told: too many events on their way", "app", ref.String())
		return
	}
	n.group.Go(func() {
		defer func() { <-n.room }()
		if err := n.send(ref); err != nil {
			n.log.Warn("wiring not told", "app", ref.String(), "error", err)
		}
	})
}

// send sends a CloudEvent in HTTP's binary mode.
func (n *wiring) send(ref app.Ref) error {
	req, err := http.NewRequestWithContext(n.ctx, http.MethodPost, n.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Ce-Specversion", "1.0")
	req.Header.Set("Ce-Id", rand.Text())
	req.Header.Set("Ce-Source", "/sluice/apps")
	req.Header.Set("Ce-Type", app.GateRequested)
	req.Header.Set("Ce-Subject", ref.String())
	resp, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written through it
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("wiring answered %d", resp.StatusCode)
	}
	return nil
}

// close waits for the events on their way; those that are not through when ctx
// ends are given up.
func (n *wiring) close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		n.group.Wait()
		close(done)
	}()
	defer n.cancel()
	select {
	case <-done:
	case <-ctx.Done():
		n.cancel()
		<-done
	}
	return nil
}
