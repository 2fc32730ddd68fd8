package keys

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

func (w *world) match(method, path, body, tag string) answer {
	w.Helper()
	return w.send("ada", method, path, body, http.Header{api.IfMatch: {tag}})
}

func TestTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan, key := prod+"/plans/plan-starter", ""
	made := w.as("olga", http.MethodPost, prod+"/plans", `{"name":"Starter","rate":10,"burst":20}`)
	issued := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","apps":["other","hello"],"expires_at":"2026-12-31T23:59:59.123456789Z"}`)
	key = shop + "/api-keys/" + issued.issued(http.StatusCreated).ID
	last := map[string]string{plan: made.Tag(), key: issued.Tag()}
	for _, c := range []struct{ of, method, path, body string }{
		{plan, http.MethodPatch, plan, `{"rate":11,"quota":5,"quota_period":"day"}`},
		{plan, http.MethodPatch, plan, `{"quota":null}`},
		{key, http.MethodPatch, key, `{"name":"ci","apps":null}`},
		{key, http.MethodPost, key + "/rotate", `{"grace":"0s"}`},
		{key, http.MethodPost, key + "/rotate", `{"grace":"0s"}`}, // changes only the stored hash
		{key, http.MethodPost, key + "/revoke", ``},
	} {
		before := w.do(http.MethodGet, c.of, "").Tag()
		if before == "" || before != last[c.of] {
			t.Errorf("%s before %s: got tag %s, want %s", c.of, c.body, before, last[c.of])
		}
		after := w.match(c.method, c.path, c.body, before)
		if after.Status != http.StatusOK || after.Tag() == "" || after.Tag() == before {
			t.Errorf("%s: got %d, tag %s after %s", after.Call.Path, after.Status, after.Tag(), before)
		}
		again := w.match(c.method, c.path, c.body, before)
		again.Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		if again.Tag() != "" {
			t.Errorf("tag of a problem: got %s, want none", again.Tag())
		}
		last[c.of] = after.Tag()
	}
	w.match(http.MethodDelete, plan, "", made.Tag()).Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
	if w.countPlans() != 1 {
		t.Error("got the plan deleted")
	}
	if a := w.match(http.MethodDelete, plan, "", last[plan]); a.Status != http.StatusNoContent {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestChangeAtOnce(t *testing.T) {
	t.Parallel()
	const callers = 6
	for _, c := range []struct {
		name, method string
		at           func(key string) string
		body         string // %d stands for the number of the caller
	}{
		{"update plan", http.MethodPatch, func(string) string { return prod + "/plans/plan-starter" }, `{"burst":%d}`},
		{"update key", http.MethodPatch, func(key string) string { return key }, `{"name":"Caller %d"}`},
		{"revoke", http.MethodPost, func(key string) string { return key + "/revoke" }, `{}`},
		{"rotate", http.MethodPost, func(key string) string { return key + "/rotate" }, `{"grace":"%ds"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.makePlan(prod)
			path := c.at(shop + "/api-keys/" + w.makeKey().ID)
			of := path
			if c.method == http.MethodPost {
				of = path[:len(path)-len("/revoke")]
			}
			tag := w.do(http.MethodGet, of, "").Tag()
			answers := make([]answer, callers)
			var all sync.WaitGroup
			for i := range answers {
				body := c.body
				if body != "{}" {
					body = fmt.Sprintf(body, i+1)
				}
				all.Go(func() { answers[i] = w.match(c.method, path, body, tag) })
			}
			all.Wait()
			made := 0
			for _, a := range answers {
				if a.Status == http.StatusOK {
					made++
					if now := w.do(http.MethodGet, of, "").Tag(); now != a.Tag() {
						t.Errorf("got the tag %s, want %s as in the response to the change", now, a.Tag())
					}
					continue
				}
				a.Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
			}
			if made != 1 {
				t.Errorf("successful changes of a version: got %d of %d", made, callers)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	path := prod + "/plans/plan-starter"
	tag := w.do(http.MethodGet, path, "").Tag()
	for match, status := range map[string]int{
		"*":                       http.StatusOK,
		` * `:                     http.StatusOK,
		tag:                       http.StatusOK,
		`"another", ` + tag:       http.StatusOK,
		`, "a,b" ,,` + tag + ` ,`: http.StatusOK,
		"W/" + tag:                http.StatusPreconditionFailed, // weak tags never match
		`"another"`:               http.StatusPreconditionFailed,
		`""`:                      http.StatusPreconditionFailed,
		`another`:                 http.StatusBadRequest,
		`"another`:                http.StatusBadRequest,
		`"a" "b"`:                 http.StatusBadRequest,
		`"a", *`:                  http.StatusBadRequest,
		`w/"a"`:                   http.StatusBadRequest,
		"\"a\x01\"":               http.StatusBadRequest,
		``:                        http.StatusBadRequest,
		` , `:                     http.StatusBadRequest,
	} {
		if a := w.match(http.MethodPatch, path, `{}`, match); a.Status != status {
			t.Errorf("If-Match: %s\n got %d %s\nwant %d", match, a.Status, a.Body, status)
		}
		tag = w.do(http.MethodGet, path, "").Tag()
	}
	lines := http.Header{api.IfMatch: {`"another"`, tag}}
	if a := w.send("ada", http.MethodPatch, path, `{}`, lines); a.Status != http.StatusOK {
		t.Errorf("two header lines: got %d %s", a.Status, a.Body)
	}
	w.match(http.MethodPatch, prod+"/plans/plan-none", `{}`, "*").Refused(http.StatusNotFound, problem.NotFound)
	theirs := http.Header{api.IfMatch: {tag}}
	w.send("bob", http.MethodPatch, path, `{}`, theirs).Refused(http.StatusForbidden, problem.Forbidden)
	w.send("bob", http.MethodPost, bank+"/api-keys/"+w.makeKey().ID+"/revoke", "", theirs).Refused(http.StatusNotFound, problem.NotFound)
}

func TestRotatedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	key := shop + "/api-keys/" + w.makeKey().ID
	head := http.Header{api.IfMatch: {w.do(http.MethodGet, key, "").Tag()}, api.IdempotencyKey: {"nightly-1"}}
	w.send("ada", http.MethodPost, key+"/rotate", "", head).issued(http.StatusOK)
	w.send("ada", http.MethodPost, key+"/rotate", "", head).Refused(http.StatusConflict, problem.AlreadyIssued)
}
