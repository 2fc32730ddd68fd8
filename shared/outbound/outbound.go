// Package outbound calls servers of other organizations, such as CI systems and image registries.
// A server cannot redirect a call of [Client], delay it for longer than [Patience], or fill the
// memory of this process.
package outbound

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

const (
	// Patience is the time limit for a response.
	Patience = 5 * time.Second

	// MaxAnswer is the largest response body, in bytes.
	MaxAnswer = 256 << 10
)

// ErrNoAnswer is returned if a server sends no usable response.
var ErrNoAnswer = errors.New("no usable response")

// CheckAddress returns an error unless an address uses https, or http on the loopback interface,
// and has no user.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a URL", address)
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("%q has a user or no host", address)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return fmt.Errorf("%q does not use https", address)
	}
	return nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// Client returns a client for JSON of limited size.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Timeout: Patience, Transport: Bounded{transport}}
}

// Bounded accepts only complete JSON with status 200. Clients therefore follow no redirects.
type Bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. Its errors wrap [ErrNoAnswer].
func (b Bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d", ErrNoAnswer, resp.StatusCode)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrNoAnswer, MaxAnswer)
	case !json.Valid(body):
		return nil, fmt.Errorf("%w: not JSON", ErrNoAnswer)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
