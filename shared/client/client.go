// Package client is the typed client of the management API, for the command line, the
// console and tests: one method per route of package api, in the shapes of package
// wire.
//
//	anonymous := client.New("http://localhost:8080")
//	session, err := anonymous.SignIn(ctx, "admin", password)
//	c := anonymous.WithToken(session.Token)
//	for key, err := range c.Keys(ctx, "shop", "prod") { … }
//
// An answer that is no success is an [*Error]. Every call has a deadline. Reads
// are tried again, with a growing, jittered pause, when the connection fails or
// the server answers 429 or 5xx, and keep to Retry-After; changes are sent once,
// since a lost answer does not say whether the change was made. A deployment or a build that
// is named ([Client.Once]) is made once however often it is sent, so it is tried again too.
// Redirects are not followed: the API makes none, and a token has no business elsewhere.
package client

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/trace"
)

// Defaults of [New].
const (
	DefaultTimeout = 15 * time.Second // of one try
	DefaultTries   = 4                // of a read
)

// Token is a session's bearer token. It prints as "[redacted]".
type Token string

// LogValue keeps the token out of logs.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the token out of anything printed. Use string(t) to keep or send it.
func (Token) String() string { return "[redacted]" }

// GoString keeps the token out of %#v.
func (Token) GoString() string { return "[redacted]" }

// Client calls one installation's management API. It does not change and can be
// used by many goroutines.
type Client struct {
	base    string // e.g. "https://sluice.example.com"
	token   Token
	device  Token  // for signing in
	request string // Idempotency-Key of POSTs; "" sends none
	match   string // If-Match of changes; "" sends none
	http    *http.Client
	wait    time.Duration // for which changes ask the server to wait
	timeout time.Duration
	tries   int
	now     func() time.Time

	vouching trace.Secret // "" names no client of the caller
}

// Page asks for a part of a list: 1 to 500 items, 0 leaves the size to the server, and
// the token of the page before.
type Page = api.Page

// Option changes what [New] makes.
type Option func(*Client)

// WithTransport sends requests through t, for other certificates or tests.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = t }
}

// WithTimeout bounds one try of a call.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithTries bounds how often a read is tried; 1 never tries again.
func WithTries(n int) Option { return func(c *Client) { c.tries = max(n, 1) } }

// WithVouching names, in each call for another request, the address of that request's client. It
// is for the console, which shares the secret with the server.
func WithVouching(s trace.Secret) Option { return func(c *Client) { c.vouching = s } }

// WithToken signs every call with a session's token.
func WithToken(t Token) Option { return func(c *Client) { c.token = t } }

// New makes a client of the installation at baseURL, e.g.
// "https://sluice.example.com". A URL that is none shows with the first call.
func New(baseURL string, opts ...Option) *Client {
	now := time.Now // the clock in production
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

// WithToken gives a client that is signed in with t and shares c's connections.
func (c *Client) WithToken(t Token) *Client {
	signedIn := *c
	signedIn.token = t
	return &signedIn
}

// WithDevice gives a client that signs in as what has signed in before: t is the Device
// of that session. So wrong passwords that others try do not count against it.
func (c *Client) WithDevice(t Token) *Client {
	known := *c
	known.device = t
	return &known
}

// Once returns a client for one call that may be repeated, such as after a lost response.
// For 24 hours, a second call with the same id gets the first one's result, or is refused as
// already_issued if that was a key. The id has 1 to 255 characters of visible ASCII.
func (c *Client) Once(id string) *Client {
	named := *c
	named.request = id
	return &named
}

// Matching returns a client whose changes are made only of what has the entity tag, if the route
// reads If-Match. Otherwise they are refused as precondition_failed.
func (c *Client) Matching(tag string) *Client {
	matching := *c
	matching.match = tag
	return &matching
}

// Waiting gives a client whose changes of keys and plans wait until every checker follows
// them, for so many seconds, 1 to 30; the answer then says whether they do.
func (c *Client) Waiting(d time.Duration) *Client {
	waiting := *c
	waiting.wait = d
	return &waiting
}

// String names the installation, and keeps the token out of anything printed.
func (c *Client) String() string { return "client of " + c.base + api.Base }

// GoString keeps the token out of %#v.
func (c *Client) GoString() string { return c.String() }
