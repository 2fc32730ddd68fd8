package trace

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is the header to which each proxy appends the address of its client.
const forwardedFor = "X-Forwarded-For"

// Address returns the address of the client that sent a request. The console names its
// client in a signed header (see [Vouch]). Otherwise the address is the last one that is not
// a trusted proxy's: X-Forwarded-For is read from the right, after the peer of the
// connection. The entries to the left of that address are the client's own. The address is
// "" if the peer has no IP address.
func (c *Clients) Address(r *http.Request) string {
	if address, ok := c.vouched(r.Header); ok {
		return address.String()
	}
	at, ok := peer(r)
	if !ok {
		return ""
	}
	entries := strings.Split(strings.Join(r.Header[forwardedFor], ","), ",")
	for _, entry := range slices.Backward(entries) {
		before, ok := parse(strings.TrimSpace(entry))
		if !ok || !c.trusts(at) {
			break
		}
		at = before
	}
	return at.String()
}

// Peer returns the address of the peer of a request's connection, or "" if it has none.
func Peer(r *http.Request) string {
	if at, ok := peer(r); ok {
		return at.String()
	}
	return ""
}

func peer(r *http.Request) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return parse(host)
}

func parse(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}

// Forwarded returns the last entry of X-Forwarded-For, or "" if it is not an IP address. It
// is for callers that only the ingress can reach.
func Forwarded(h http.Header) string {
	hops := h[forwardedFor]
	if len(hops) == 0 {
		return ""
	}
	last := hops[len(hops)-1]
	addr, ok := parse(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
	if !ok {
		return ""
	}
	return addr.String()
}

// Network returns the network that the request of a context comes from, for limits: its
// address, or the /64 network of an IPv6 address, which one person has all of. It is ""
// for all requests without a known address.
func Network(ctx context.Context) string {
	r, _ := Of(ctx)
	addr, err := netip.ParseAddr(r.Address)
	if err != nil || addr.Is4() {
		return r.Address
	}
	network, err := addr.Prefix(64)
	if err != nil { // 64 fits every IPv6 address
		return r.Address
	}
	return network.String()
}
