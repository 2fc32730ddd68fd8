package keys

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func (w *world) remembers(m *member, denials ...checkers.Denial) {
	w.Helper()
	m.key = checkers.NewQueryKey()
	asked := checkers.NewReplayGuard(m.key)
	m.denials = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = asked.VerifyQuery(body, r.Header.Get(checkers.SignatureHeader), time.Now())
		}
		if err != nil || r.Method != http.MethodPost {
			w.Errorf("query: got %v", err)
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(rw).Encode(checkers.Response{Replica: m.name, Run: m.run, Denials: denials})
	})
	w.canaries(m, time.Time{})
}

func refusedAt(second int, namespace string, prefix string, why checkers.Reason) checkers.Denial {
	return checkers.Denial{
		At: time.Date(2026, 3, 14, 12, 0, second, 0, time.UTC), Code: "invalid_key", Reason: why,
		Namespace: namespace, App: "hello", KeyPrefix: prefix, Method: "GET",
	}
}

func TestExplainRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.makePlan(bank + "/environments/prod")
	own := w.makeKey()
	w.do(http.MethodPatch, shop+"/api-keys/"+own.ID, `{"name":"Checkout"}`).Into(http.StatusOK, &own)
	gone := w.makeKey()
	w.do(http.MethodPost, shop+"/api-keys/"+gone.ID+"/revoke", "").Into(http.StatusOK, &gone)
	var foreign wire.IssuedKey
	w.as("bob", http.MethodPost, bank+"/environments/prod/api-keys", aKey).Into(http.StatusCreated, &foreign)
	all := w.join(atOnce, atOnce)
	w.remembers(all[0],
		refusedAt(8, "shop-prod", own.Prefix, "expired"), refusedAt(6, "bank-prod", own.Prefix, "expired"), refusedAt(4, "", "", "bad_address"),
		refusedAt(2, "shop-prod", foreign.Prefix, "wrong_secret"))
	w.remembers(all[1],
		refusedAt(7, "shop-staging", gone.Prefix, "unknown"), refusedAt(3, "shop-prod", foreign.Prefix, "wrong_environment"),
		refusedAt(1, "shop-prod", "zzzzzzzz", "unknown"), refusedAt(0, "shop-prod", "../%00é", "malformed"))
	got := read[wire.ExplainedRequest](w.do(http.MethodGet, shop+"/requests/r-1", ""), http.StatusOK)
	show := func(second int, environment, replica, reason string, key *wire.Key) wire.Denial {
		d := wire.Denial{
			At: time.Date(2026, 3, 14, 12, 0, second, 0, time.UTC), Code: "invalid_key", Reason: reason, Explanation: checkers.Reason(reason).Text(),
			Environment: environment, App: "hello", Method: "GET", Replica: replica,
		}
		if key != nil {
			d.KeyID, d.KeyPrefix, d.KeyName = &key.ID, &key.Prefix, wire.Text(key.Name)
		}
		return d
	}
	want := wire.ExplainedRequest{RequestID: "r-1", Asked: 2, Answered: 2, Denials: []wire.Denial{
		show(8, "prod", "a", "expired", &own.Key), show(7, "staging", "b", "revoked", &gone.Key), show(3, "prod", "b", "wrong_environment", nil),
		show(2, "prod", "a", "unknown", nil), show(1, "prod", "b", "unknown", nil), show(0, "prod", "b", "malformed", nil),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	theirs := read[wire.ExplainedRequest](w.as("bob", http.MethodGet, bank+"/requests/r-1", ""), http.StatusOK)
	if len(theirs.Denials) != 1 || theirs.Denials[0].KeyID != nil || theirs.Denials[0].KeyPrefix != nil || theirs.Denials[0].KeyName != "" {
		t.Errorf("other project: got %+v", theirs)
	}
	records, _, err := w.store.Records(t.Context(), audit.Query{Project: "shop", Actions: []audit.Action{audit.ExplainRequest}}, store.Page{Size: 10})
	if err != nil || len(records) != 1 || records[0].Resource != "projects/shop/requests/r-1" || records[0].New != nil {
		t.Errorf("got records %+v, error %v", records, err)
	}
}

func TestExplainListsRespondingCheckers(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world, m *member){
		"an earlier release": func(w *world, m *member) { m.key = checkers.QueryKey{}; w.canaries(m, time.Time{}) },
		"another process":    func(w *world, m *member) { m.run = "next" },
		"the key of another": func(w *world, m *member) {
			m.denials = http.HandlerFunc(forbid)
			m.key = checkers.NewQueryKey()
			w.canaries(m, time.Time{})
		},
		"gone":    func(_ *world, m *member) { m.Close() },
		"no JSON": func(_ *world, m *member) { m.denials = http.HandlerFunc(http.NotFound) },
		"more than is read": func(w *world, m *member) {
			w.remembers(m, refusedAt(1, strings.Repeat("x", checkers.MaxResponse), "", "rate"))
		},
		"a server that is not": func(w *world, _ *member) { w.service.checkers.client.CheckerURL = "https://sluice.example.org" },
		"nobody vouches":       func(w *world, _ *member) { w.service.checkers.client.CheckerCAFile = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := w.join(atOnce)
			w.remembers(all[0], refusedAt(1, "shop-prod", "", "missing"))
			spoil(w, all[0])
			got := read[wire.ExplainedRequest](w.do(http.MethodGet, shop+"/requests/r-1", ""), http.StatusOK)
			if diff := cmp.Diff(wire.ExplainedRequest{RequestID: "r-1", Asked: 1, Denials: []wire.Denial{}}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func forbid(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

func TestExplainAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"a%20b", "%00", strings.Repeat("a", 65), "a.b", "%C3%A9", "%3Cb%3E"} {
		w.do(http.MethodGet, shop+"/requests/"+id, "").Refused(http.StatusBadRequest, problem.InvalidParameter)
	}
	w.as("vera", http.MethodGet, shop+"/requests/r-1", "").Refused(http.StatusForbidden, problem.Forbidden)
	w.as("bob", http.MethodGet, shop+"/requests/r-1", "").Refused(http.StatusForbidden, problem.Forbidden)
	w.as("", http.MethodGet, shop+"/requests/r-1", "").Refused(http.StatusUnauthorized, problem.Unauthenticated)
	if got := read[wire.ExplainedRequest](w.as("olga", http.MethodGet, shop+"/requests/r-1", ""), http.StatusOK); got.Asked != 0 || got.Denials == nil {
		t.Errorf("got %+v", got)
	}
	for range maxExplains {
		w.service.checkers.asks <- struct{}{}
	}
	w.do(http.MethodGet, shop+"/requests/r-1", "").Refused(http.StatusServiceUnavailable, problem.Unavailable)
}

func TestExplainsOfACaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func() answer { return w.do(http.MethodGet, shop+"/requests/r-1", "") }
	w.do(http.MethodGet, shop+"/requests/a.b", "").Refused(http.StatusBadRequest, problem.InvalidParameter)
	for range explainBurst {
		read[wire.ExplainedRequest](ask(), http.StatusOK)
	}
	refused := ask()
	refused.Refused(http.StatusTooManyRequests, problem.RateLimited)
	if refused.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: got %q", refused.Header.Get("Retry-After"))
	}
	w.clock.Advance(explainEvery)
	read[wire.ExplainedRequest](ask(), http.StatusOK)
	ask().Refused(http.StatusTooManyRequests, problem.RateLimited)
	records, _, err := w.store.Records(t.Context(), audit.Query{Project: "shop", Actions: []audit.Action{audit.ExplainRequest}}, store.Page{Size: 100})
	if err != nil || len(records) != explainBurst+1 {
		t.Errorf("got %d records, error %v", len(records), err)
	}
}

func TestCallersHaveSeparateLimits(t *testing.T) {
	t.Parallel()
	now, c := time.Now(), newCallerLimiter(explainBurst, explainEvery, "questions")
	named := func(id string) identity.Caller {
		return identity.Caller{Username: "token:nightly", Grant: identity.Grant{Token: servicetoken.ID(id), Name: "nightly", Project: "p" + id}}
	}
	for range explainBurst {
		check.OK(t, c.take(named("0"), now))
	}
	if err := c.take(named("0"), now); !problem.Is(err, problem.RateLimited) {
		t.Errorf("one more call: got %v", err)
	}
	kept := 0
	for i := range 20 {
		for _, other := range []identity.Caller{named(strconv.Itoa(i + 1)), {Username: "u" + strconv.Itoa(i)}} {
			if err := c.take(other, now); err != nil {
				kept++
			}
		}
	}
	if kept > 5 {
		t.Errorf("other callers rejected: got %d", kept)
	}
}

func TestForeignKeysAreNotProbed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(bank + "/environments/prod")
	var foreign wire.IssuedKey
	w.as("bob", http.MethodPost, bank+"/environments/prod/api-keys", aKey).Into(http.StatusCreated, &foreign)
	project, err := w.store.Project(t.Context(), "shop")
	check.OK(t, err)
	there, err := w.service.wireDenial(t.Context(), project, replicaDenial{refusedAt(1, "shop-prod", foreign.Prefix, checkers.WrongSecret), "a"})
	check.OK(t, err)
	nobodys, err := w.service.wireDenial(t.Context(), project, replicaDenial{refusedAt(1, "shop-prod", "zzzzzzzz", checkers.Unknown), "a"})
	if diff := cmp.Diff(nobodys, there); diff != "" || err != nil {
		t.Errorf("got error %v, diff:\n%s", err, diff)
	}
}
