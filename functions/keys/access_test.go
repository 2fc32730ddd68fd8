package keys

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	id := w.makeKey().ID
	plans, plan, keys, key := prod+"/plans", prod+"/plans/plan-starter", shop+"/api-keys", shop+"/api-keys/"+id
	reads := []string{plans, plan, prod + "/api-keys", keys, key}
	writes := []struct{ method, path, body string }{
		{http.MethodPost, plans, `{"name":"New","rate":1,"burst":1}`},
		{http.MethodPatch, plan, `{"rate":99}`},
		{http.MethodDelete, plan, ""},
		{http.MethodPost, prod + "/api-keys", `{"plan":"plan-starter"}`},
		{http.MethodPatch, key, `{"status":"disabled"}`},
		{http.MethodPost, key + "/rotate", ""},
		{http.MethodPost, key + "/revoke", ""},
		{http.MethodPost, prod + "/api-keys/bulk", `{"keys":["` + id + `"],"change":{"status":"disabled"}}`},
	}
	before := w.stored(id)
	for _, path := range reads {
		for _, user := range []string{"vera", "ada", "olga"} {
			if a := w.as(user, http.MethodGet, path, ""); a.Status != http.StatusOK {
				t.Errorf("%s reads %s: got %d %s", user, path, a.Status, a.Body)
			}
		}
		w.as("bob", http.MethodGet, path, "").Refused(http.StatusForbidden, problem.Forbidden)
		w.as("", http.MethodGet, path, "").Refused(http.StatusUnauthorized, problem.Unauthenticated)
	}
	for _, c := range writes {
		for _, user := range []string{"vera", "bob"} {
			w.as(user, c.method, c.path, c.body).Refused(http.StatusForbidden, problem.Forbidden)
			w.as(user, c.method, c.path, `{"broken"`).Refused(http.StatusForbidden, problem.Forbidden)
		}
		w.as("", c.method, c.path, c.body).Refused(http.StatusUnauthorized, problem.Unauthenticated)
	}
	if after := w.stored(id); after.Status != before.Status || after.Secret != before.Secret || w.countKeys() != 1 || w.countPlans() != 1 {
		t.Error("got stored changes, want none")
	}
	if p := w.storedPlan("plan-starter"); p.Rate != 10 {
		t.Errorf("rate: got %v", p.Rate)
	}
	// The role in the project of the path counts.
	w.as("bob", http.MethodGet, bank+"/api-keys/"+id, "").Refused(http.StatusNotFound, problem.NotFound)
}

func TestUnknownPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, env := range []string{"none", "PROD", "a.b", "a%2Fb", strings.Repeat("a", 41), "%00"} {
		at := shop + "/environments/" + env
		w.as("bob", http.MethodGet, at+"/plans", "").Refused(http.StatusForbidden, problem.Forbidden)
		for _, path := range []string{"/plans", "/api-keys", "/plans/plan-starter"} {
			w.do(http.MethodGet, at+path, "").Refused(http.StatusNotFound, problem.NotFound)
		}
		w.do(http.MethodPost, at+"/plans", `{"name":"New","rate":1,"burst":1}`).Refused(http.StatusNotFound, problem.NotFound)
		w.do(http.MethodPost, at+"/api-keys", `{"plan":"plan-starter"}`).Refused(http.StatusNotFound, problem.NotFound)
	}
	w.do(http.MethodGet, bank+"/api-keys", "").Refused(http.StatusForbidden, problem.Forbidden)
	w.do(http.MethodGet, "/api/v1/projects/none/api-keys", "").Refused(http.StatusForbidden, problem.Forbidden)
	w.do(http.MethodGet, "/api/v2/projects/shop/api-keys", "").Refused(http.StatusNotFound, problem.NotFound)
	w.do(http.MethodPut, shop+"/api-keys", `{}`).Refused(http.StatusMethodNotAllowed, problem.MethodNotAllowed)
	w.do(http.MethodDelete, shop+"/api-keys/key-00000000", "").Refused(http.StatusMethodNotAllowed, problem.MethodNotAllowed)
}

func TestContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for kind, code := range map[string]problem.Code{
		"":                                  problem.UnsupportedMediaType,
		"text/plain":                        problem.UnsupportedMediaType,
		"application/x-www-form-urlencoded": problem.UnsupportedMediaType,
		"application/json; charset=utf-8":   problem.MissingField,
	} {
		w.send("ada", http.MethodPost, prod+"/plans", `{}`, http.Header{"Content-Type": {kind}}).Refused(problem.FromCode(code).Status(), code)
	}
}

func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	id := w.makeKey().ID
	at := shop + "/api-keys/" + id
	rotated := make([]answer, 4)
	var revoked, renamed answer
	var all sync.WaitGroup
	for i := range rotated {
		all.Go(func() { rotated[i] = w.do(http.MethodPost, at+"/rotate", "") })
	}
	all.Go(func() { renamed = w.do(http.MethodPatch, at, `{"name":"renamed"}`) })
	all.Go(func() {
		for revoked = w.do(http.MethodPost, at+"/revoke", ""); revoked.Status == http.StatusConflict; {
			revoked = w.do(http.MethodPost, at+"/revoke", "")
		}
	})
	all.Wait()
	k := w.stored(id)
	if revoked.Status != http.StatusOK || k.Status != apikey.Revoked {
		t.Errorf("revoke: got %d %s, stored %s", revoked.Status, revoked.Body, k.Status)
	}
	if (renamed.Status == http.StatusOK) != (k.Name == "renamed") {
		t.Errorf("rename: got %d %s, stored %q", renamed.Status, renamed.Body, k.Name)
	}
	holders := 0
	for _, a := range rotated {
		if a.Status != http.StatusOK && a.Status != http.StatusConflict {
			t.Errorf("rotate: got %d %s", a.Status, a.Body)
		}
		if a.Status == http.StatusOK && k.Secret.Equal(apikey.HashOf([]byte(a.issued(http.StatusOK).FullKey))) {
			holders++
		}
	}
	if any := anyOK(rotated); any != (holders == 1) {
		t.Errorf("successful rotation: %t; current secrets: got %d, want 1", any, holders)
	}
}

func TestCreatePlanAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := make([]answer, 6)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = w.do(http.MethodPost, prod+"/plans", `{"name":"Same","rate":1,"burst":1}`) })
	}
	all.Wait()
	created := 0
	for _, a := range answers {
		if a.Status == http.StatusCreated {
			created++
		} else {
			a.Refused(http.StatusConflict, problem.AlreadyExists)
		}
	}
	if created != 1 || w.countPlans() != 1 {
		t.Errorf("got %d created and %d stored", created, w.countPlans())
	}
}

func anyOK(answers []answer) bool {
	for _, a := range answers {
		if a.Status == http.StatusOK {
			return true
		}
	}
	return false
}
