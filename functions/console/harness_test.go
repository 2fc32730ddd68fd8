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
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// office is the console with a fake management API. Package tests/console tests both together.
type office struct {
	t       *testing.T
	console http.Handler
	service *Service
	log     strings.Builder

	mu      sync.Mutex
	answers map[string]answer      // by "METHOD /path"
	calls   []string               // changes: calls other than GET
	headers map[string]http.Header // of the last call of each, by "METHOD /path"
	queries map[string]url.Values  // likewise
}

type answer struct {
	status int
	body   any
	then   *answer // of later calls, or nil for the same one
}

const (
	testToken = "the-token-of-the-session"
	testCSRF  = "the-csrf-value"

	sharedSecret reqctx.Secret = "the-secret-that-the-functions-share"
)

func vouchedAddress(h http.Header) string {
	return reqctx.NewClients(reqctx.Proxies{}, sharedSecret).Address(&http.Request{Header: h, RemoteAddr: "10.0.0.1:1"})
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, answers: map[string]answer{}, queries: map[string]url.Values{}, headers: map[string]http.Header{}}
	api := httptest.NewServer(o)
	t.Cleanup(api.Close)
	s, err := New(Config{APIURL: api.URL, Timeout: 5 * time.Second, Console: reqctx.Console{Secret: sharedSecret}}, slog.New(slog.NewTextHandler(&o.log, nil)))
	check.OK(t, err)
	o.service, o.console = s, s.Handler()
	o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada"}})
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "owner"})
	o.answer("GET /api/v1/projects", 200, wire.List[wire.Project]{Items: []wire.Project{{Name: "shop"}, {Name: "bank"}}})
	o.answer("GET /api/v1/projects/shop/environments", 200, wire.List[wire.Environment]{Items: []wire.Environment{{Name: "prod", Project: "shop"}}})
	return o
}

func (o *office) answer(call string, status int, body any) {
	o.answers[call] = answer{status: status, body: body}
}

// refuse makes a call fail with a code. The error has the given field, or the default field of the
// code.
func (o *office) refuse(call string, status int, code string, field ...string) {
	e := wire.Error{Code: code, Message: "The API says " + code + "."}
	if name := cmp.Or(append(field, problem.FromCode(problem.Code(code)).Field)...); name != "" {
		e.Errors = []wire.FieldError{{Field: name, Code: code, Message: e.Message}}
	}
	o.answer(call, status, e)
}

// failOnce makes the next call fail with a code.
func (o *office) failOnce(call string, status int, code string) {
	then := o.answers[call]
	o.refuse(call, status, code)
	failing := o.answers[call]
	failing.then = &then
	o.answers[call] = failing
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		o.calls = append(o.calls, call+" "+string(body))
	}
	o.headers[call], o.queries[call] = r.Header, r.URL.Query()
	a, ok := o.answers[call]
	if !ok {
		a = answer{status: 404, body: wire.Error{Code: "not_found", Message: "The resource does not exist. Check the name or ID."}}
	}
	if a.then != nil {
		o.answers[call] = *a.then
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

func (o *office) get(path string, change ...func(*http.Request)) functest.Answer {
	o.t.Helper()
	return o.send(httptest.NewRequest(http.MethodGet, path, nil), append([]func(*http.Request){signedIn}, change...)...)
}

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

func (o *office) changes() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}
