package session

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// clientAddress names whom a request comes from, for the throttle: the peer of
// the connection, or, where a proxy is trusted, whom that proxy says. An IPv6
// address counts by its /64 network, which one person has all of.
func clientAddress(r *http.Request, proxied bool) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if hops := r.Header.Values("X-Forwarded-For"); proxied && len(hops) > 0 {
		last := hops[len(hops)-1]
		if said := strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]); said != "" {
			host = said
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(64)
	if err != nil { // 64 fits every IPv6 address
		return host
	}
	return network.String()
}
