package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/shared/client"
)

// server is where a command goes.
type server struct {
	url     string
	token   client.Token
	context contexts.Context // zero when the environment takes its place
}

// server finds the server: --context, or SLUICE_URL and SLUICE_TOKEN, or the current
// context. A context serves its own URL only.
func (a *application) server() (server, error) {
	c, err := a.context()
	if err != nil {
		return server{}, err
	}
	s := server{url: c.URL, token: c.Token, context: c}
	if a.flags.context == "" {
		if s, err = a.overrule(s); err != nil {
			return server{}, err
		}
	}
	if s.url == "" {
		return server{}, usage(`no server: run "sluice login URL", or set SLUICE_URL`)
	}
	return s, nil
}

// overrule puts SLUICE_URL and SLUICE_TOKEN in the place of a context. Another server
// gets nothing of it: its token and its project mean nothing there.
func (a *application) overrule(s server) (server, error) {
	if given := a.env.Getenv("SLUICE_URL"); given != "" {
		u, err := cleanURL(given)
		if err != nil {
			return server{}, usage("SLUICE_URL: %w", err)
		}
		if u != s.url {
			s = server{url: u}
		}
	}
	if t := a.env.Getenv("SLUICE_TOKEN"); t != "" {
		s.token = client.Token(t)
	}
	return s, nil
}

// context is the saved context in use, zero when there is none.
func (a *application) context() (contexts.Context, error) {
	dir, err := a.contexts()
	if err != nil {
		if a.env.Getenv("SLUICE_URL") != "" && a.flags.context == "" {
			return contexts.Context{}, nil // a script without a home needs none
		}
		return contexts.Context{}, err
	}
	name := a.flags.context
	if name == "" {
		if name, err = dir.Current(); err != nil || name == "" {
			return contexts.Context{}, err
		}
	}
	c, err := dir.Get(name)
	if errors.Is(err, contexts.ErrNotFound) {
		return c, fmt.Errorf("context %q: %w", name, err)
	}
	return c, err
}

// client is a client that is signed in.
func (a *application) client() (*client.Client, error) {
	s, err := a.server()
	if err != nil {
		return nil, err
	}
	if s.token == "" {
		return nil, failure{"unauthenticated", exitUnauthenticated, "Not signed in to " + s.url + "." + signInHint}
	}
	return a.dial(s.url).WithToken(s.token), nil
}

// dial is a client of a server, not signed in.
func (a *application) dial(url string) *client.Client {
	opts := []client.Option{client.WithTimeout(a.flags.timeout)}
	if a.env.Tries > 0 {
		opts = append(opts, client.WithTries(a.env.Tries))
	}
	if a.flags.verbose {
		opts = append(opts, client.WithTransport(told{a, http.DefaultTransport}))
	}
	return client.New(url, opts...)
}

// told is a transport that tells of every request, each try of it, what finds it in a
// server's log. Bodies and headers hold secrets, and paths and queries none.
type told struct {
	a    *application
	next http.RoundTripper
}

// RoundTrip sends a request.
func (t told) RoundTrip(r *http.Request) (*http.Response, error) {
	began := t.a.env.Now()
	res, err := t.next.RoundTrip(r)
	after := t.a.env.Now().Sub(began).Round(time.Millisecond)
	if err != nil {
		t.a.note("%s %s: no response after %s: %v", r.Method, r.URL.RequestURI(), after, err)
		return nil, err
	}
	id := res.Header.Get("X-Request-Id")
	if id == "" {
		id = "unknown"
	}
	t.a.note("%s %s: %d after %s, request %s", r.Method, r.URL.RequestURI(), res.StatusCode, after, id)
	return res, nil
}

// cleanURL takes a server's base URL as a person writes it.
func cleanURL(s string) (string, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("%q is not a URL such as https://sluice.example.com", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("a server URL must not have a user, query or fragment")
	}
	return u.String(), nil
}

// exposed tells whether what is sent to a URL can be read on its way.
func exposed(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme == "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
	return !local
}

// project is the one to work in.
func (a *application) project() (string, error) {
	return a.choose("project", a.flags.project, "SLUICE_PROJECT", func(c contexts.Context) string { return c.Project })
}

// environment is the one to work in.
func (a *application) environment() (string, error) {
	return a.choose("environment", a.flags.environment, "SLUICE_ENVIRONMENT", func(c contexts.Context) string { return c.Environment })
}

func (a *application) choose(noun, flag, variable string, saved func(contexts.Context) string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if v := a.env.Getenv(variable); v != "" {
		return v, nil
	}
	s, err := a.server()
	if err != nil {
		return "", err
	}
	if v := saved(s.context); v != "" {
		return v, nil
	}
	return "", usage(`no %s: pass --%s, set %s, or run "sluice context set --%s NAME"`, noun, noun, variable, noun)
}
