// Package balancer distributes TCP connections over endpoints in turn, as kube-proxy does for a
// Service. It tries no other endpoint if the chosen one refuses, and resets every connection if
// there are none. Open connections survive a change of the endpoints.
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

const dialLimit = 2 * time.Second

// Balancer listens on one address.
type Balancer struct {
	listener  net.Listener
	endpoints atomic.Pointer[[]string] // e.g. "127.0.0.10:8086"
	log       *slog.Logger
	turn      atomic.Uint64
	tasks     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Listen starts a balancer on address until Close.
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

// Set replaces the endpoints of new connections.
func (b *Balancer) Set(endpoints []string) {
	own := slices.Clone(endpoints)
	b.endpoints.Store(&own)
}

// Addr returns the address of the balancer.
func (b *Balancer) Addr() net.Addr { return b.listener.Addr() }

// Close closes all connections.
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
		return nil
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
			b.log.Warn("accept connection failed", "error", err)
			continue
		}
		b.tasks.Go(func() { b.carry(c) })
	}
}

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

func (b *Balancer) dial() (net.Conn, error) {
	endpoints := *b.endpoints.Load()
	if len(endpoints) == 0 {
		return nil, errors.New("no endpoints")
	}
	dialer := net.Dialer{Timeout: dialLimit}
	turn := b.turn.Add(1) - 1
	return dialer.Dial("tcp", endpoints[turn%uint64(len(endpoints))])
}

// refuse makes Close reset the connection.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only if it is already closed
	}
}

// stream copies until from ends, and then closes the write side of to. An error closes both.
func stream(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails only if it is already closed
	}
}

// track records a connection for Close. It returns false if the balancer is closed.
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
	_ = c.Close()
}
