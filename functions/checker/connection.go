package checker

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/peers"
)

const closeAge = time.Second

//nolint:gochecknoglobals // a constant; net/http wants a slice
var connectionClose = []string{"close"}

// connection is the state of a connection.
type connection struct {
	opened  time.Time
	closeAt time.Time   // zero for no limit
	peer    atomic.Bool // has presented the checkers' certificate
}

// Connected adds the state of a new connection to ctx (see [http.Server.ConnContext]).
func (c *Checker) Connected(ctx context.Context, _ net.Conn) context.Context {
	n := &connection{opened: c.now()}
	if age := c.cfg.ConnectionAge; age > 0 {
		n.closeAt = n.opened.Add(age/2 + rand.N(age)) //nolint:gosec // not relevant for security
	}
	return context.WithValue(ctx, connection{}, n)
}

func connectionOf(ctx context.Context) *connection {
	n, _ := ctx.Value(connection{}).(*connection)
	return n
}

// closeOldConnection closes a connection that has exceeded its age, by GOAWAY over HTTP/2. Otherwise
// a proxy would keep its connection and call only one replica. Requests in progress are completed.
func (c *Checker) closeOldConnection(ctx context.Context, h http.Header, now time.Time) {
	if n := connectionOf(ctx); n != nil && !n.closeAt.IsZero() && now.After(n.closeAt) {
		h["Connection"] = connectionClose
	}
}

// closeConnection closes a connection after a 503, unless it is younger than closeAge. Otherwise,
// while every replica denies, each request would cause a TLS handshake.
func (c *Checker) closeConnection(ctx context.Context, h http.Header, now time.Time) {
	if n := connectionOf(ctx); n != nil && now.Sub(n.opened) >= closeAge {
		h["Connection"] = connectionClose
	}
}

// serveCounts serves POST /counts, for clients with the checkers' certificate.
func (c *Checker) serveCounts(w http.ResponseWriter, r *http.Request) {
	if !c.fromPeer(r) {
		c.peers.Traffic.Refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c.closeOldConnection(r.Context(), w.Header(), c.now())
	c.peers.ServeHTTP(w, r)
}

func (c *Checker) fromPeer(r *http.Request) bool {
	n := connectionOf(r.Context())
	if n == nil || r.TLS == nil || c.certificate == nil {
		return false
	}
	if n.peer.Load() {
		return true
	}
	if err := c.certificate.VerifyPeer(r.TLS.PeerCertificates); err != nil {
		c.log.Debug("peer message rejected", "address", r.RemoteAddr, "error", err)
		return false
	}
	n.peer.Store(true)
	return true
}

// toPeers returns a client for calls to peers, or nil if this replica has no address.
func (c *Checker) toPeers() *http.Client {
	ip := net.ParseIP(c.cfg.PodIP)
	if ip == nil {
		return nil
	}
	dialer := &net.Dialer{Timeout: peers.Timeout, LocalAddr: &net.TCPAddr{IP: ip}}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.certificate.Client(),
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: time.Second,
		IdleConnTimeout:     time.Minute,
	}}
}
