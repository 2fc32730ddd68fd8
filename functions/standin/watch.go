package standin

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// tries is how many new connections a look opens at once when its old one fails.
	// With one of two replicas gone but still listed, all of them miss the other one
	// in 1 of 64 looks, and in 1 of 4096 pairs.
	tries = 6

	// misses is how many looks in a row must reach nobody.
	misses = 2

	// soon is from a look that reached nobody to the next, while that is news.
	soon = 50 * time.Millisecond
)

// watch tells whether anybody answers behind an address that leads to one of several
// replicas: a connection may lead to one that is gone while others serve.
type watch struct {
	url   string        // answers 200 when it is reached, e.g. "https://10.96.0.7:8443/readyz"
	every time.Duration // from one look to the next
	limit time.Duration // for one look
	log   *slog.Logger
	kept  *http.Client // keeps its connection
	alone atomic.Bool  // the last looks reached nobody
}

// client makes one that does not verify certificates; see the package's documentation.
func client(once bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // only asks for a sign of life
			ForceAttemptHTTP2: true,
			DisableKeepAlives: once,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) {
	defer w.kept.CloseIdleConnections()
	missed := 0
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := w.look(ctx)
		if ctx.Err() != nil {
			return // a look that was cut short says nothing
		}
		missed = w.note(missed, err)
		pause := w.every
		if missed > 0 && missed < misses {
			pause = min(soon, pause)
		}
		next.Reset(pause)
	}
}

// note counts the looks in a row that reached nobody.
func (w *watch) note(missed int, err error) int {
	if err == nil {
		if w.alone.CompareAndSwap(true, false) {
			w.log.Info("a checker answers again")
		}
		return 0
	}
	missed = min(missed+1, misses)
	if missed == misses && w.alone.CompareAndSwap(false, true) {
		w.log.Warn("no checker answers; standing in", "error", err)
	}
	return missed
}

// look fails when nobody is reached: first by the connection of the last look, then
// by new ones, of which one that succeeds will do.
func (w *watch) look(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	if err := ask(first, w.kept, w.url); err == nil {
		return nil
	}
	w.kept.CloseIdleConnections() // the next look opens a connection of its own
	second, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	ended := make(chan error, tries)
	for range tries {
		go func() {
			c := client(true)
			defer c.CloseIdleConnections()
			ended <- ask(second, c, w.url)
		}()
	}
	var last error
	reached := false
	for range tries { // all are waited for; the first that succeeds ends the others
		if err := <-ended; err != nil {
			last = err
			continue
		}
		reached = true
		cancel()
	}
	if reached {
		return nil
	}
	return last
}

// ask is one request.
func ask(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("look for the checkers: %w", err)
	}
	res, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("look for the checkers: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("look for the checkers: %s", res.Status)
	}
	return nil
}
