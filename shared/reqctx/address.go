package reqctx

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// Address returns the client's address, or "" if it is unknown. The console sends the address of
// its client in a signed header ([Vouch]). Otherwise it is the first address that is not a trusted
// proxy, starting with the connection's peer and then in X-Forwarded-For from right to left.
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

// Peer returns the address of the connection's peer, or "".
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

// Forwarded returns the last address in X-Forwarded-For, or "" if it is not an IP address. Use it
// only for requests from the ingress.
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

// Network returns the client's IPv4 address or its IPv6 /64 network, or "" if unknown. Rate limits
// use it.
func Network(ctx context.Context) string {
	r, _ := FromContext(ctx)
	addr, err := netip.ParseAddr(r.Address)
	if err != nil || addr.Is4() {
		return r.Address
	}
	network, err := addr.Prefix(64)
	if err != nil { // never for IPv6
		return r.Address
	}
	return network.String()
}
