package attack

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// tricky returns targets that proxies and routers can interpret differently.
func tricky(s *stacktest.Site) []string {
	check := "/check/" + s.Project + "-" + s.Env + "/hello"
	return []string{
		"/", "//", "///", "/.", "/..", "/../..", "/./", "/%2e", "/%2e%2e/", "/%2E%2E%2F", "/..%2f..%2f", "/..;/", "/;/", "/;a=b",
		"/%2f", "/%2F%2F", "/%5c", "/\\", "/%00", "/%0d%0aX-API-Key:%20x", "/%ff", "/%u002e", "/%252e%252e/", "/a/../b", "/a//b",
		"/?", "/?key=", "/#", "/?#/healthz", "/.well-known/acme-challenge/x", "/.well-known/", "/healthz", "/readyz", "/ping", "/metrics",
		"/api/v1/session", "/api/v1/webhook/a/b", "/console", "/console/", "/api", "/dashboard/", "/debug/pprof/", check, "/" + check,
		"/favicon.ico", "/robots.txt", "/ws", "/stream", "/status/200", "/" + strings.Repeat("a", 8000), "/*", "/%20", "/$(x)", "/`x`",
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "paths without a key: `//`, `%2e`, `%2f`, `..;/`, `\\`, NUL, the gate's and the API's paths, `*`",
		"the gate's 401 or the proxy's 400; never the app")
	s, k := gated(t)
	n := 0
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "PATCH", "CONNECT", "PROPFIND", "get", "FOO-BAR"} {
		for _, target := range append(tricky(s), "*", s.Host("hello")+":80", "healthz", "?") {
			n++
			got := raw(t, atIngress(), method+" "+target+" HTTP/1.1\r\nHost: "+s.Host("hello")+"\r\nConnection: close\r\n\r\n")
			status, _, _ := strings.Cut(strings.TrimPrefix(got, "HTTP/1.1 "), " ")
			refused := status == "401" || status == "400"
			if target == "*" || method == http.MethodConnect {
				refused = true
			}
			if !refused || strings.Contains(got, `"body_bytes"`) {
				t.Errorf("%s %.60s: %.200s", method, target, got)
			}
		}
	}
	// The key is accepted with these paths, so the path was not the reason.
	for _, target := range []string{"//", "/%2e%2e/x", "/a%2fb", "/healthz", "/api/v1/session"} {
		s.Call("hello").Key(k).Path(target).Gets(http.StatusOK)
	}
	row.Measured(fmt.Sprintf("%d requests", n))
}

func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "absolute-form targets whose host differs from `Host`", "the gated app is never reached without a key")
	s, k := gated(t)
	s.App("open")
	gate, open, n := s.Host("hello"), s.Host("open"), 0
	for _, scheme := range []string{"http://", "https://", "HTTP://", "ftp://", "//", "http:\\\\"} {
		for _, pair := range [][2]string{{gate, open}, {open, gate}, {gate, gate}, {gate, ""}, {"user@" + gate, open}, {gate + ":80", open}, {open + "@" + gate, open}, {open, open + "\r\nHost: " + gate}} {
			n++
			got := raw(t, atIngress(), "GET "+scheme+pair[0]+"/ HTTP/1.1\r\nHost: "+pair[1]+"\r\nConnection: close\r\n\r\n")
			for _, a := range answers(t, got) {
				if reached(a) && s.Echo(a).App != "open" {
					t.Errorf("%s%s with Host %q reached the gated app", scheme, pair[0], pair[1])
				}
			}
		}
	}
	a := answers(t, raw(t, atIngress(), "GET http://"+gate+"/x HTTP/1.1\r\nHost: "+gate+"\r\nConnection: close\r\nX-API-Key: "+k.Full+"\r\n\r\n"))
	if len(a) != 1 || a[0].Status != http.StatusOK {
		t.Errorf("valid absolute form: got %+v, want one response with %d", a, http.StatusOK)
	}
	row.Measured(fmt.Sprintf("%d", n))
}

