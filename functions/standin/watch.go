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
	// tries is the number of new connections that a probe opens if the previous connection fails.
	// If one of two replicas is down but still an endpoint, 1 probe in 64 misses the other
	// replica. Two consecutive probes miss it in 1 of 4,096 cases.
	tries = 6

	// misses is the number of consecutive failed probes that make the stand-in ready.
	misses = 2

	// retryPause is the pause after the first failed probe.
	retryPause = 50 * time.Millisecond
)

// watch checks whether any replica behind a Service responds. A connection may reach a replica
// that is down while others serve.
type watch struct {
	url    string        // e.g. "https://10.96.0.7:8443/readyz"
	every  time.Duration // time between two probes
	limit  time.Duration // for one probe
	log    *slog.Logger
	client *http.Client // reuses its connection
	alone  atomic.Bool  // the last probes failed
}

func newClient(once bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // only checks reachability
			ForceAttemptHTTP2: true,
			DisableKeepAlives: once,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (w *watch) run(ctx context.Context) {
	defer w.client.CloseIdleConnections()
	missed := 0
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := w.probe(ctx)
		if ctx.Err() != nil {
			return // a canceled probe has no result
		}
		missed = w.note(missed, err)
		pause := w.every
		if missed > 0 && missed < misses {
			pause = min(retryPause, pause)
		}
		next.Reset(pause)
	}
}

func (w *watch) note(missed int, err error) int {
	if err == nil {
		if w.alone.CompareAndSwap(true, false) {
			w.log.Info("checker reachable again")
		}
		return 0
	}
	missed = min(missed+1, misses)
	if missed == misses && w.alone.CompareAndSwap(false, true) {
		w.log.Warn("no checker reachable, standing in", "error", err)
	}
	return missed
}

// probe returns an error if no replica responds, on the previous connection or on new ones.
func (w *watch) probe(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	if err := request(first, w.client, w.url); err == nil {
		return nil
	}
	w.client.CloseIdleConnections() // the next probe opens a new connection
	second, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	ended := make(chan error, tries)
	for range tries {
		go func() {
			c := newClient(true)
			defer c.CloseIdleConnections()
			ended <- request(second, c, w.url)
		}()
	}
	var last error
	reached := false
	for range tries { // waits for all; the first success cancels the others
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

func request(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("probe checkers: %w", err)
	}
	res, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("probe checkers: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("probe checkers: %s", res.Status)
	}
	return nil
}
