package keys

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestUpdateKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	read[wire.Plan](w.do(http.MethodPost, prod+"/plans", `{"name":"Bigger","rate":100,"burst":100}`), http.StatusCreated)
	const create = `{"plan":"plan-starter","name":"ci","apps":["hello"],"tags":["old","-1"],"expires_at":"2027-01-01T00:00:00Z"}`
	later := time.Date(2028, 2, 29, 23, 59, 59, 999999000, time.UTC)
	tests := []struct {
		body string
		want func(*wire.Key)
	}{
		{`{}`, func(*wire.Key) {}},
		{`{"name":"other"}`, func(k *wire.Key) { k.Name = "other" }},
		{`{"name":""}`, func(k *wire.Key) { k.Name = "" }},
		{`{"name":null}`, func(k *wire.Key) { k.Name = "" }},
		{`{"apps":["other","hello"]}`, func(k *wire.Key) { k.Apps = []string{"hello", "other"} }},
		{`{"apps":[]}`, func(k *wire.Key) { k.Apps, k.Scope = []string{}, "all" }},
		{`{"apps":null}`, func(k *wire.Key) { k.Apps, k.Scope = []string{}, "all" }},
		{`{"tags":["eu","batch"]}`, func(k *wire.Key) { k.Tags = []string{"batch", "eu"} }},
		{`{"tags":null}`, func(k *wire.Key) { k.Tags = []string{} }},
		{`{"tags":[]}`, func(k *wire.Key) { k.Tags = []string{} }},
		{`{"plan":"plan-bigger"}`, func(k *wire.Key) { k.Plan = "plan-bigger" }},
		{`{"status":"disabled"}`, func(k *wire.Key) { k.Status = "disabled" }},
		{`{"status":"active"}`, func(*wire.Key) {}},
		{`{"expires_at":null}`, func(k *wire.Key) { k.ExpiresAt = nil }},
		{`{"expires_at":"2028-02-29T23:59:59.999999999Z"}`, func(k *wire.Key) { k.ExpiresAt = &later }},
		{`{"name":"n","apps":[],"plan":"plan-bigger","expires_at":null,"status":"disabled"}`, func(k *wire.Key) {
			k.Name, k.Apps, k.Scope, k.Plan, k.ExpiresAt, k.Status = "n", []string{}, "all", "plan-bigger", nil, "disabled"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel()
			issued := w.do(http.MethodPost, prod+"/api-keys", create).issued(http.StatusCreated)
			want, at := issued.Key, shop+"/api-keys/"+issued.ID
			tt.want(&want)
			check.Equal(t, "answer", want, w.do(http.MethodPatch, at, tt.body).key())
			check.Equal(t, "stored", want, w.do(http.MethodGet, at, "").key())
		})
	}
}

func TestKeyOfADeletedApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	issued := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","apps":["hello"]}`).issued(http.StatusCreated)
	check.OK(t, storetest.DeleteApp(t.Context(), w.store, app.Ref{Namespace: "shop-prod", Name: "hello"}))
	at := shop + "/api-keys/" + issued.ID
	for _, tt := range []struct{ body, scope string }{
		{`{}`, "none"}, {`{"name":"renamed"}`, "none"}, {`{"apps":["other"]}`, "apps"}, {`{"apps":[]}`, "all"},
	} {
		if k := w.do(http.MethodPatch, at, tt.body).key(); k.Scope != tt.scope || slices.Contains(k.Apps, "-") {
			t.Errorf("after %s: got scope %q with %q, want %q", tt.body, k.Scope, k.Apps, tt.scope)
		}
	}
	w.do(http.MethodPatch, at, `{"apps":["-"]}`).Refused(422, problem.InvalidScope)
}

func TestUpdateKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	read[wire.Plan](w.do(http.MethodPost, staging+"/plans", `{"name":"Elsewhere","rate":1,"burst":1}`), http.StatusCreated)
	issued := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","name":"ci"}`).issued(http.StatusCreated)
	before := w.stored(issued.ID)
	tests := []struct {
		body   string
		status int
		code   problem.Code
	}{
		{`{"name":"a\nb"}`, 422, problem.InvalidName},
		{`{"name":"` + strings.Repeat("a", 101) + `"}`, 422, problem.InvalidName},
		{`{"plan":"plan-none"}`, 422, problem.UnknownPlan},
		{`{"plan":"plan-elsewhere"}`, 422, problem.UnknownPlan},
		{`{"plan":""}`, 422, problem.UnknownPlan},
		{`{"plan":null}`, 422, problem.MissingField},
		{`{"apps":["none"]}`, 422, problem.InvalidScope},
		{`{"apps":["hello","hello"]}`, 422, problem.InvalidScope},
		{`{"tags":[""]}`, 422, problem.InvalidTag},
		{`{"tags":["Batch"]}`, 422, problem.InvalidTag},
		{`{"tags":["a","a"]}`, 422, problem.InvalidTag},
		{`{"tags":["a b"]}`, 422, problem.InvalidTag},
		{`{"tags":["a\n"]}`, 422, problem.InvalidTag},
		{`{"tags":["` + strings.Repeat("a", 33) + `"]}`, 422, problem.InvalidTag},
		{`{"tags":["1","2","3","4","5","6","7","8","9","10","11"]}`, 422, problem.InvalidTag},
		{`{"tags":"a"}`, 400, problem.WrongType},
		{`{"status":"revoked"}`, 422, problem.InvalidStatus},
		{`{"status":"expired"}`, 422, problem.InvalidStatus},
		{`{"status":""}`, 422, problem.InvalidStatus},
		{`{"status":null}`, 422, problem.MissingField},
		{`{"expires_at":"2026-03-14T12:00:00Z"}`, 422, problem.ExpiryInPast},
		{`{"expires_at":"2027-01-01"}`, 422, problem.InvalidExpiry},
		{`{"expires_at":1}`, 400, problem.WrongType},
		{`{"name":"fine","status":"gone"}`, 422, problem.InvalidStatus},
		{`{"prefix":"ab12cd34"}`, 400, problem.UnknownField},
		{`{"key":"sluice_"}`, 400, problem.UnknownField},
		{`{"status":"disabled","status":"active"}`, 400, problem.MalformedJSON},
		{`{`, 400, problem.MalformedJSON},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			w.do(http.MethodPatch, shop+"/api-keys/"+issued.ID, tt.body).Refused(tt.status, tt.code)
		})
	}
	if diff := cmp.Diff(before, w.stored(issued.ID)); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
}

func TestWrongTypeNamesTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	id := w.makeKey().ID
	for body, field := range map[string]string{`{"status":5}`: "status", `{"apps":"hello"}`: "apps", `{"name":["n"]}`: "name"} {
		a := w.do(http.MethodPatch, shop+"/api-keys/"+id, body)
		a.Refused(http.StatusBadRequest, problem.WrongType)
		if !strings.Contains(string(a.Body), field) {
			t.Errorf("%s: got %s", body, a.Body)
		}
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	issued := w.makeKey()
	at := shop + "/api-keys/" + issued.ID
	w.do(http.MethodPost, at+"/revoke", `{"reason":"leaked"}`).Refused(http.StatusBadRequest, problem.UnknownField)
	want := issued.Key
	want.Status, want.RevokedAt, want.RevokedBy = "revoked", new(w.service.changeTime()), new("ada")
	check.Equal(t, "revoked", want, w.do(http.MethodPost, at+"/revoke", "").key())
	before := w.stored(issued.ID)
	w.clock.Set(time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC))
	again := w.do(http.MethodPost, at+"/revoke", `{}`).key()
	again.Usage = want.Usage // another day
	check.Equal(t, "revoked again", want, again)
	for _, body := range []string{`{"status":"active"}`, `{"status":"disabled"}`, `{"name":"n"}`, `{"expires_at":null}`} {
		w.do(http.MethodPatch, at, body).Refused(http.StatusConflict, problem.KeyRevoked)
	}
	w.do(http.MethodPost, at+"/rotate", "").Refused(http.StatusConflict, problem.KeyRevoked)
	if k := w.do(http.MethodPatch, at, `{}`).key(); k.Status != "revoked" {
		t.Errorf("status after an empty PATCH: got %s", k.Status)
	}
	if diff := cmp.Diff(before, w.stored(issued.ID)); diff != "" {
		t.Errorf("revoked key (-want +got):\n%s", diff)
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	now := time.Date(2026, 3, 14, 12, 0, 0, 123456000, time.UTC)
	tests := []struct {
		body  string
		grace time.Duration // 0 for no previous secret
	}{
		{"", 24 * time.Hour},
		{`{}`, 24 * time.Hour},
		{`{"grace":null}`, 24 * time.Hour},
		{`{"grace":"90s"}`, 90 * time.Second},
		{`{"grace":"1h30m"}`, 90 * time.Minute},
		{`{"grace":"720h"}`, 720 * time.Hour},
		{`{"grace":"0s"}`, 0},
		{`{"grace":"0"}`, 0},
		{`{"grace":"1ns"}`, 0}, // less than the precision of the store
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel()
			first := w.makeKey()
			second := w.do(http.MethodPost, shop+"/api-keys/"+first.ID+"/rotate", tt.body).issued(http.StatusOK)
			want := first.Key
			stored := w.stored(first.ID)
			if tt.grace > 0 {
				until := now.Add(tt.grace)
				want.PreviousSecretExpiresAt = &until
			}
			check.Equal(t, "rotated: id, prefix and the rest stay", want, second.Key)
			if prefix, ok := apikey.Parse([]byte(second.FullKey)); !ok || string(prefix) != first.Prefix || second.FullKey == first.FullKey {
				t.Errorf("new key: got %s", second.FullKey)
			}
			if !stored.Secret.Equal(apikey.HashOf([]byte(second.FullKey))) {
				t.Error("got no stored hash of the new key")
			}
			if old := stored.Previous.Equal(apikey.HashOf([]byte(first.FullKey))); old != (tt.grace > 0) {
				t.Errorf("stored hash of the previous secret: got %t", old)
			}
		})
	}
}

func TestRotateRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	id := w.makeKey().ID
	before := w.stored(id)
	tests := []struct {
		body   string
		status int
		code   problem.Code
	}{
		{`{"grace":"-1s"}`, 422, problem.InvalidGrace},
		{`{"grace":"721h"}`, 422, problem.InvalidGrace},
		{`{"grace":"720h0m0.001s"}`, 422, problem.InvalidGrace},
		{`{"grace":"9999999999h"}`, 422, problem.InvalidGrace},
		{`{"grace":"1d"}`, 422, problem.InvalidGrace},
		{`{"grace":"24"}`, 422, problem.InvalidGrace},
		{`{"grace":""}`, 422, problem.InvalidGrace},
		{`{"grace":"soon"}`, 422, problem.InvalidGrace},
		{`{"grace":24}`, 400, problem.WrongType},
		{`{"secret":"mine"}`, 400, problem.UnknownField},
		{`[]`, 400, problem.WrongType},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			w.do(http.MethodPost, shop+"/api-keys/"+id+"/rotate", tt.body).Refused(tt.status, tt.code)
		})
	}
	if diff := cmp.Diff(before, w.stored(id)); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	at := shop + "/api-keys/" + w.makeKey().ID
	until := w.do(http.MethodPost, at+"/rotate", `{"grace":"1h"}`).issued(http.StatusOK).PreviousSecretExpiresAt
	w.clock.Set(until.Add(-time.Microsecond))
	if k := w.do(http.MethodGet, at, "").key(); k.PreviousSecretExpiresAt == nil {
		t.Error("got the previous secret removed too early")
	}
	w.clock.Set(*until)
	if k := w.do(http.MethodGet, at, "").key(); k.PreviousSecretExpiresAt != nil {
		t.Errorf("previous_secret_expires_at: got %s", k.PreviousSecretExpiresAt)
	}
}
