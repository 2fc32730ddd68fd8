package session

import (
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice/shared/trace"
)

// clientAddress names whom a request comes from, for the throttle. An IPv6 address
// counts by its /64 network, which one person has all of; all whose address is not
// known count as one.
func clientAddress(r *http.Request, t trace.Trust) string {
	host := trace.Address(r, t)
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
