package trace

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Address says where a request comes from: the peer of the connection, or, where a
// proxy is trusted, whom that proxy says. That is the last entry of X-Forwarded-For,
// the one that the nearest proxy wrote; the entries before it are the client's own
// words. What is no IP address is "", so that nothing else gets into a record.
func Address(r *http.Request, proxied bool) string {
	if said := Forwarded(r.Header); proxied && said != "" {
		return said
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return plainAddress(host)
}

// Forwarded gives the last entry of X-Forwarded-For, or "" where that is no IP
// address.
func Forwarded(h http.Header) string {
	hops := h["X-Forwarded-For"]
	if len(hops) == 0 {
		return ""
	}
	last := hops[len(hops)-1]
	return plainAddress(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
}

func plainAddress(s string) string {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return ""
	}
	return addr.Unmap().WithZone("").String()
}
