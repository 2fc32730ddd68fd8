package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func (w *world) see(k wire.IssuedKey, day string) {
	w.Helper()
	d, err := usage.ParseDay(day)
	check.OK(w, err)
	err = w.store.UpdateRollups(w.Context(), []apikey.Prefix{apikey.Prefix(k.Prefix)}, func(_ apikey.Prefix, h usage.History) usage.History {
		return h.Merge(d, usage.Totals{QuotaDenied: 1})
	})
	check.OK(w, err)
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	never, today, once, past := w.makeKey(), w.makeKey(), w.makeKey(), w.makeKey()
	w.see(today, "2026-03-01")
	w.see(today, "2026-03-14")
	w.see(today, "2026-03-15") // a checker with a fast clock
	w.see(once, "2025-12-13")  // the earliest stored day
	w.see(past, "2025-12-12")
	day := func(s string) *string { return &s }
	want := map[string]*string{never.ID: nil, today.ID: day("2026-03-14"), once.ID: day("2025-12-13"), past.ID: nil}
	got := map[string]*string{}
	for _, path := range []string{prod + "/api-keys", shop + "/api-keys?page_size=4"} {
		for _, k := range read[wire.List[wire.Key]](w.do(http.MethodGet, path, ""), http.StatusOK).Items {
			got[k.ID] = k.LastSeen
		}
		check.Equal(t, path, want, got)
	}
	at := shop + "/api-keys/" + today.ID
	for name, k := range map[string]wire.Key{
		"read":    w.do(http.MethodGet, at, "").key(),
		"changed": w.do(http.MethodPatch, at, `{"name":"n"}`).key(),
		"rotated": w.do(http.MethodPost, at+"/rotate", "").issued(http.StatusOK).Key,
		"revoked": w.do(http.MethodPost, at+"/revoke", "").key(),
	} {
		check.Equal(t, name, day("2026-03-14"), k.LastSeen)
	}
}

type noUsage struct{ Store }

func (noUsage) Rollups(context.Context, []apikey.Prefix) ([]usage.History, error) {
	return nil, problem.FromCode(problem.Unavailable).WithCause(errors.New("injected"))
}

func TestChangesWithoutUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	k := w.makeKey()
	w.service.counted = usagequery.NewReader(noUsage{w.store}, nil, usagequery.Recent{})
	at := shop + "/api-keys/" + k.ID
	w.do(http.MethodGet, at, "").Refused(http.StatusServiceUnavailable, problem.Unavailable)
	w.do(http.MethodGet, shop+"/api-keys", "").Refused(http.StatusServiceUnavailable, problem.Unavailable)
	if got := w.do(http.MethodPost, at+"/rotate", "").issued(http.StatusOK); got.FullKey == "" {
		t.Error("got no new secret")
	}
	if got := w.do(http.MethodPost, at+"/revoke", "").key(); got.Status != "revoked" {
		t.Errorf("status: got %s", got.Status)
	}
}

// serveUsage makes a checker return counts in memory, and the service wait for them. Each query must
// be for the prefixes.
func (w *world) serveUsage(m *member, asOf time.Time, prefixes []string, counts ...usage.Held) {
	w.Helper()
	w.service.counted = usagequery.NewReader(w.store, &usagequery.Checkers{
		Client: w.service.checkers.client, Members: w.store.Members, Log: w.service.log, Patience: time.Minute,
	}, usagequery.Recent{})
	m.key = checkers.NewQueryKey()
	taken := checkers.NewReplayGuard(m.key)
	m.usage = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := taken.VerifyQuery(body, r.Header.Get(checkers.SignatureHeader), time.Now())
		if slices.Sort(q.Prefixes); err != nil || !slices.Equal(q.Prefixes, prefixes) {
			w.Errorf("query %s: got %v", body, err)
		}
		_ = json.NewEncoder(rw).Encode(usage.Memory{Run: m.run, At: asOf, Counts: counts})
	})
	m.features = checkers.Features()
	w.canaries(m, time.Time{})
}

func TestUsageInMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	k := w.makeKey()
	stored := usage.Counter{Day: usage.DayOf(w.clock.Now()), Source: "run-1", Counts: usage.Packed(nil).Pack(apikey.Prefix(k.Prefix), usage.Totals{Allowed: 2})}
	if _, err := w.store.WriteCounter(t.Context(), stored, store.CounterVersion{}); err != nil {
		t.Fatal(err)
	}
	asOf := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	members := w.join(atOnce, atOnce, atOnce)
	for i, held := range []uint64{5, 1} {
		w.serveUsage(members[i], asOf.Add(time.Duration(i)*time.Second), []string{k.Prefix},
			usage.Held{Prefix: k.Prefix, Source: fmt.Sprintf("run-%d", i+1), Day: "2026-03-14", Allowed: held},
			usage.Held{Prefix: k.Prefix, Source: fmt.Sprintf("run-%d", i+1), Day: "2026-03-11", Allowed: 100}, // finalized
		)
	}
	earlier := members[2]
	earlier.key = checkers.NewQueryKey()
	earlier.usage = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("got a query to a checker of an earlier release") })
	w.canaries(earlier, time.Time{})
	got := w.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key()
	if today := got.Usage.Week[6]; today.Allowed != 6 || got.LastSeen == nil || *got.LastSeen != "2026-03-14" || !got.Usage.AsOf.Equal(asOf) {
		t.Errorf("today: got %+v, last seen %v, as of %s", today, got.LastSeen, got.Usage.AsOf)
	}
	if old := got.Usage.Week[3]; old.Allowed != 0 {
		t.Errorf("finalized day: got %+v", old)
	}
}
