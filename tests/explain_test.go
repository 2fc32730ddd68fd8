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

// TestRequestIsExplained looks up denials by request ID, from the project of the app and from
// another.
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
			ownKey       bool
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
				t.Fatalf("%s: got %d %s, %v, want %s", id, a.Status, a.Body, err, tt.code)
			}
			e, err := s.Client.ExplainRequest(t.Context(), s.Project, id)
			if err != nil || e.RequestID != id || e.Asked != 2 || e.Answered != 2 || len(e.Denials) != 1 {
				t.Errorf("%s: got %+v, %v, want one denial from 2 checkers", id, e, err)
				continue
			}
			d := e.Denials[0]
			if d.Reason != tt.reason || d.Code != tt.code || d.Environment != s.Env || d.App != "hello" || d.Explanation == "" || time.Since(d.At) > time.Minute {
				t.Errorf("%s: got %+v, want reason %s, code %s", id, d, tt.reason, tt.code)
			}
			if named := d.KeyID != nil && *d.KeyID == tt.key.ID && d.KeyPrefix != nil && *d.KeyPrefix == tt.key.Prefix; named != tt.ownKey || !tt.ownKey && (d.KeyID != nil || d.KeyPrefix != nil || d.KeyName != "") {
				t.Errorf("%s: got the key %v, want a key: %v", id, d.KeyID, tt.ownKey)
			}
			if e, err := s.Client.ExplainRequest(t.Context(), other.Project, id); err != nil || len(e.Denials) != 0 || e.Answered != 2 {
				t.Errorf("%s: another project got %+v, %v, want no denials", id, e, err)
			}
		}
	}
	_, err := s.Client.ExplainRequest(t.Context(), s.Project, url.PathEscape("not an id"))
	if !client.HasCode(err, "invalid_parameter") {
		t.Errorf("malformed ID: got %v, want invalid_parameter", err)
	}
	through := s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	if e, err := s.Client.ExplainRequest(t.Context(), s.Project, through.Header.Get("X-Request-Id")); err != nil || len(e.Denials) != 1 || e.Denials[0].Reason != "missing" {
		t.Errorf("through the ingress: got %+v, %v, want one denial with reason missing", e, err)
	}
}
