package stacktest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestDescribed(t *testing.T) {
	t.Parallel()
	const (
		call    = "/api/v1/webhook/shop-prod/hello"
		event   = call + "?event" // with the header of a git provider
		begun   = `{"status":"rolling_out","revision":1,"build":null,"image":"registry.example/hello:v2","commit":"","message":null,"status_url":"http://localhost/"}`
		plans   = "/api/v1/projects/shop/environments/prod/plans"
		starter = `{"id":"plan-starter","name":"Starter","rate":1,"burst":1,"quota":null,"quota_period":null,"quota_mode":null,"in_force":null`
		create  = `{"name":"Starter","rate":1,"burst":1}`
	)
	tests := map[string]struct {
		method, path, sent string
		status             int
		got                string
		differs            bool
	}{
		"as described":                  {"POST", plans, create, 201, starter + `}`, false},
		"an additional field":           {"POST", plans, create, 201, starter + `,"owner":"ada"}`, true},
		"a missing field":               {"POST", plans, create, 201, `{"id":"plan-starter"}`, true},
		"another type":                  {"POST", plans, create, 201, strings.Replace(starter, `"rate":1`, `"rate":"1"`, 1) + `}`, true},
		"an unknown value":              {"POST", plans, create, 201, strings.Replace(starter, `"quota_period":null`, `"quota_period":"hour"`, 1) + `}`, true},
		"out of range":                  {"POST", plans, create, 201, strings.Replace(starter, `"burst":1`, `"burst":0`, 1) + `}`, true},
		"a list as described":           {"GET", plans + "?page_size=2", "", 200, `{"items":[` + starter + `}],"next_page_token":""}`, false},
		"a list of other objects":       {"GET", plans, "", 200, `{"items":[{}],"next_page_token":""}`, true},
		"another status":                {"POST", plans, create, 200, starter + `}`, true},
		"a problem":                     {"POST", plans, `{}`, 422, `{"code":"missing_field","message":"m"}`, false},
		"a problem of other routes":     {"POST", plans, `{}`, 422, `{"code":"invalid_grace","message":"m"}`, true},
		"a problem without message":     {"POST", plans, `{}`, 422, `{"code":"missing_field"}`, true},
		"not JSON":                      {"GET", plans, "", 404, `404 page not found`, true},
		"accepted, but not described":   {"POST", plans, `{"name":"Starter","rate":1,"burst":1,"limit":2}`, 201, starter + `}`, true},
		"rejected, and not described":   {"POST", plans, `{"limit":2}`, 400, `{"code":"unknown_field","message":"m"}`, false},
		"a pipeline's call":             {"POST", call, `{"image":"registry.example/hello:v2"}`, 202, begun, false},
		"a call with an unknown field":  {"POST", call, `{"commit":{"id":"x"}}`, 202, begun, true},
		"a git provider's event":        {"POST", event, `{"commit":{"id":"x"}}`, 202, begun, false},
		"an unknown route":              {"GET", "/api/v1/plans", "", 404, `{"code":"not_found","message":"m"}`, false},
		"a route that is not described": {"GET", "/api/v1/plans", "", 200, `{}`, true},
	}
	var respond func(http.ResponseWriter)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w) }))
	t.Cleanup(server.Close)
	d, err := describe(server.URL)
	check.OK(t, err)
	var current atomic.Pointer[description]
	current.Store(d)
	for name, tt := range tests {
		respond = func(w http.ResponseWriter) {
			w.Header().Set("X-Request-Id", "1")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.got)
		}
		clear(d.differences)
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.sent))
		check.OK(t, err)
		req.Header.Set("Content-Type", "application/json")
		if tt.path == event {
			req.Header.Set("X-GitHub-Event", "push")
		}
		res, err := describedTransport{&current, http.DefaultTransport}.RoundTrip(req)
		check.OK(t, err)
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != tt.got {
			t.Errorf("%s: got body %q, %v", name, got, err)
		}
		if (len(d.differences) > 0) != tt.differs {
			t.Errorf("%s: got differences %v, want any: %v", name, d.differences, tt.differs)
		}
	}
}
