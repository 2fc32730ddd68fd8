package keys

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

// match is do with If-Match.
func (w *world) match(method, path, body, tag string) answer {
	w.Helper()
	return w.send("ada", method, path, body, http.Header{api.IfMatch: {tag}})
}

// Whatever tells of a plan or a key has its tag, the same as long as it is the same.
func TestTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan, key := prod+"/plans/plan-starter", ""
	made := w.as("olga", http.MethodPost, prod+"/plans", `{"name":"Starter","rate":10,"burst":20}`)
	issued := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","apps":["other","hello"],"expires_at":"2026-12-31T23:59:59.123456789Z"}`)
	key = shop + "/api-keys/" + issued.issued(http.StatusCreated).ID
	last := map[string]string{plan: made.tag, key: issued.tag}
	for _, c := range []struct{ of, method, path, body string }{
		{plan, http.MethodPatch, plan, `{"rate":11,"quota":5,"quota_period":"day"}`},
		{plan, http.MethodPatch, plan, `{"quota":null}`},
		{key, http.MethodPatch, key, `{"name":"ci","apps":null}`},
		{key, http.MethodPost, key + "/rotate", `{"grace":"0s"}`},
		{key, http.MethodPost, key + "/rotate", `{"grace":"0s"}`}, // nothing that is shown differs
		{key, http.MethodPost, key + "/revoke", ``},
	} {
		before := w.do(http.MethodGet, c.of, "").tag
		if before == "" || before != last[c.of] {
			t.Errorf("%s before %s: tag %s, want %s", c.of, c.body, before, last[c.of])
		}
		after := w.match(c.method, c.path, c.body, before)
		if after.status != http.StatusOK || after.tag == "" || after.tag == before {
			t.Errorf("%s: %d, tag %s after %s", after.call, after.status, after.tag, before)
		}
		again := w.match(c.method, c.path, c.body, before)
		again.refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		if again.tag != "" {
			t.Errorf("a problem has the tag %s", again.tag)
		}
		last[c.of] = after.tag
	}
	w.match(http.MethodDelete, plan, "", made.tag).refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
	if w.countPlans() != 1 {
		t.Error("the plan is gone")
	}
	if a := w.match(http.MethodDelete, plan, "", last[plan]); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Who changes the same version at once: one does, and the others change nothing.
func TestChangeAtOnce(t *testing.T) {
	t.Parallel()
	const callers = 6
	for _, c := range []struct {
		name, method string
		at           func(key string) string
		body         string // %d is the caller's number
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
			tag := w.do(http.MethodGet, of, "").tag
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
				if a.status == http.StatusOK {
					made++
					if now := w.do(http.MethodGet, of, "").tag; now != a.tag {
						t.Errorf("it has the tag %s, and the one that changed it was told %s", now, a.tag)
					}
					continue
				}
				a.refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
			}
			if made != 1 {
				t.Errorf("%d of %d changed the same version", made, callers)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	path := prod + "/plans/plan-starter"
	tag := w.do(http.MethodGet, path, "").tag
	for match, status := range map[string]int{
		"*":                       http.StatusOK,
		` * `:                     http.StatusOK,
		tag:                       http.StatusOK,
		`"another", ` + tag:       http.StatusOK,
		`, "a,b" ,,` + tag + ` ,`: http.StatusOK,
		"W/" + tag:                http.StatusPreconditionFailed, // weak ones never match a change
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
		if a := w.match(http.MethodPatch, path, `{}`, match); a.status != status {
			t.Errorf("If-Match: %s\n got %d %s\nwant %d", match, a.status, a.body, status)
		}
		tag = w.do(http.MethodGet, path, "").tag // {} changes nothing
	}
	lines := http.Header{api.IfMatch: {`"another"`, tag}}
	if a := w.send("ada", http.MethodPatch, path, `{}`, lines); a.status != http.StatusOK {
		t.Errorf("on two lines: %d %s", a.status, a.body)
	}
	// What is not there, or not the caller's, stays so.
	w.match(http.MethodPatch, prod+"/plans/plan-none", `{}`, "*").refused(http.StatusNotFound, problem.NotFound)
	theirs := http.Header{api.IfMatch: {tag}}
	w.send("bob", http.MethodPatch, path, `{}`, theirs).refused(http.StatusForbidden, problem.Forbidden)
	w.send("bob", http.MethodPost, bank+"/api-keys/"+w.makeKey().ID+"/revoke", "", theirs).refused(http.StatusNotFound, problem.NotFound)
}

// A rotation that is sent again, since its answer was lost, is told that it was made, and
// not that somebody else was faster.
func TestRotatedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	key := shop + "/api-keys/" + w.makeKey().ID
	head := http.Header{api.IfMatch: {w.do(http.MethodGet, key, "").tag}, api.IdempotencyKey: {"nightly-1"}}
	w.send("ada", http.MethodPost, key+"/rotate", "", head).issued(http.StatusOK)
	w.send("ada", http.MethodPost, key+"/rotate", "", head).refused(http.StatusConflict, problem.AlreadyIssued)
}