func TestHosts(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "`Host`: other spellings, ports, users, paths; duplicate, empty, missing; HTTP/1.0",
		"the gate, 400 or 404; never the gated app")
	s, _ := gated(t)
	h := s.Host("hello")
	hosts := []string{
		h, strings.ToUpper(h), h + ":80", h + ":8080", h + ":443", h + ":0", h + ":", h + ":99999", h + ".", h + "..", "." + h, "user@" + h, "user:x@" + h,
		h + "/", h + "/x", h + "?", h + "#", " " + h, h + "\t", "\"" + h + "\"", "[" + h + "]", h + "," + h, h + " " + h, "http://" + h, h + "%00", h + "%2e",
		"", "localhost", "127.0.0.1", "[::1]", "0", "*", "hello", "x." + h, strings.Repeat("a.", 200) + h,
		h + "\r\nHost: " + h, h + "\r\nHost: localhost", "localhost\r\nHost: " + h, h + "\r\nX-Forwarded-Host: localhost", h + "\r\n Host: x",
	}
	n := 0
	for _, version := range []string{"1.1", "1.0"} {
		for _, host := range hosts {
			n++
			for _, a := range answers(t, raw(t, atIngress(), "GET / HTTP/"+version+"\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")) {
				if reached(a) || a.Status == http.StatusOK {
					t.Errorf("HTTP/%s Host %.80q: got %d %.100s", version, host, a.Status, a.Body)
				}
			}
		}
		for _, a := range answers(t, raw(t, atIngress(), "GET / HTTP/"+version+"\r\nConnection: close\r\n\r\n")) {
			if reached(a) {
				t.Errorf("HTTP/%s without Host reached the app", version)
			}
		}
	}
	row.Measured(fmt.Sprintf("%d hosts", n))
}

func TestOtherPorts(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "the app's host on every other port; internal paths (`/check/…`, `/events/…`, `/metrics`) through the ingress",
		"only the ingress serves the app; internal paths: 404; `/` redirects to the console")
	s, _ := gated(t)
	n := 0
	hosts := []string{"127.0.0.1"}
	for _, checker := range append(world.Info().Checkers, world.Info().Standin) {
		u, err := url.Parse(checker)
		check.OK(t, err)
		hosts = append(hosts, u.Hostname())
	}
	for _, host := range hosts {
		for port := portBase + 1; port < portBase+12; port++ {
			a, err := plainGet(t, fmt.Sprintf("http://%s:%d/", host, port), s.Host("hello"))
			n++
			if err == nil && reached(a) {
				t.Errorf("port %d of %s returns the app's response", port, host)
			}
		}
	}
	for _, path := range []string{"/", "/healthz", "/_/health", "/readyz", "/metrics", "/check/a/b", "/events/x", "/ping", "/api", "/api/v1", "/debug/pprof/", "/api/v1/projects/../../check/a/b", "/api/v1/projects/%2e%2e/%2e%2e/healthz"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			n++
			got := raw(t, atIngress(), method+" "+path+" HTTP/1.1\r\nHost: "+hostOf(t, world.Info().BaseURL)+"\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: application/json\r\n"+
				"Ce-Id: 1\r\nCe-Type: dev.knative.sources.ping\r\nCe-Source: x\r\nCe-Specversion: 1.0\r\n\r\n{}")
			for _, a := range answers(t, got) {
				if path == "/" {
					leadsToConsole(t, method, a)
					continue
				}
				if a.Status != http.StatusNotFound && a.Status != http.StatusUnauthorized && a.Status != http.StatusBadRequest {
					t.Errorf("%s %s: got %d %.100s", method, path, a.Status, a.Body)
				}
			}
		}
	}
	row.Measured(fmt.Sprintf("%d", n))
}

// leadsToConsole checks that GET / redirects to the console and that other methods are rejected.
func leadsToConsole(t *testing.T, method string, a stacktest.Answer) {
	t.Helper()
	if method == http.MethodGet && (a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/console") {
		t.Errorf("GET /: got %d to %q, want %d to /console", a.Status, a.Header.Get("Location"), http.StatusSeeOther)
	}
	if method != http.MethodGet && a.Status != http.StatusMethodNotAllowed {
		t.Errorf("%s /: got %d, want %d", method, a.Status, http.StatusMethodNotAllowed)
	}
}

// oddMethods returns methods of some routes, of no route, and unknown ones.
func oddMethods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "FOO-BAR"}
}

