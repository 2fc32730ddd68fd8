package keys

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

type member struct {
	*httptest.Server

	name, run string
	word      func(ctx context.Context, c checkers.Change) checkers.Ack
	denials   http.Handler // handler of queries; nil for none
	usage     http.Handler // handler of usage queries; nil for none
	key       checkers.QueryKey
	features  []checkers.Feature
}

func atOnce(_ context.Context, c checkers.Change) checkers.Ack {
	return checkers.Ack{Keys: c.Keys, Plans: c.Plans}
}

func never(ctx context.Context, _ checkers.Change) checkers.Ack {
	<-ctx.Done()
	return checkers.Ack{}
}

func (w *world) join(words ...func(ctx context.Context, c checkers.Change) checkers.Ack) []*member {
	w.Helper()
	var all []*member
	for i, word := range words {
		m := &member{name: string(rune('a' + i)), run: "run", word: word}
		m.Server = httptest.NewTLSServer(http.HandlerFunc(m.answer))
		w.Cleanup(m.Close)
		w.canaries(m, time.Time{})
		all = append(all, m)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: all[0].Certificate().Raw})
	file := filepath.Join(w.TempDir(), "ca.crt")
	check.OK(w, os.WriteFile(file, certificate, 0o600))
	w.service.checkers.client.CheckerCAFile, w.service.checkers.client.CheckerURL = file, "https://example.com:8443"
	return all
}

func (m *member) answer(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == checkers.QueryPath && m.denials != nil {
		m.denials.ServeHTTP(rw, r)
		return
	}
	if r.URL.Path == usage.MemoryPath && m.usage != nil {
		m.usage.ServeHTTP(rw, r)
		return
	}
	c, err := checkers.ParseChange(r.URL.RawQuery)
	if err != nil || r.URL.Path != checkers.AckPath {
		http.Error(rw, "malformed query", http.StatusBadRequest)
		return
	}
	word := m.word(r.Context(), c)
	word.Replica, word.Run = m.name, m.run
	_ = json.NewEncoder(rw).Encode(word)
}

func (w *world) canaries(m *member, applied time.Time) {
	w.Helper()
	u, err := url.Parse(m.URL)
	check.OK(w, err)
	for _, t := range store.CanaryTypes() {
		c := store.Canary{Replica: m.name, Run: m.run, Seq: 1, Applied: applied, Ceiling: 90 * time.Second, Address: u.Host, Key: m.key, Features: m.features}
		check.OK(w, w.store.WriteCanary(w.Context(), t, c))
	}
}

func (w *world) preferring(method, path, body, prefer string) (a answer, change string) {
	w.Helper()
	a = w.send("ada", method, path, body, http.Header{api.Prefer: {prefer}})
	return a, a.Header.Get(api.ChangeID)
}

func TestInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.join(atOnce, atOnce)
	id := w.makeKey().ID
	key := shop + "/api-keys/" + id
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, prod + "/plans", `{"name":"New","rate":1,"burst":1}`, http.StatusCreated},
		{http.MethodPatch, prod + "/plans/plan-starter", `{"rate":99}`, http.StatusOK},
		{http.MethodPost, prod + "/api-keys", aKey, http.StatusCreated},
		{http.MethodPatch, key, `{"plan":"plan-new"}`, http.StatusOK},
		{http.MethodPatch, key, `{"status":"disabled"}`, http.StatusOK},
		{http.MethodPatch, key, `{"status":"active"}`, http.StatusOK},
		{http.MethodPost, key + "/rotate", ``, http.StatusOK},
		{http.MethodPost, prod + "/api-keys/bulk", `{"keys":["key-unknown0","` + id + `"],"change":{"plan":"plan-starter"}}`, http.StatusOK},
		{http.MethodPost, key + "/revoke", ``, http.StatusOK},
	} {
		a, change := w.preferring(c.method, c.path, c.body, "wait=10")
		f := read[wire.Effect](a, c.status).InForce
		if f == nil || !f.Everywhere || f.At == nil || f.Change != change || change == "" || len(f.Replicas) != 2 {
			t.Errorf("%s: got %s", a.Call.Path, a.Body)
			continue
		}
		for _, r := range f.Replicas {
			if r.State != string(checkers.Applied) || r.AfterMS == nil || r.DeniesFrom != nil {
				t.Errorf("%s: got %s", a.Call.Path, a.Body)
			}
		}
		later := read[wire.InForce](w.as("vera", http.MethodGet, shop+"/changes/"+change, ""), http.StatusOK)
		if !later.Everywhere || later.Change != change || len(later.Replicas) != 2 || later.Replicas[0].AfterMS != nil {
			t.Errorf("%s, later: got %+v", a.Call.Path, later)
		}
	}
	again, change := w.preferring(http.MethodPost, key+"/revoke", "", "wait=10")
	if f := read[wire.Effect](again, http.StatusOK).InForce; f == nil || !f.Everywhere || change != "" {
		t.Errorf("second revocation: got %s", again.Body)
	}
}

func TestNotInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	all := w.join(atOnce, never)
	key := shop + "/api-keys/" + w.makeKey().ID
	before := time.Now()
	a, change := w.preferring(http.MethodPost, key+"/revoke", "", "wait=1")
	f := read[wire.Effect](a, http.StatusAccepted).InForce
	if took := time.Since(before); took < time.Second {
		t.Errorf("wait: got %s", took)
	}
	if f == nil || f.Everywhere || f.At != nil || len(f.Replicas) != 2 || f.Replicas[0].State != "applied" || f.Replicas[1].State != "silent" {
		t.Fatalf("response: got %s", a.Body)
	}
	denies := f.Replicas[1].DeniesFrom
	if denies == nil || denies.Before(before.Add(80*time.Second)) || denies.After(time.Now().Add(91*time.Second)) {
		t.Errorf("denies_from: got %v", denies)
	}
	if got := w.do(http.MethodGet, key, "").key(); got.Status != "revoked" {
		t.Errorf("status: got %s", got.Status)
	}
	read[wire.InForce](w.do(http.MethodGet, shop+"/changes/"+change, ""), http.StatusAccepted)

	// The next canary acknowledges the change; the checker still does not respond.
	w.canaries(all[1], time.Now().Add(time.Minute))
	read[wire.InForce](w.do(http.MethodGet, shop+"/changes/"+change, ""), http.StatusOK)
}

type early struct{ Store }

func (e early) Members(ctx context.Context, t store.CanaryType) (checkers.List, error) {
	list, err := e.Store.Members(ctx, t)
	return checkers.List{Read: list.Read.Add(-time.Minute)}, err
}

func TestListReadTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.join(atOnce)
	w.service.checkers.store = early{w.store}
	key := shop + "/api-keys/" + w.makeKey().ID
	a, _ := w.preferring(http.MethodPost, key+"/revoke", "", "wait=1")
	if f := read[wire.Effect](a, http.StatusAccepted).InForce; f == nil || f.Everywhere {
		t.Errorf("response: got %s", a.Body)
	}
	a, _ = w.preferring(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter"}`, "wait=1")
	if k := read[wire.IssuedKey](a, http.StatusCreated); k.InForce == nil || k.InForce.Everywhere || k.FullKey == "" {
		t.Errorf("response: got %s", a.Body)
	}
}

func TestWaitEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ending := make(chan struct{})
	w.service.checkers.ending = ending
	w.makePlan(prod)
	asked := make(chan struct{}, 10)
	w.join(atOnce, func(ctx context.Context, c checkers.Change) checkers.Ack {
		asked <- struct{}{}
		return never(ctx, c)
	})
	key := shop + "/api-keys/" + w.makeKey().ID
	var ended time.Time
	go func() {
		<-asked
		ended = time.Now()
		close(ending)
	}()
	a, _ := w.preferring(http.MethodPost, key+"/revoke", "", "wait=30")
	f := read[wire.Effect](a, http.StatusAccepted).InForce
	if took := time.Since(ended); took > 5*time.Second || f == nil || f.Everywhere || len(f.Replicas) != 2 || f.Replicas[1].State != "silent" {
		t.Errorf("after %s: got %s", took, a.Body)
	}
	begun := time.Now()
	a, _ = w.preferring(http.MethodPatch, prod+"/plans/plan-starter", `{"rate":3}`, "wait=30")
	f = read[wire.Effect](a, http.StatusAccepted).InForce
	if took := time.Since(begun); took > 5*time.Second || f == nil || len(f.Replicas) != 2 {
		t.Errorf("after %s: got %s", took, a.Body)
	}
	if n := len(w.service.checkers.slots); n != 0 {
		t.Errorf("used slots: got %d, want 0", n)
	}
}

