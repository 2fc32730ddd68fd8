package tests

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestRequestIsExplained: whichever checker has refused a request, those who look after its
// app find the reason, the key and the app by the request's id; those of another project
// find nothing (promise O1).
func TestRequestIsExplained(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	other := stacktest.New(t, world)
	s.GatedApp("hello")
	other.GatedApp("hello")
	expires := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	rate, burst := 0.01, int64(1)
	expired := s.Key(s.Plan(wire.CreatePlan{}), func(r *wire.CreateKey) { r.ExpiresAt = &expires })
	s.App("elsewhere")
	wrongApp := s.AnyKey(func(r *wire.CreateKey) { r.Apps = []string{"elsewhere"} })
	slow := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	revoked, foreign := s.AnyKey(), other.AnyKey()
	s.Revoke(revoked)
	s.Refuses("hello", expired)
	s.Refuses("hello", wrongApp)
	s.Refuses("hello", revoked)
	s.Limits("hello", slow)
	other.Opens("hello", foreign)
	namespace := s.Project + "-" + s.Env
	for i, r := range stacktest.Replicas(t, world) {
		for _, tt := range []struct {
			reason, code string
			key          stacktest.Key
			own          bool
		}{
			{"expired", "invalid_key", expired, true},
			{"wrong_app", "invalid_key", wrongApp, true},
			{"revoked", "invalid_key", revoked, true},
			{"rate", "rate_limited", slow, true},
			{"wrong_environment", "invalid_key", foreign, false},
		} {
			id := strings.ReplaceAll(tt.reason, "_", "-") + "-" + string(rune('a'+i)) + "-" + s.Project
			a, err := r.Check(t.Context(), namespace, "hello", tt.key.Full, "X-Request-Id", id)
			if err != nil || a.Code() != tt.code {
				t.Fatalf("%s: %d %s %v", id, a.Status, a.Body, err)
			}
			e, err := s.Client.ExplainRequest(t.Context(), s.Project, id)
			if err != nil || e.RequestID != id || e.Asked != 2 || e.Answered != 2 || len(e.Denials) != 1 {
				t.Errorf("%s: %+v, %v", id, e, err)
				continue
			}
			d := e.Denials[0]
			if d.Reason != tt.reason || d.Code != tt.code || d.Environment != s.Env || d.App != "hello" || d.Explanation == "" || time.Since(d.At) > time.Minute {
				t.Errorf("%s: %+v", id, d)
			}
			if named := d.KeyID != nil && *d.KeyID == tt.key.ID && d.KeyPrefix != nil && *d.KeyPrefix == tt.key.Prefix; named != tt.own || !tt.own && (d.KeyID != nil || d.KeyPrefix != nil || d.KeyName != "") {
				t.Errorf("%s: its key is told as %v", id, d.KeyID)
			}
			if e, err := s.Client.ExplainRequest(t.Context(), other.Project, id); err != nil || len(e.Denials) != 0 || e.Answered != 2 {
				t.Errorf("%s: the other project sees %+v, %v", id, e, err)
			}
		}
	}
	_, err := s.Client.ExplainRequest(t.Context(), s.Project, url.PathEscape("not an id"))
	if !client.HasCode(err, "invalid_parameter") {
		t.Errorf("no id: %v", err)
	}
	through := s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	if e, err := s.Client.ExplainRequest(t.Context(), s.Project, through.Header.Get("X-Request-Id")); err != nil || len(e.Denials) != 1 || e.Denials[0].Reason != "missing" {
		t.Errorf("through the ingress: %+v, %v", e, err)
	}
}
