package console

import (
	"net"
	"net/http"
	"time"
)

const (
	dialLimit       = 3 * time.Second
	idleConnections = 64 // kept open to the API: a page makes a few calls at once
)

// newTransport makes the connections of the console's calls. The calls themselves
// tell on whose behalf they are made (package trace): the browser's address, for the
// throttle of sign-ins and the audit, and the request's id.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 5 * time.Second,
	}
}
