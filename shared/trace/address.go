package trace

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Trust says whom a function believes about where its requests come from.
type Trust string

// The values of TRUST_PROXY.
const (
	TrustNobody Trust = "false" // the peer of the connection it is

	// TrustForwarded takes the last entry of X-Forwarded-For, the one that the nearest
	// proxy wrote; the entries before it are the client's own words.
	TrustForwarded Trust = "true"

	// TrustRealIP takes X-Real-Ip: for an ingress that puts the client's address there
	// in place of whatever came (Traefik does), with other proxies behind it that add
	// themselves to X-Forwarded-For, as Knative's do.
	TrustRealIP Trust = "x-real-ip"
)

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Trust) UnmarshalText(text []byte) error {
	switch got := Trust(text); got {
	case TrustNobody, TrustForwarded, TrustRealIP:
		*t = got
		return nil
	}
	return fmt.Errorf("%q is none of false, true and x-real-ip", text)
}

// RealIP is the header that [TrustRealIP] believes.
const RealIP = "X-Real-Ip"

// Address says where a request comes from: whom a trusted proxy says, or else the peer
// of the connection. Without a proxy in front its headers are the client's own words,
// so trust must be asked for. What is no IP address is "", so that nothing else gets
// into a record.
func Address(r *http.Request, t Trust) string {
	said := ""
	switch t {
	case TrustForwarded:
		said = Forwarded(r.Header)
	case TrustRealIP:
		said = plainAddress(r.Header.Get(RealIP))
	case TrustNobody:
	}
	if said != "" {
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

// Network names whom a request comes from, for limits: its [Address], or the /64
// network of an IPv6 address, which one person has all of. All whose address is not
// known count as one.
func Network(r *http.Request, t Trust) string {
	host := Address(r, t)
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is4() {
		return host
	}
	network, err := addr.Prefix(64)
	if err != nil { // 64 fits every IPv6 address
		return host
	}
	return network.String()
}
