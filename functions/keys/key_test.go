package keys

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestCreateKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	body := `{"plan":"plan-starter","name":"CI – Café","apps":["other","hello"],"tags":["eu","batch"],"expires_at":"2026-04-01T02:00:00.123456789+02:00"}`
	issued := w.do(http.MethodPost, prod+"/api-keys", body).issued(http.StatusCreated)
	prefix, ok := apikey.Parse([]byte(issued.FullKey))
	if !ok || string(prefix) != issued.Prefix || issued.ID != "key-"+issued.Prefix {
		t.Fatalf("got key %s of %s with prefix %q", issued.FullKey, issued.ID, prefix)
	}
	expires := time.Date(2026, 4, 1, 0, 0, 0, 123456000, time.UTC)
	want := wire.Key{
		ID: issued.ID, Prefix: issued.Prefix, Project: "shop", Environment: "prod", Plan: "plan-starter", Name: "CI – Café",
		Apps: []string{"hello", "other"}, Scope: "apps", Tags: []string{"batch", "eu"}, Status: "active", ExpiresAt: &expires,
		CreatedAt: time.Date(2026, 3, 14, 12, 0, 0, 123456000, time.UTC), CreatedBy: "ada",
		Usage: issued.Usage, // tested in package usagequery
	}
	check.Equal(t, "created", want, issued.Key)
	check.Equal(t, "read", want, w.as("vera", http.MethodGet, shop+"/api-keys/"+issued.ID, "").key())
	k := w.stored(issued.ID)
	if k.Namespace != "shop-prod" || !k.Secret.Equal(apikey.HashOf([]byte(issued.FullKey))) {
		t.Errorf("stored: got namespace %q, hash %x", k.Namespace, k.Secret)
	}
}

func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	first := w.makeKey()
	at := shop + "/api-keys/" + first.ID
	second := w.do(http.MethodPost, at+"/rotate", "").issued(http.StatusOK)
	answers := []answer{
		w.do(http.MethodGet, at, ""),
		w.do(http.MethodGet, shop+"/api-keys", ""),
		w.do(http.MethodGet, prod+"/api-keys", ""),
		w.do(http.MethodPatch, at, `{"name":"n"}`),
		w.do(http.MethodPost, at+"/revoke", ""),
		w.do(http.MethodPost, at+"/rotate", ""),
	}
	fields := []string{"apps", "created_at", "created_by", "environment", "expires_at", "id", "in_force", "last_seen", "leak", "name", "plan", "prefix", "previous_secret_expires_at", "project", "revoked_at", "revoked_by", "scope", "status", "tags", "usage"}
	var got map[string]any
	answers[0].Into(http.StatusOK, &got)
	check.Equal(t, "a key's fields", fields, slices.Sorted(maps.Keys(got)))
	said := w.log.String()
	for _, a := range answers {
		said += string(a.Body)
	}
	for _, full := range []string{first.FullKey, second.FullKey} {
		hash := apikey.HashOf([]byte(full))
		for _, secret := range []string{full, full[16:], full[16:48], hex.EncodeToString(hash[:])} {
			if strings.Contains(said, secret) {
				t.Errorf("got %q in a response or in the log", secret)
			}
		}
	}
	if !strings.Contains(w.log.String(), at) {
		t.Errorf("log: got no key ID: %s", &w.log)
	}
}

func TestCreateKeyMinimal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	for _, body := range []string{
		`{"plan":"plan-starter"}`,
		`{"plan":"plan-starter","name":null,"apps":null,"expires_at":null}`,
		`{"plan":"plan-starter","name":"","apps":[]}`,
	} {
		a := w.do(http.MethodPost, prod+"/api-keys", body)
		k := a.issued(http.StatusCreated)
		if k.Name != "" || k.ExpiresAt != nil || k.PreviousSecretExpiresAt != nil || !strings.Contains(string(a.Body), `"apps":[]`) {
			t.Errorf("%s: got %s", body, a.Body)
		}
	}
}

func TestCreateKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	read[wire.Plan](w.do(http.MethodPost, staging+"/plans", `{"name":"Elsewhere","rate":1,"burst":1}`), http.StatusCreated)
	many, err := json.Marshal(slices.Repeat([]string{"hello"}, 101))
	check.OK(t, err)
	with := func(field string) string { return `{"plan":"plan-starter",` + field + `}` }
	tests := []struct {
		name, body string
		status     int
		code       problem.Code
	}{
		{"no JSON", `plan`, 400, problem.MalformedJSON},
		{"a string", `"plan"`, 400, problem.WrongType},
		{"an unknown field", with(`"status":"disabled"`), 400, problem.UnknownField},
		{"a prefix", with(`"prefix":"ab12cd34"`), 400, problem.UnknownField},
		{"an invalid name", with(`"name":5`), 400, problem.WrongType},
		{"one app without a list", with(`"apps":"hello"`), 400, problem.WrongType},
		{"an invalid app", with(`"apps":[5]`), 400, problem.WrongType},
		{"expiry as a number", with(`"expires_at":1790000000`), 400, problem.WrongType},
		{"too large", with(`"name":"` + strings.Repeat("a", 70_000) + `"`), 413, problem.BodyTooLarge},
		{"nothing", `{}`, 422, problem.MissingField},
		{"null plan", `{"plan":null}`, 422, problem.MissingField},
		{"empty plan", `{"plan":""}`, 422, problem.UnknownPlan},
		{"unknown plan", `{"plan":"plan-none"}`, 422, problem.UnknownPlan},
		{"another environment's plan", `{"plan":"plan-elsewhere"}`, 422, problem.UnknownPlan},
		{"a plan by its name", `{"plan":"Starter"}`, 422, problem.UnknownPlan},
		{"a plan that is a path", `{"plan":"plan-a/../../keys/x"}`, 422, problem.UnknownPlan},
		{"long name", with(`"name":"` + strings.Repeat("a", 101) + `"`), 422, problem.InvalidName},
		{"control character", with(`"name":"a\u0000b"`), 422, problem.InvalidName},
		{"header injection", with(`"name":"a\r\nX-Admin: 1"`), 422, problem.InvalidName},
		{"space first", with(`"name":" ci"`), 422, problem.InvalidName},
		{"unknown app", with(`"apps":["hello","none"]`), 422, problem.InvalidScope},
		{"null app", with(`"apps":[null]`), 422, problem.InvalidScope},
		{"an app twice", with(`"apps":["hello","hello"]`), 422, problem.InvalidScope},
		{"an app that is a path", with(`"apps":["../hello"]`), 422, problem.InvalidScope},
		{"too many apps", with(`"apps":` + string(many)), 422, problem.InvalidScope},
		{"a date", with(`"expires_at":"2027-01-01"`), 422, problem.InvalidExpiry},
		{"empty expiry", with(`"expires_at":""`), 422, problem.InvalidExpiry},
		{"past expiry", with(`"expires_at":"2026-03-14T11:59:59Z"`), 422, problem.ExpiryInPast},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { w.do(http.MethodPost, prod+"/api-keys", tt.body).Refused(tt.status, tt.code) })
	}
	if n := w.countKeys(); n != 0 {
		t.Errorf("stored keys: got %d", n)
	}
}

func TestExpiredStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	issue := func() string {
		return w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","expires_at":"2026-03-14T13:00:00Z"}`).issued(http.StatusCreated).ID
	}
	active, disabled, revoked := issue(), issue(), issue()
	w.do(http.MethodPatch, shop+"/api-keys/"+disabled, `{"status":"disabled"}`).key()
	w.do(http.MethodPost, shop+"/api-keys/"+revoked+"/revoke", "").key()
	at := time.Date(2026, 3, 14, 13, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		when time.Time
		want map[string]string
	}{
		{at.Add(-1), map[string]string{active: "active", disabled: "disabled", revoked: "revoked"}},
		{at, map[string]string{active: "expired", disabled: "disabled", revoked: "revoked"}},
	} {
		w.clock.Set(tt.when)
		got := map[string]string{}
		for _, k := range read[wire.List[wire.Key]](w.do(http.MethodGet, shop+"/api-keys", ""), http.StatusOK).Items {
			got[k.ID] = k.Status
			if one := w.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key(); one.Status != k.Status {
				t.Errorf("%s: got status %s in the list, want %s", k.ID, k.Status, one.Status)
			}
		}
		check.Equal(t, fmt.Sprint("at ", tt.when), tt.want, got)
	}
	if s := w.stored(active).Status; s != apikey.Active {
		t.Errorf("stored status: got %s", s)
	}
	w.do(http.MethodPost, shop+"/api-keys/"+active+"/rotate", "").Refused(http.StatusConflict, problem.KeyExpired)
	w.do(http.MethodPatch, shop+"/api-keys/"+active, `{"expires_at":"2026-03-15T00:00:00Z"}`)
	if k := w.do(http.MethodGet, shop+"/api-keys/"+active, "").key(); k.Status != "active" {
		t.Errorf("status with a later expiry: got %s", k.Status)
	}
}

func TestListKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, env := range []string{prod, staging, bank + "/environments/prod"} {
		w.makePlan(env)
	}
	issue := func(env string) string {
		return w.as("olga", http.MethodPost, env+"/api-keys", `{"plan":"plan-starter"}`).issued(http.StatusCreated).ID
	}
	inProd, inStaging := []string{issue(prod), issue(prod), issue(prod)}, []string{issue(staging)}
	inBank := []string{issue(bank + "/environments/prod")}
	for path, want := range map[string][]string{
		shop + "/api-keys":                     slices.Concat(inProd, inStaging),
		shop + "/api-keys?environment=&plan=":  slices.Concat(inProd, inStaging),
		shop + "/api-keys?environment=prod":    inProd,
		shop + "/api-keys?plan=plan-starter":   slices.Concat(inProd, inStaging),
		prod + "/api-keys?plan=plan-starter":   inProd,
		prod + "/api-keys?plan=plan-none":      nil,
		prod + "/api-keys?plan=%2F..":          nil,
		shop + "/api-keys?environment=staging": inStaging,
		prod + "/api-keys?plan=":               inProd,
		staging + "/api-keys?plan=":            inStaging,
		bank + "/api-keys?plan=":               inBank,
	} {
		var got []string
		token, join := "", "?"
		if strings.Contains(path, "?") {
			join = "&"
		}
		for {
			list := read[wire.List[wire.Key]](w.as("olga", http.MethodGet, path+join+"page_size=2&page_token="+token, ""), http.StatusOK)
			for _, k := range list.Items {
				got = append(got, k.ID)
			}
			if token = list.NextPageToken; token == "" {
				break
			}
		}
		slices.Sort(want)
		check.Equal(t, path, want, got)
	}
	w.do(http.MethodGet, shop+"/api-keys?environment=none", "").Refused(http.StatusNotFound, problem.NotFound)
	w.do(http.MethodGet, shop+"/api-keys?environment=..%2Fx", "").Refused(http.StatusNotFound, problem.NotFound)
	w.do(http.MethodGet, prod+"/api-keys?plan=a&plan=b", "").Refused(http.StatusBadRequest, problem.InvalidParameter)
	w.do(http.MethodGet, shop+"/api-keys?environment=prod&environment=staging", "").Refused(http.StatusBadRequest, problem.InvalidParameter)
	w.do(http.MethodGet, shop+"/api-keys?page_size=501", "").Refused(http.StatusBadRequest, problem.InvalidPage)
	w.do(http.MethodGet, prod+"/api-keys?page_token=%00", "").Refused(http.StatusBadRequest, problem.InvalidPage)
}

func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(bank + "/environments/prod")
	theirs := w.as("bob", http.MethodPost, bank+"/environments/prod/api-keys", `{"plan":"plan-starter"}`).issued(http.StatusCreated)
	before := w.stored(theirs.ID)
	for _, id := range []string{theirs.ID, "key-00000000", "key-", "canary.checker-0", "key-ABCDEFGH", "..", "a%2Fb", theirs.Prefix, strings.Repeat("x", 2000), "%00"} {
		at := shop + "/api-keys/" + id
		w.do(http.MethodGet, at, "").Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPatch, at, `{"name":"mine"}`).Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPatch, at, `{}`).Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPost, at+"/revoke", "").Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPost, at+"/rotate", "").Refused(http.StatusNotFound, problem.NotFound)
	}
	if diff := cmp.Diff(before, w.stored(theirs.ID)); diff != "" {
		t.Errorf("other project's key (-want +got):\n%s", diff)
	}
	for _, id := range []string{"plan-none", "plan-", "Starter", "plan-a%2Fb", "canary.checker-0", fmt.Sprintf("plan-%064d", 1)} {
		at := prod + "/plans/" + id
		w.do(http.MethodGet, at, "").Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPatch, at, `{"rate":1}`).Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodDelete, at, "").Refused(http.StatusNotFound, problem.NotFound)
	}
}
