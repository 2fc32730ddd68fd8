package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

type seen struct {
	Method, Path, Query, Body, Authorization, ContentType string
}

type server struct {
	status int
	body   string
	header http.Header

	mu   sync.Mutex
	seen []seen
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, seen{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
	})
	s.mu.Unlock()
	for name, values := range s.header {
		w.Header()[name] = values
	}
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

func serve(t *testing.T, h http.Handler, opts ...Option) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return New(srv.URL+"/", append([]Option{WithToken("tok")}, opts...)...)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server *server
		want   Error
		text   string
	}{
		{
			"a problem",
			&server{status: 404, body: `{"code":"not_found","message":"The app does not exist."}`, header: http.Header{"X-Request-Id": {"r1"}}},
			Error{Status: 404, Code: "not_found", Message: "The app does not exist.", RequestID: "r1"},
			"The app does not exist. (not_found)",
		},
		{
			"a retryable error",
			&server{status: 429, body: `{"code":"rate_limited","message":"Wait."}`, header: http.Header{"Retry-After": {"3600"}}},
			Error{Status: 429, Code: "rate_limited", Message: "Wait.", RetryAfter: 3600e9},
			"Wait. (rate_limited)",
		},
		{
			"a proxy's page",
			&server{status: 502, body: `<html>`, header: http.Header{"Retry-After": {"soon"}}},
			Error{Status: 502, Message: "Bad Gateway"},
			"HTTP status 502: Bad Gateway",
		},
		{
			"a redirect is not followed",
			&server{status: 302, header: http.Header{"Location": {"/elsewhere"}}},
			Error{Status: 302, Message: "Found"},
			"HTTP status 302: Found",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := serve(t, tt.server, WithTries(1)).App(t.Context(), "p", "e", "a")
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got error %v, want an *Error", err)
			}
			check.Equal(t, "error", tt.want, *got)
			if want := "GET /projects/p/environments/e/apps/a: " + tt.text; err.Error() != want {
				t.Errorf("error text: got %q, want %q", err, want)
			}
			if len(tt.server.seen) != 1 {
				t.Errorf("got %d requests, want 1", len(tt.server.seen))
			}
			if tt.want.Code != "" && !HasCode(err, tt.want.Code) || HasCode(err, "other") {
				t.Errorf("HasCode does not match %v", err)
			}
		})
	}
}

func TestNamesCannotChangeThePath(t *testing.T) {
	t.Parallel()
	srv := &server{status: 200, body: `{}`}
	c := serve(t, srv)
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.Project(t.Context(), name); err == nil {
			t.Errorf("name %q: got no error", name)
		}
	}
	if len(srv.seen) != 0 {
		t.Fatalf("got requests %v, want none", srv.seen)
	}
	if _, err := c.Project(t.Context(), "a/../b?c#d%e"); err != nil {
		t.Fatal(err)
	}
	if got, want := srv.seen[0].Path, "/api/v1/projects/a%2F..%2Fb%3Fc%23d%25e"; got != want {
		t.Errorf("path: got %s, want %s", got, want)
	}
}

func TestSecretsStayOutOfAddresses(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdefghijABCDEFGHIJ01234567"
	srv := &server{status: 200, body: `{}`}
	c := serve(t, srv)
	_, path := c.Key(t.Context(), "shop", "sluice_ab12cd34_"+secret)
	_, query := c.KeysPage(t.Context(), "shop", KeyFilter{Search: "sluice_st_ab12cd34ef56_" + secret}, Page{})
	for _, err := range []error{path, query} {
		if !HasCode(err, "secret_in_url") {
			t.Errorf("got %v, want secret_in_url", err)
		}
	}
	if len(srv.seen) > 0 {
		t.Errorf("got requests %v, want none", srv.seen)
	}
}

func TestInvalidResponse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body string }{
		{"not JSON", "<html>"},
		{"another shape", `{"name":1}`},
		{"nothing", ""},
		{"too large", `{"name":"` + strings.Repeat("a", maxResponse) + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := serve(t, &server{status: 200, body: tt.body}, WithTries(1)).Project(t.Context(), "p"); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("x", "token", Token("secret"), "key", FullKey("secret"))
	s, c := Session{Token: "secret"}, New("http://x", WithToken("secret"))
	fmt.Fprintf(&out, "%v %+v %#v %s", s, s, s, FullKey("secret"))
	fmt.Fprintf(&out, "%v %+v %#v %#v", c, c, c, FullKey("secret"))
	if strings.Contains(out.String(), "secret") {
		t.Errorf("printed text contains a secret: %s", out.String())
	}
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, base string }{
		{"no URL", "::"},
		{"no scheme", "localhost"},
		{"no server", "http://127.0.0.1:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := New(tt.base, WithTries(1), WithToken("secret"))
			_, err := c.WhoAmI(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "GET /session: ") || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	var queries []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		start := strings.Index("abcde", r.URL.Query().Get("page_token"))
		end := min(start+2, len(names))
		list := map[string]any{"items": []any{}, "next_page_token": ""}
		for _, n := range names[start:end] {
			list["items"] = append(list["items"].([]any), map[string]any{"name": n}) //nolint:forcetypeassert // list is a local literal
		}
		if end < len(names) {
			list["next_page_token"] = names[end]
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	c := serve(t, h)
	all, err := Collect(c.Projects(t.Context()))
	check.OK(t, err)
	var got []string
	for _, p := range all {
		got = append(got, p.Name)
	}
	check.Equal(t, "names", names, got)
	queries = nil
	for p, err := range c.Projects(t.Context()) {
		if err != nil || p.Name == "b" {
			break
		}
	}
	check.Equal(t, "who stops on the first page still read on", []string{""}, queries)
}

func TestPagingEndsWithItsError(t *testing.T) {
	t.Parallel()
	c := serve(t, &server{status: 403, body: `{"code":"forbidden","message":"No."}`})
	n := 0
	for _, err := range c.Keys(t.Context(), "shop", KeyFilter{Environment: "prod"}) {
		if n++; !HasCode(err, "forbidden") {
			t.Errorf("error is %v", err)
		}
	}
	if n != 1 {
		t.Errorf("got %d items and errors, want 1 error", n)
	}
}

func TestCanceledContextSendsNothing(t *testing.T) {
	t.Parallel()
	srv := &server{status: 200, body: `{}`}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := serve(t, srv).Project(ctx, "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if len(srv.seen) != 0 {
		t.Errorf("got requests %v, want none", srv.seen)
	}
}
