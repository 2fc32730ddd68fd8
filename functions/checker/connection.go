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

// staleLife is how long a connection to a stale replica may have lived.
const staleLife = time.Second

//nolint:gochecknoglobals // a constant; net/http wants a slice
var closeConnection = []string{"close"}

// connection is what is known of one; its type is its key in its requests' context.
type connection struct {
	opened time.Time
	ends   time.Time   // zero never
	peer   atomic.Bool // the other end has shown the checkers' certificate
}

// Connected is told of each new connection (see [http.Server.ConnContext]).
func (c *Checker) Connected(ctx context.Context, _ net.Conn) context.Context {
	n := &connection{opened: c.now()}
	if age := c.cfg.ConnectionAge; age > 0 {
		n.ends = n.opened.Add(age/2 + rand.N(age)) //nolint:gosec // spreads ends, protects nothing
	}
	return context.WithValue(ctx, connection{}, n)
}

// connectionOf gives a request's connection, nil outside of a server.
func connectionOf(ctx context.Context) *connection {
	n, _ := ctx.Value(connection{}).(*connection)
	return n
}

// endOld ends a connection that has lived long enough: over HTTP/2 the proxy keeps one,
// and would ask this replica alone as long as it lives. Requests on it are answered.
func (c *Checker) endOld(ctx context.Context, h http.Header, now time.Time) {
	if n := connectionOf(ctx); n != nil && !n.ends.IsZero() && now.After(n.ends) {
		h["Connection"] = closeConnection
	}
}

// sendAway ends the connection of a denial that another replica might not give. Each
// connection is let live for a second, which costs no storm of handshakes when every
// replica denies; it is each connection's own second, so that no proxy waits for others to
// be sent away.
func (c *Checker) sendAway(ctx context.Context, h http.Header, now time.Time) {
	if n := connectionOf(ctx); n != nil && now.Sub(n.opened) >= staleLife {
		h["Connection"] = closeConnection
	}
}

// serveCounts takes in what a peer has allowed, from those who hold the checkers'
// certificate.
func (c *Checker) serveCounts(w http.ResponseWriter, r *http.Request) {
	if !c.fromPeer(r) {
		c.peers.Traffic.Refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c.endOld(r.Context(), w.Header(), c.now())
	c.peers.ServeHTTP(w, r)
}

// fromPeer tells whether a request's sender holds the checkers' certificate, which is
// verified once a connection.
func (c *Checker) fromPeer(r *http.Request) bool {
	n := connectionOf(r.Context())
	if n == nil || r.TLS == nil || c.certificate == nil {
		return false
	}
	if n.peer.Load() {
		return true
	}
	if err := c.certificate.Recognize(r.TLS.PeerCertificates); err != nil {
		c.log.Debug("counts refused", "address", r.RemoteAddr, "error", err)
		return false
	}
	n.peer.Store(true)
	return true
}

// toPeers sends counts to peers, from the address that this replica's canaries name.
func (c *Checker) toPeers() *http.Client {
	ip := net.ParseIP(c.cfg.PodIP)
	if ip == nil {
		return nil // nobody knows where to reach this replica, nor listens to it
	}
	dialer := &net.Dialer{Timeout: peers.Patience, LocalAddr: &net.TCPAddr{IP: ip}}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.certificate.Client(),
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: time.Second,
		IdleConnTimeout:     time.Minute,
	}}
}
