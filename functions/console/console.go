// Package console is the function that serves the operators' pages: all of the
// management work by clicking, in a browser, with or without JavaScript.
//
// It has no privileged path. Every page is made of calls of the management API
// (package client) with the session of whoever is signed in, so what the API
// refuses the console cannot do, and it keeps nothing itself: no store, no keys.
//
// # Pages
//
// A page is a GET that changes nothing. A change is a POST of a form, answered with
// 303 to a page, or with the form again: what was typed, and the API's message
// beside the field that it is about. What cannot be undone is asked for on a page of
// its own first (see view.Confirmation), which says what will change and carries what it
// was made of; if that has changed meanwhile, nothing is done and the page says so.
// With JavaScript that question opens in place, over the page whose link has data-dialog.
// Buttons that the role does not allow are left out; the API decides all the same.
//
// Without JavaScript all of this works. With it, the parts of a page that are on
// their way somewhere (a pending gate, a rollout, a build) ask for themselves anew
// every two seconds until they have arrived (see view.Polling). The script and htmx are files of
// package view; the content security policy allows no others, and nothing inline.
//
// # The session
//
// The browser holds the API's own session token in the API's cookie, which no script
// can read. Forms carry the session's CSRF value, which the API tells only to who has
// the token; it is compared before anything else is done. All
// cookies are __Host-, so that no app on a host nearby can plant them. One more stays
// after signing out, by which the API knows the browser at the next sign-in. What
// comes from another origin is refused before that. No page is stored by a browser
// or a proxy.
//
// # A file per noun
//
// The table in routes.go lists the pages, and who may see them is the API's to say. Each
// noun has a file NOUN.go with its pages and forms, and templates NOUN….html of package view,
// which renders all pages.
package console

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

// home is the path below which all pages are.
const home = "/console"

// Service answers the function's requests.
type Service struct {
	api      *client.Client // of the management API, nobody signed in
	renderer *view.Renderer
	log      *slog.Logger
	now      func() time.Time
}

// New makes a service.
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
	s := &Service{renderer: pages, log: trace.Logger(log), now: time.Now}
	options := []client.Option{client.WithTransport(span.Transport(newTransport(), "api", true)), client.WithTimeout(cfg.Timeout), client.WithTries(tries), client.WithVouching(secret)}
	s.api = client.New(cfg.APIURL, options...)
	return s, nil
}

const (
	tries           = 2               // of a read: a person waits, and can ask again
	dialLimit       = 3 * time.Second // for a connection to the API
	handshakeLimit  = 5 * time.Second // for its TLS
	idleConnections = 64              // kept open to the API: a page makes a few calls at once
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
