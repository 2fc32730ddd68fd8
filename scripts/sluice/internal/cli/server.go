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

type server struct {
	url     string
	token   client.Token
	context contexts.Context // zero if SLUICE_URL selects another server
}

// server returns the server of --context, else of SLUICE_URL and SLUICE_TOKEN, else of the current
// context.
func (a *application) server() (server, error) {
	c, err := a.context()
	if err != nil {
		return server{}, err
	}
	s := server{url: c.URL, token: c.Token, context: c}
	if a.flags.context == "" {
		if s, err = a.applyEnv(s); err != nil {
			return server{}, err
		}
	}
	if s.url == "" {
		return server{}, usage(`no server: run "sluice login URL", or set SLUICE_URL`)
	}
	return s, nil
}

// applyEnv overrides a context with SLUICE_URL and SLUICE_TOKEN. If SLUICE_URL is another server, the
// context's token and project do not apply.
func (a *application) applyEnv(s server) (server, error) {
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

func (a *application) context() (contexts.Context, error) {
	dir, err := a.contexts()
	if err != nil {
		if a.env.Getenv("SLUICE_URL") != "" && a.flags.context == "" {
			return contexts.Context{}, nil // scripts need no home directory
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

func (a *application) dial(url string) *client.Client {
	opts := []client.Option{client.WithTimeout(a.flags.timeout)}
	if a.env.Tries > 0 {
		opts = append(opts, client.WithTries(a.env.Tries))
	}
	if a.flags.verbose {
		opts = append(opts, client.WithTransport(verboseTransport{a, http.DefaultTransport}))
	}
	return client.New(url, opts...)
}

// verboseTransport logs each attempt of each request, without bodies and headers, which can contain
// secrets.
type verboseTransport struct {
	a    *application
	next http.RoundTripper
}

func (t verboseTransport) RoundTrip(r *http.Request) (*http.Response, error) {
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

func isPlaintext(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme == "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
	return !local
}

func (a *application) project() (string, error) {
	return a.choose("project", a.flags.project, "SLUICE_PROJECT", func(c contexts.Context) string { return c.Project })
}

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
