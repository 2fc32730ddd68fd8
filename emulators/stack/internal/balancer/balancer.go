// Package balancer spreads TCP connections over endpoints, as kube-proxy does
// for a Service: in turn, per connection, without looking inside. A connection goes
// to one endpoint and, if that one refuses, nowhere else. Without endpoints every
// connection is refused. When the endpoints change, connections that are open stay
// where they are.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// dialLimit is for one endpoint to accept.
const dialLimit = 2 * time.Second

// Balancer listens on one address.
type Balancer struct {
	listener  net.Listener
	endpoints atomic.Pointer[[]string] // "127.0.0.10:8086"
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
	b := &Balancer{listener: l, log: log, open: map[net.Conn]struct{}{}}
	b.Set(endpoints)
	b.tasks.Go(b.accept)
	return b, nil
}

// Set leads new connections to other endpoints.
func (b *Balancer) Set(endpoints []string) {
	own := slices.Clone(endpoints)
	b.endpoints.Store(&own)
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

// carry joins a client with the endpoint whose turn it is.
func (b *Balancer) carry(client net.Conn) {
	if !b.track(client) {
		return
	}
	defer b.drop(client)
	server, err := b.dial()
	if err != nil {
		b.log.Debug("connection refused", "address", b.Addr().String(), "error", err)
		refuse(client)
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

// dial opens a connection to the endpoint whose turn it is.
func (b *Balancer) dial() (net.Conn, error) {
	endpoints := *b.endpoints.Load()
	if len(endpoints) == 0 {
		return nil, errors.New("no endpoint is ready")
	}
	dialer := net.Dialer{Timeout: dialLimit}
	turn := b.turn.Add(1) - 1
	return dialer.Dial("tcp", endpoints[turn%uint64(len(endpoints))])
}

// refuse resets a connection: the nearest to not taking it at all.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails when it is closed already
	}
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