func asked(t *testing.T, method, target string) stacktest.Answer {
	t.Helper()
	got := raw(t, atIngress(), method+" "+target+" HTTP/1.1\r\nHost: "+hostOf(t, world.Info().BaseURL)+"\r\nConnection: close\r\n\r\n")
	if all := answers(t, got); len(all) == 1 {
		return all[0]
	}
	t.Errorf("%s %.80s: %.200q", method, target, got)
	return stacktest.Answer{}
}

func TestUnknownAddresses(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "API paths without a route, in odd spellings and with 60,000 characters; every route with other methods",
		"404 `not_found`, or 405 with `Allow` (malformed requests: 400, 431); never a redirect or 5xx")
	n := 0
	for _, target := range []string{
		"/api", "/api/", "/api?x=1", "/api/v1", "/api/v1/", "/api/v2/projects", "/API/v1/projects", "/Api/", "/api/V1/projects", "/api/v1/Projects", "/api/v1/sessions",
		"/api/v1/session/", "/api/v1/projects/", "/api/v1/projects/a/", "/api/v1/projects/a/nothing", "/api/v1/projects/a/environments/b/nothing/c",
		"/api/v1/webhook", "/api/v1/webhook/", "/api/v1/webhook/a", "/api//v1/nothing", "//api/v1/nothing", "/api/v1//nothing", "/api%2fv1%2fprojects", "/api%2Fv1/session",
		"/api/v1%2fprojects", "/%61pi/nothing", "/api/./nothing", "/api/v1/../nothing", "/api/v1/%2e%2e/nothing", "/api/v1/..%2f..%2fhealthz", "/api/..;/healthz", "/api/;/x",
		"/api/%00", "/api/v1/session%00", "/api/v1/projects%00/a", "/api/%0d%0aX-Evil:%20y", "/api/%5c..%5c", "/api/\\x", "/api/%ff", "/api/%20", "/api/%252e%252e/x",
		"/api/%zz", "/api/$(x)", "/api/`x`", "/api/<script>", "/api/v1/openapi", "/api/v1/docs/", "/api/console", "/api/healthz", "/api/events/x",
		"/api/" + strings.Repeat("a", 8000), "/api/" + strings.Repeat("a", 60000), "/api/v1/projects/" + strings.Repeat("a/", 4000),
	} {
		for _, method := range oddMethods() {
			n++
			a := asked(t, method, target)
			if a.Status == http.StatusBadRequest || a.Status == http.StatusRequestHeaderFieldsTooLarge {
				continue
			}
			refusedByAPI(t, method, target, a, http.StatusNotFound, "not_found")
		}
	}
	methods := map[string][]string{}
	for _, r := range api.Table() {
		path := r.URL(url.PathEscape, slices.Repeat([]string{"a"}, len(r.Parameters()))...)
		for _, other := range api.Table() {
			if !leadsTo(other.Path, path) {
				continue
			}
			methods[path] = append(methods[path], other.Method)
			if other.Method == http.MethodGet {
				methods[path] = append(methods[path], http.MethodHead)
			}
		}
	}
	for path, known := range methods {
		slices.Sort(known)
		known = slices.Compact(known)
		for _, method := range oddMethods() {
			if slices.Contains(known, method) {
				continue
			}
			n++
			a := asked(t, method, path)
			refusedByAPI(t, method, path, a, http.StatusMethodNotAllowed, "method_not_allowed")
			if got := a.Header.Get("Allow"); got != strings.Join(known, ", ") {
				t.Errorf("%s %s: Allow: got %q, want %q", method, path, got, known)
			}
		}
	}
	row.Measured(fmt.Sprintf("%d requests", n))
}

func refusedByAPI(t *testing.T, method, target string, a stacktest.Answer, status int, code string) {
	t.Helper()
	if a.Status != status || method != http.MethodHead && a.Code() != code {
		t.Errorf("%s %.80s: got %d %.200s, want %d %s", method, target, a.Status, a.Body, status, code)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Location": ""} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s %.80s: %s: got %q, want %q", method, target, name, got, want)
		}
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s %.80s: no X-Request-Id", method, target)
	}
}

func plainGet(t *testing.T, address, host string) (stacktest.Answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	check.OK(t, err)
	req.Host = host
	return do(t, req)
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	check.OK(t, err)
	return u.Host
}

// leadsTo reports whether a path matches a route's pattern.
func leadsTo(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i, segment := range want {
		if segment != got[i] && !strings.HasPrefix(segment, "{") {
			return false
		}
	}
	return true
}
