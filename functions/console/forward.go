package console

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
)

const (
	dialLimit       = 3 * time.Second
	idleConnections = 64 // kept open to the API: a page makes a few calls at once
)

// forwarder sends the console's calls. Each tells on whose behalf it is made: the
// browser's address, for the throttle of sign-ins, and the request's id, which
// finds a page's calls in the logs of all functions.
type forwarder struct{ base *http.Transport }

func newForwarder() forwarder {
	return forwarder{base: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 5 * time.Second,
	}}
}

// RoundTrip implements [http.RoundTripper].
func (f forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	r = r.Clone(ctx)
	if id := httpapi.RequestID(ctx); id != "" {
		r.Header.Set(httpapi.RequestIDHeader, id)
	}
	if address, _ := ctx.Value(addressKey{}).(string); address != "" {
		r.Header.Set("X-Forwarded-For", address)
	}
	return f.base.RoundTrip(r)
}

type addressKey struct{}

// onBehalf gives a context whose calls are made on behalf of the browser at an
// address.
func onBehalf(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// browserAddress is the peer of the connection, or whom a trusted proxy says.
func browserAddress(r *http.Request, proxied bool) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if hops := r.Header.Values("X-Forwarded-For"); proxied && len(hops) > 0 {
		last := hops[len(hops)-1]
		if said := strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]); net.ParseIP(said) != nil {
			host = said
		}
	}
	return host
}
