// Package published reads what others publish for whoever verifies what they sign: the keys
// of CI systems and of secret-scanning programs.
//
// Whoever is asked must not be able to lead this process elsewhere, nor to hold it up or fill
// its memory: an address is on https, or on this very machine, a redirect is not followed, and
// an answer is whole JSON of bounded size, or none.
package published

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
	// Patience is for an answer.
	Patience = 5 * time.Second

	// MaxAnswer is what is read of one, in bytes.
	MaxAnswer = 256 << 10
)

// ErrSilent is of one who has not answered, or with nothing that can be used.
var ErrSilent = errors.New("there is no answer that can be used")

// CheckAddress tells whether an address can be asked for what is published: on https, or on
// http to this very machine, and without a user.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no URL", address)
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("%q is no bare address", address)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return fmt.Errorf("%q is not on https", address)
	}
	return nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// Client asks by a transport.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Timeout: Patience, Transport: Bounded{transport}}
}

// Bounded takes whole answers alone; a redirect is none, so no client follows it.
type Bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. Its errors are [ErrSilent]'s.
func (b Bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSilent, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written through it
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSilent, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d", ErrSilent, resp.StatusCode)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrSilent, MaxAnswer)
	case !json.Valid(body):
		return nil, fmt.Errorf("%w: not with JSON", ErrSilent)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
