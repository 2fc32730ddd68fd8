package cli

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// All attempts of one command have the same Idempotency-Key, and the current revision in If-Match.
func TestDeploymentsAreSentOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, call, tag string }{
		{args: "app update hello --image i:2", call: "POST " + hello + "/deployments", tag: `"3"`},
		{args: "app rollback hello --yes", call: "POST " + hello + "/rollback", tag: `"3"`},
		{args: "app promote hello --from staging", call: "POST " + hello + "/promote", tag: `"3"`},
		{args: "app build site", call: "POST " + envPath + "/apps/site/builds", tag: `"12"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			names := map[string]bool{}
			for range 2 {
				answers := shop()
				answers[tt.call] = append([]answer{{http.StatusBadGateway, ""}}, answers[tt.call]...)
				f := newFake(t, answers)
				p := newPerson(t, f.URL)
				p.tries = 2
				if r := p.runs(strings.Fields(tt.args)...); r.exit != 0 {
					t.Fatal(r)
				}
				calls := 0
				for i, request := range f.requests() {
					if !strings.HasPrefix(request, tt.call) {
						continue
					}
					calls++
					names[f.headers[i].Get("Idempotency-Key")] = true
					if got := f.headers[i].Get("If-Match"); got != tt.tag {
						t.Errorf("got If-Match %q, want %q", got, tt.tag)
					}
				}
				if calls != 2 {
					t.Errorf("got %d calls, want 2", calls)
				}
			}
			if len(names) != 2 || names[""] {
				t.Errorf("got the idempotency keys %v, want one for each run", names)
			}
		})
	}
}

func TestWaitForAnIdleApp(t *testing.T) {
	t.Parallel()
	answers := shop()
	idle := strings.Replace(engagedJSON, `"revision":3`, `"revision":4,"deployed":{"at":"2026-03-14T12:00:00Z","status":"idle"}`, 1)
	answers["GET "+hello] = ok(engagedJSON, idle)
	answers["GET "+hello+"/deployments/4"] = ok(revision4)
	p := newPerson(t, newFake(t, answers).URL)
	r := p.runs("app", "update", "hello", "--image", "i:2", "--wait")
	if want := "App hello is idle: it is scaled to zero. Revision 4 rolls out when the app is scaled up."; r.exit != 0 || !strings.Contains(r.err, want) {
		t.Errorf("got %+v, want the message %q", r, want)
	}
}

func TestRollbackFromRevision(t *testing.T) {
	t.Parallel()
	const nothing = "Nothing was changed: revision 4 of hello is current, not revision 3.\n"
	moved := strings.Replace(engagedJSON, `"revision":3`, `"revision":4`, 1)
	stale := answer{http.StatusPreconditionFailed, `{"code":"precondition_failed","message":"Read it again."}`}
	tests := []struct {
		name    string
		args    string
		answers map[string][]answer
		exit    int
		err     string
		asked   bool
	}{
		{name: "from the current one", args: "--from-revision 3", asked: true},
		{name: "from an earlier one", args: "--from-revision 3", answers: map[string][]answer{"GET " + hello: ok(moved)}, err: nothing},
		{name: "another deployment is faster", args: "--from-revision 3", answers: map[string][]answer{"POST " + hello + "/rollback": {stale}}, err: nothing, asked: true},
		{name: "another deployment is faster, without the flag", answers: map[string][]answer{"POST " + hello + "/rollback": {stale}}, exit: 1, err: "error: Read it again. (precondition_failed)\n", asked: true},
		{name: "no number", args: "--from-revision 0", exit: 2, err: "error: --from-revision must be at least 1 (usage)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shopWith(tt.answers))
			r := newPerson(t, f.URL).runs(strings.Fields("app rollback hello --yes " + tt.args)...)
			if r.exit != tt.exit || r.err != tt.err {
				t.Errorf("got %swant exit %d and %s", r, tt.exit, tt.err)
			}
			if got := slices.Contains(f.requests(), "POST "+hello+"/rollback {}"); got != tt.asked {
				t.Errorf("rollback sent: got %v, want %v; requests: %q", got, tt.asked, f.requests())
			}
		})
	}
}
