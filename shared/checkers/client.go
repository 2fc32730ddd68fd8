package checkers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/outbound"
)

const (
	recheck   = 30 * time.Second        // interval between reads of the CA file
	handshake = 1500 * time.Millisecond // limit of a TLS handshake
)

// Settings are the environment variables of a function that calls checkers.
type Settings struct {
	// CheckerURL is the URL of the checkers' Service, whose name is in their certificate.
	// CheckerCAFile contains the issuing CA as PEM. Without them, the function cannot call
	// checkers: it detects that a change is in force within CANARY_INTERVAL, and usage shows
	// stored counts.
	CheckerURL    string `env:"CHECKER_URL"`
	CheckerCAFile string `env:"CHECKER_CA_FILE"`
}

// ErrUnreachable means that a checker cannot be called: there is no CA file, the checker is of an
// earlier release, or it is gone.
var ErrUnreachable = errors.New("checker does not accept calls")

// Client calls checkers.
type Client struct {
	Settings

	now func() time.Time

	mu   sync.Mutex // guards the following fields
	http *http.Client
	made time.Time // creation of http
}

// NewClient returns a client.
func NewClient(s Settings) *Client { return &Client{Settings: s, now: time.Now} }

// Query sends a signed query to a member and decodes a response of at most limit bytes. It returns
// [ErrUnreachable] if the member does not accept queries.
func (c *Client) Query(ctx context.Context, m Member, path string, q Query, limit int64, response any) error {
	if m.Address == "" || m.Key == (QueryKey{}) {
		return ErrUnreachable
	}
	body, signature, err := m.Key.SignQuery(q)
	if err != nil {
		return err
	}
	u := url.URL{Scheme: "https", Host: m.Address, Path: path}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set(SignatureHeader, signature)
	return c.Call(r, limit, response)
}

// Call sends a request to a checker and decodes a response of at most limit bytes.
func (c *Client) Call(r *http.Request, limit int64, response any) error {
	client, err := c.client()
	switch {
	case err != nil:
		return err
	case client == nil:
		return ErrUnreachable
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", r.URL.Host, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(response); err != nil {
		return fmt.Errorf("read the response of %s: %w", r.URL.Host, err)
	}
	return nil
}

// client returns the HTTP client for checkers, or nil without a CA file. It reads the CA file again
// regularly: wiring may create it after this process has started.
func (c *Client) client() (*http.Client, error) {
	if c.CheckerCAFile == "" {
		return nil, nil //nolint:nilnil // no client without a CA file
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil && c.now().Sub(c.made) < recheck {
		return c.http, nil
	}
	roots, err := outbound.Authorities(c.CheckerCAFile)
	if err != nil {
		return nil, err
	}
	name, err := url.Parse(c.CheckerURL)
	if err != nil {
		return nil, fmt.Errorf("CHECKER_URL: %w", err)
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.http, c.made = &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name.Hostname()},
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: handshake,
		IdleConnTimeout:     recheck,
		MaxIdleConnsPerHost: 2,
	}}, c.now()
	return c.http, nil
}
