package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// breath is the least time from one telling to the next.
const breath = 10 * time.Millisecond

// Patience is how long a peer may take to take a message.
const Patience = 500 * time.Millisecond

// Link carries an exchange's messages.
type Link struct {
	Exchange *Exchange
	Client   *http.Client // shows the checkers' certificate, and wants to see it; nil reaches nobody
	Now      func() time.Time
	Log      *slog.Logger

	Traffic Traffic
}

// Traffic is what went over a link.
type Traffic struct {
	Sent, Failed, Received, Refused atomic.Uint64 // messages
	BytesSent, BytesReceived        atomic.Uint64
}

// Run tells all peers what they do not know yet, every [Interval] and when a quota runs
// out, until ctx ends. A peer that is slow to take a message is told more in the next one.
func (l *Link) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ways := map[string]*way{} // by run
	hurry := l.Exchange.cfg.Meter.Hurry()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			tick.Reset(breath)
			hurry = nil // until then
			continue
		case <-tick.C:
			tick.Reset(Interval)
			hurry = l.Exchange.cfg.Meter.Hurry()
		}
		l.Exchange.Tick(l.Now())
		if l.Client == nil {
			continue
		}
		addresses := l.Exchange.Addresses()
		maps.DeleteFunc(ways, func(run string, _ *way) bool { return addresses[run] == "" })
		for run, address := range addresses {
			if address == "" {
				continue
			}
			if ways[run] == nil {
				ways[run] = &way{run: run, address: address}
			}
			if w := ways[run]; w.taken.CompareAndSwap(false, true) {
				all.Go(func() {
					defer w.taken.Store(false)
					l.tell(ctx, w)
				})
			}
		}
	}
}

// way is how messages get to one peer.
type way struct {
	run, address string
	taken        atomic.Bool // by a message
	broken       bool        // only who has taken it may ask
}

// tell tells one peer what it does not know yet.
func (l *Link) tell(ctx context.Context, w *way) {
	messages, upTo := l.Exchange.Messages(w.run)
	for _, m := range messages {
		err := l.send(ctx, w.address, m)
		if broken := err != nil; broken != w.broken && ctx.Err() == nil {
			w.broken = broken
			l.Log.Warn("peer reachability changed", "address", w.address, "reachable", !broken, "error", err)
		}
		if err != nil {
			l.Traffic.Failed.Add(1)
			return
		}
	}
	l.Exchange.Acknowledged(w.run, upTo)
}

func (l *Link) send(ctx context.Context, address string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	u := url.URL{Scheme: "https", Host: address, Path: Path}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(message))
	if err != nil {
		return err
	}
	res, err := l.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it is empty
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("peer answers %s", res.Status)
	}
	l.Traffic.Sent.Add(1)
	l.Traffic.BytesSent.Add(uint64(len(message)))
	return nil
}

// ServeHTTP takes in a peer's message; that its sender has the checkers' certificate is the
// caller's to see to. 204: it is taken in. 400, 403, 409, 413: nothing has changed.
func (l *Link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := l.receive(w, r)
	if status == http.StatusNoContent {
		l.Traffic.Received.Add(1)
	} else {
		l.Traffic.Refused.Add(1)
	}
	w.WriteHeader(status)
}

func (l *Link) receive(w http.ResponseWriter, r *http.Request) int {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return http.StatusBadRequest
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return http.StatusForbidden
	}
	switch err := l.Exchange.Receive(l.Now(), from, message); {
	case err == nil:
		l.Traffic.BytesReceived.Add(uint64(len(message)))
		return http.StatusNoContent
	case errors.Is(err, ErrUnknownPeer):
		return http.StatusForbidden
	case errors.Is(err, ErrStale):
		return http.StatusConflict
	default:
		return http.StatusBadRequest
	}
}
