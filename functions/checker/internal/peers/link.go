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

const minInterval = 10 * time.Millisecond

// Timeout is the time limit for sending a message.
const Timeout = 500 * time.Millisecond

// Link sends and receives the messages of an exchange.
type Link struct {
	Exchange *Exchange
	Client   *http.Client // uses and requires the checkers' certificate; nil sends nothing
	Now      func() time.Time
	Log      *slog.Logger

	Traffic Traffic
}

// Traffic counts the messages of a link.
type Traffic struct {
	Sent, Failed, Received, Refused atomic.Uint64
	BytesSent, BytesReceived        atomic.Uint64
}

// Run sends updates to all peers until ctx ends: every [Interval], and sooner if a quota is
// almost used up.
func (l *Link) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	senders := map[string]*sender{}
	hurry := l.Exchange.cfg.Meter.Urgent()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			tick.Reset(minInterval)
			hurry = nil // until the next tick
			continue
		case <-tick.C:
			tick.Reset(Interval)
			hurry = l.Exchange.cfg.Meter.Urgent()
		}
		l.Exchange.Tick(l.Now())
		if l.Client == nil {
			continue
		}
		addresses := l.Exchange.Addresses()
		maps.DeleteFunc(senders, func(run string, _ *sender) bool { return addresses[run] == "" })
		for run, address := range addresses {
			if address == "" {
				continue
			}
			if senders[run] == nil {
				senders[run] = &sender{run: run, address: address}
			}
			if s := senders[run]; s.busy.CompareAndSwap(false, true) {
				all.Go(func() {
					defer s.busy.Store(false)
					l.send(ctx, s)
				})
			}
		}
	}
}

type sender struct {
	run, address string
	busy         atomic.Bool
	failing      bool // guarded by busy
}

func (l *Link) send(ctx context.Context, s *sender) {
	messages, upTo := l.Exchange.Messages(s.run)
	for _, m := range messages {
		err := l.post(ctx, s.address, m)
		if failing := err != nil; failing != s.failing && ctx.Err() == nil {
			s.failing = failing
			l.Log.Warn("peer reachability changed", "address", s.address, "reachable", !failing, "error", err)
		}
		if err != nil {
			l.Traffic.Failed.Add(1)
			return
		}
	}
	l.Exchange.Acknowledged(s.run, upTo)
}

func (l *Link) post(ctx context.Context, address string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
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
	defer func() { _ = res.Body.Close() }() // the body is empty
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("peer returned status %s", res.Status)
	}
	l.Traffic.Sent.Add(1)
	l.Traffic.BytesSent.Add(uint64(len(message)))
	return nil
}

// ServeHTTP serves a peer's message. The caller must have verified the peer's certificate. With any
// status except 204, the message has had no effect.
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
