// Package balancer spreads TCP connections over endpoints, as kube-proxy does
// for a Service: round robin, per connection, without looking inside. An endpoint
// that refuses is passed over. Readiness plays no part.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialLimit is for one endpoint to accept.
const dialLimit = 2 * time.Second

// Balancer listens on one address.
type Balancer struct {
	listener  net.Listener
	endpoints []string // "127.0.0.1:8086"
	log       *slog.Logger
	turn      atomic.Uint64
	tasks     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Listen starts a balancer on address. It ends with Close.
func Listen(ctx context.Context, address string, endpoints []string, log *slog.Logger) (*Balancer, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	b := &Balancer{listener: l, endpoints: endpoints, log: log, open: map[net.Conn]struct{}{}}
	b.tasks.Go(b.accept)
	return b, nil
}

// Addr is where it listens.
func (b *Balancer) Addr() net.Addr { return b.listener.Addr() }

// Close cuts all connections and waits for their end.
func (b *Balancer) Close() error {
	err := b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for c := range b.open {
		err = errors.Join(err, c.Close())
	}
	b.mu.Unlock()
	b.tasks.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // one that was closing by itself
	}
	return err
}

func (b *Balancer) accept() {
	for {
		c, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.log.Warn("connection not accepted", "error", err)
			continue
		}
		b.tasks.Go(func() { b.carry(c) })
	}
}

// carry joins a client with the first endpoint that takes it.
func (b *Balancer) carry(client net.Conn) {
	if !b.track(client) {
		return
	}
	defer b.drop(client)
	server, err := b.dial()
	if err != nil {
		b.log.Warn("no endpoint takes connections", "address", b.Addr().String(), "error", err)
		return
	}
	if !b.track(server) {
		return
	}
	defer b.drop(server)
	var up sync.WaitGroup
	up.Go(func() { stream(server, client) })
	stream(client, server)
	up.Wait()
}

// dial takes the endpoints in turn until one accepts.
func (b *Balancer) dial() (net.Conn, error) {
	first := b.turn.Add(1) - 1
	dialer := net.Dialer{Timeout: dialLimit}
	var failed error
	for i := range uint64(len(b.endpoints)) {
		endpoint := b.endpoints[(first+i)%uint64(len(b.endpoints))]
		c, err := dialer.Dial("tcp", endpoint)
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// stream copies until from ends and then ends to's half of the conversation. An
// error means that one side is gone, so the other is let go too.
func stream(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails when it is closed already
	}
}

// track keeps a connection for Close; it is closed at once when that has been.
func (b *Balancer) track(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close()
		return false
	}
	b.open[c] = struct{}{}
	return true
}

func (b *Balancer) drop(c net.Conn) {
	b.mu.Lock()
	delete(b.open, c)
	b.mu.Unlock()
	_ = c.Close() // may be closed already
}
