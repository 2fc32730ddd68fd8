package console

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/identity"
)

// neighbourhood serves the console at console.shared.localhost, and a hostile app at all other
// names below shared.localhost, for which it can set cookies.
func neighbourhood(t *testing.T, plants []string) (port string) {
	t.Helper()
	target, err := url.Parse(world.Info().BaseURL)
	must(t, err)
	console := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "console.shared.localhost:") {
			console.ServeHTTP(w, r)
			return
		}
		for _, c := range plants {
			w.Header().Add("Set-Cookie", c)
		}
		_, _ = fmt.Fprint(w, "<!doctype html><title>x</title><p>Welcome")
	}))
	t.Cleanup(srv.Close)
	_, port, err = net.SplitHostPort(srv.Listener.Addr().String())
	must(t, err)
	return port
}

// TestPlantedSession checks that session cookies set by apps on sibling hosts and subdomains do not
// sign a user in or replace the session.
func TestPlantedSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	attacker, victim := s.member("owner"), s.member("viewer")
	session, err := s.Client.SignIn(t.Context(), attacker.username, attacker.password)
	must(t, err)
	var plants []string
	for _, name := range []string{"sluice_session", identity.CookieName, "__host-sluice_session", "=" + identity.CookieName, "__Host-sluice_sign_in", "sluice_sign_in"} {
		for _, path := range []string{"/", "/console", "/console/sign-in"} {
			plants = append(plants, fmt.Sprintf("%s=%s; Domain=shared.localhost; Path=%s; Secure", name, string(session.Token), path))
		}
	}
	port := neighbourhood(t, plants)
	v := browse(t, desk)
	at := func(host, path string) {
		t.Helper()
		v.leaves(func() {
			must(v.t, chromedp.Do(v.ctx, chromedp.Navigate("http://"+host+".shared.localhost:"+port+path)))
		})
	}
	at("app", "/")
	at("app.console", "/")
	at("console", "/console/projects")
	v.sees("Sign in")
	v.signsInHere(victim).sees("Projects", who(victim))
	at("app", "/") // again, now with a session to replace
	at("app.console", "/")
	at("console", "/console/projects")
	v.sees(who(victim))
	v.presses(who(victim))
	v.clicks("Sign out").sees("You are signed out.")
	at("console", "/console/projects")
	v.sees("Sign in")
}
