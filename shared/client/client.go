// Package client is the typed client of the management API, with a method for each route.
//
//	anonymous := client.New("http://localhost:8080")
//	session, err := anonymous.SignIn(ctx, "admin", password)
//	c := anonymous.WithToken(session.Token)
//	for key, err := range c.Keys(ctx, "shop", "prod") { … }
//
// A call returns an [*Error] if the response is not a success. Every call has a deadline.
//
// The client retries reads if the connection fails or the server returns 429 or 5xx, with
// exponential backoff, jitter and Retry-After. It sends changes once, except deployments and builds
// with an idempotency key; see [Client.WithIdempotencyKey]. It follows no redirects: tokens go only to the given
// server.
package client

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Defaults of [New].
const (
	DefaultTimeout = 15 * time.Second // time limit for one try
	DefaultTries   = 4                // maximum tries of a read
)

// Token is a session's bearer token. It prints as "[redacted]"; string(t) returns it.
type Token string

// LogValue redacts the token.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Token) String() string { return "[redacted]" }

// GoString redacts the token.
func (Token) GoString() string { return "[redacted]" }

// Client calls one installation. It is immutable and safe for concurrent use.
type Client struct {
	base    string // e.g. "https://sluice.example.com"
	token   Token
	device  Token  // sent with a sign-in
	request string // Idempotency-Key of POSTs; "" sends none
	match   string // If-Match of changes; "" sends none
	http    *http.Client
	wait    time.Duration // Prefer: wait of changes; 0 sends none
	timeout time.Duration
	tries   int
	now     func() time.Time

	vouching reqctx.Secret // see WithVouching; "" sends no address
}

// Page selects a page of a list: its size of 1 to 500 items (0 for the server's default) and the
// token from the previous page.
type Page = api.Page

// Option is an option of [New].
type Option func(*Client)

// WithTransport sets the transport of all requests.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = t }
}

// WithTimeout sets the time limit for one try of a call.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithTries sets the maximum number of tries of a read; 1 disables retries.
func WithTries(n int) Option { return func(c *Client) { c.tries = max(n, 1) } }

// WithVouching makes calls on behalf of another request send that request's client address, signed
// with a secret that the server knows.
func WithVouching(s reqctx.Secret) Option { return func(c *Client) { c.vouching = s } }

// WithToken sets the session token or service token of all calls.
func WithToken(t Token) Option { return func(c *Client) { c.token = t } }

// New returns a client for the installation at baseURL. If the URL is invalid, the first call fails.
func New(baseURL string, opts ...Option) *Client {
	now := time.Now
	c := &Client{
		base:    strings.TrimRight(baseURL, "/"),
		http:    &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		timeout: DefaultTimeout,
		tries:   DefaultTries,
		now:     now,
	}
	for _, o := range opts {
		o(c)
	}
	return c
}

// WithToken returns a copy of c that is signed in with t.
func (c *Client) WithToken(t Token) *Client {
	signedIn := *c
	signedIn.token = t
	return &signedIn
}

// WithDevice returns a copy of c that signs in with the Device of an earlier session. Failed
// sign-ins of other clients then do not block it.
func (c *Client) WithDevice(t Token) *Client {
	known := *c
	known.device = t
	return &known
}

// WithIdempotencyKey returns a copy of c for one call, with an Idempotency-Key of 1 to 255 visible ASCII
// characters. For 24 hours, a repeated call returns the first result, or an already_issued error
// if the first call issued a key.
func (c *Client) WithIdempotencyKey(id string) *Client {
	named := *c
	named.request = id
	return &named
}

// Matching returns a copy of c that sends an ETag as If-Match. A call returns a precondition_failed
// error if the resource has another ETag.
func (c *Client) Matching(tag string) *Client {
	matching := *c
	matching.match = tag
	return &matching
}

// WithWait returns a copy of c whose changes to keys and plans wait for the checkers, for 1 to 30
// seconds. The response contains the state of the change at each checker.
func (c *Client) WithWait(d time.Duration) *Client {
	waiting := *c
	waiting.wait = d
	return &waiting
}

// String returns the installation without the token.
func (c *Client) String() string { return "client of " + c.base + api.Base }

// GoString returns the installation without the token.
func (c *Client) GoString() string { return c.String() }
