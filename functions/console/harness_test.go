package console

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// office is a management API whose answers a test gives, and the console in front
// of it. What the two together do is tested over a whole stack (tests/console).
type office struct {
	t       *testing.T
	console http.Handler
	service *Service
	log     strings.Builder

	mu      sync.Mutex
	answers map[string]answer     // by "METHOD /path"
	calls   []string              // that were made, but for those of the frame
	headers http.Header           // of the last one
	queries map[string]url.Values // of the last one of each, by "METHOD /path"
}

type answer struct {
	status int
	body   any
}

const (
	testToken = "the-token-of-the-session"
	testCSRF  = "the-csrf-value"

	sharedSecret trace.Secret = "the-secret-that-the-functions-share"
)

// vouchedAddress returns the address of the client that a call of the console names.
func vouchedAddress(h http.Header) string {
	return trace.NewClients(trace.Proxies{}, sharedSecret).Address(&http.Request{Header: h, RemoteAddr: "10.0.0.1:1"})
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, answers: map[string]answer{}, queries: map[string]url.Values{}}
	api := httptest.NewServer(o)
	t.Cleanup(api.Close)
	s, err := New(Config{APIURL: api.URL, Timeout: 5 * time.Second, Console: trace.Console{Secret: sharedSecret}}, slog.New(slog.NewTextHandler(&o.log, nil)))
	check.OK(t, err)
	o.service, o.console = s, s.Handler()
	o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada"}})
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "owner"})
	o.answer("GET /api/v1/projects", 200, wire.List[wire.Project]{Items: []wire.Project{{Name: "shop"}, {Name: "bank"}}})
	o.answer("GET /api/v1/projects/shop/environments", 200, wire.List[wire.Environment]{Items: []wire.Environment{{Name: "prod", Project: "shop"}}})
	return o
}

func (o *office) answer(call string, status int, body any) { o.answers[call] = answer{status, body} }

// refuse makes a call fail with a code, for the given field of the request or that of the code.
func (o *office) refuse(call string, status int, code string, field ...string) {
	e := wire.Error{Code: code, Message: "The API says " + code + "."}
	if name := cmp.Or(append(field, problem.Of(problem.Code(code)).Field)...); name != "" {
		e.Errors = []wire.FieldError{{Field: name, Code: code, Message: e.Message}}
	}
	o.answer(call, status, e)
}

// ServeHTTP is the management API.
func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		o.calls = append(o.calls, call+" "+string(body))
	}
	o.headers, o.queries[call] = r.Header, r.URL.Query()
	a, ok := o.answers[call]
	if !ok {
		a = answer{404, wire.Error{Code: "not_found", Message: "There is nothing here by that name."}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

// get asks for a page, signed in.
func (o *office) get(path string, change ...func(*http.Request)) functest.Answer {
	o.t.Helper()
	return o.send(httptest.NewRequest(http.MethodGet, path, nil), append([]func(*http.Request){signedIn}, change...)...)
}

// post sends a form, signed in and with the CSRF value.
func (o *office) post(path string, fields url.Values, change ...func(*http.Request)) functest.Answer {
	o.t.Helper()
	if fields == nil {
		fields = url.Values{}
	}
	if !fields.Has("csrf") {
		fields.Set("csrf", testCSRF)
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return o.send(r, append([]func(*http.Request){signedIn}, change...)...)
}

func (o *office) send(r *http.Request, change ...func(*http.Request)) functest.Answer {
	o.t.Helper()
	for _, c := range change {
		c(r)
	}
	return functest.Serve(o.t, o.console, r)
}

func signedIn(r *http.Request) {
	r.AddCookie(&http.Cookie{Name: identity.CookieName, Value: testToken})
}

func signedOut(r *http.Request) { r.Header.Del("Cookie") }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// changes are the calls that were not reads.
func (o *office) changes() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}