func TestTrustedLeakReporters(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world, m *member){
		"another process":    func(_ *world, m *member) { m.run = "next" },
		"another one's name": func(_ *world, m *member) { m.name = "z" },
		"another authority": func(w *world, _ *member) {
			check.OK(w, os.WriteFile(w.service.checkers.client.CheckerCAFile, nil, 0o600))
		},
		"another host":   func(w *world, _ *member) { w.service.checkers.client.CheckerURL = "https://sluice.example.org" },
		"gone":           func(_ *world, m *member) { m.Close() },
		"nobody vouches": func(w *world, _ *member) { w.service.checkers.client.CheckerCAFile = "" },
		"a future that the store has not seen": func(_ *world, m *member) {
			m.word = func(context.Context, checkers.Change) checkers.Ack { return checkers.Ack{Keys: time.Unix(1, 0)} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.makePlan(prod)
			key := shop + "/api-keys/" + w.makeKey().ID
			spoil(w, w.join(atOnce)[0])
			a, _ := w.preferring(http.MethodPost, key+"/revoke", "", "wait=1")
			if f := read[wire.Effect](a, http.StatusAccepted).InForce; f == nil || f.Everywhere || len(f.Replicas) != 1 || f.Replicas[0].State != "silent" {
				t.Errorf("response: got %s", a.Body)
			}
		})
	}
}

func TestCallsWithoutWaitReturnImmediately(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	var asked atomic.Int64
	w.join(func(ctx context.Context, c checkers.Change) checkers.Ack { asked.Add(1); return atOnce(ctx, c) })
	key := shop + "/api-keys/" + w.makeKey().ID
	for _, prefer := range []string{"", "wait", "wait=0", "wait=-5", "wait=soon", "wait=1e9", "respond-async", strings.Repeat("x", 5000)} {
		a, _ := w.preferring(http.MethodPatch, key, `{"name":"`+strings.Repeat("n", len(prefer)%9+1)+`"}`, prefer)
		if !strings.Contains(string(a.Body), `"in_force":null`) || a.Status != http.StatusOK {
			t.Errorf("%.20q: got %d %s", prefer, a.Status, a.Body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("queries: got %d, want 0", n)
	}
}

func TestChangesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.makePlan(bank + "/environments/prod")
	_, change := w.preferring(http.MethodPatch, prod+"/plans/plan-starter", `{"rate":5}`, "wait=1")
	w.as("vera", http.MethodGet, shop+"/changes/"+change, "").Into(http.StatusOK, &wire.InForce{})
	w.as("bob", http.MethodGet, bank+"/changes/"+change, "").Refused(http.StatusNotFound, problem.NotFound)
	w.as("bob", http.MethodGet, shop+"/changes/"+change, "").Refused(http.StatusForbidden, problem.Forbidden)
	w.as("", http.MethodGet, shop+"/changes/"+change, "").Refused(http.StatusUnauthorized, problem.Unauthenticated)
	for _, id := range []string{"x", "%00", "..%2f" + change, change + "x", change[:len(change)-1], strings.ToUpper(change), strings.Repeat("a", 3000), "__x__"} {
		w.do(http.MethodGet, shop+"/changes/"+id, "").Refused(http.StatusNotFound, problem.NotFound)
	}
	members, _, err := w.store.Records(t.Context(), audit.Query{Project: "shop"}, store.Page{Size: 10})
	if err != nil || len(members) < 3 {
		t.Fatalf("got %d records, error %v", len(members), err)
	}
	for _, r := range members {
		if !strings.HasPrefix(string(r.Action), "plan.") && !strings.HasPrefix(string(r.Action), "key.") {
			w.do(http.MethodGet, shop+"/changes/"+r.ID, "").Refused(http.StatusNotFound, problem.NotFound)
		}
	}
}
