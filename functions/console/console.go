// Package console is the function that serves the web console for managing Sluice.
//
// The console has no privileges and no storage. It calls the management API (package client) with
// the user's session, so the API decides on all access. The console omits buttons that the user's
// role does not allow.
//
// # Pages
//
// A page is a GET request without side effects. A change is a POST request with a form. Its response
// is a redirect (303) to a page, or the form with the entered values and the errors.
//
// A change that cannot be undone needs a confirmation (see view.Confirmation). The confirmation
// contains the state on which it is based; if that state has changed, the change is not made.
//
// All pages work without JavaScript. With JavaScript, confirmations open in a dialog (links with
// data-dialog), charts show the value of a bar, and links back to a list (data-back) restore the query
// of the list (data-list). Parts of a page that are about to change are polled every two seconds (see
// view.Polling). The content security policy allows only the scripts of package view.
//
// # Session
//
// The session token is in the API's session cookie, which scripts cannot read. Every form contains
// the session's CSRF value, and forms from other origins are rejected. All cookies have the prefix
// __Host-, so that apps on sibling hosts cannot set them. A device cookie remains after sign-out; it
// identifies the browser at the next sign-in. Browsers and proxies must not store pages.
//
// # Files
//
// routes.go lists all pages. The pages about a resource are in RESOURCE.go, and their templates in
// RESOURCE….html of package view.
package console

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

const home = "/console"

// Service serves the console.
type Service struct {
	api      *client.Client
	renderer *view.Renderer
	log      *slog.Logger
	now      func() time.Time
}

// New returns a new service.
func New(cfg Config, log *slog.Logger) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	secret, err := cfg.Read()
	if err != nil {
		return nil, err
	}
	pages, err := view.NewRenderer(at, time.Now)
	if err != nil {
		return nil, err
	}
	s := &Service{renderer: pages, log: reqctx.Logger(log), now: time.Now}
	options := []client.Option{client.WithTransport(span.Transport(newTransport(), "api", true)), client.WithTimeout(cfg.Timeout), client.WithTries(tries), client.WithVouching(secret)}
	s.api = client.New(cfg.APIURL, options...)
	return s, nil
}

const (
	tries           = 2
	dialLimit       = 3 * time.Second
	handshakeLimit  = 5 * time.Second
	idleConnections = 64 // to the API; a page makes several calls concurrently
	idleLimit       = 90 * time.Second
)

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSHandshakeTimeout: handshakeLimit,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     idleLimit,
		ForceAttemptHTTP2:   true,
	}
}
