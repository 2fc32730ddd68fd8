package keys

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/counted"
	"github.com/sluicegate/sluice/shared/wire"
)

// see puts traffic of a key on a day into its rollup.
func (w *world) see(k wire.IssuedKey, day string) {
	w.Helper()
	d, err := usage.ParseDay(day)
	if err != nil {
		w.Fatal(err)
	}
	err = w.store.UpdateRollups(w.Context(), []apikey.Prefix{apikey.Prefix(k.Prefix)}, func(_ apikey.Prefix, h usage.History) usage.History {
		return h.Raise(d, usage.Totals{QuotaDenied: 1})
	})
	if err != nil {
		w.Fatal(err)
	}
}

// Every answer that shows a key shows when it was last seen. Today is 2026-03-14.
func TestLastSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	never, today, once, past := w.makeKey(), w.makeKey(), w.makeKey(), w.makeKey()
	w.see(today, "2026-03-01")
	w.see(today, "2026-03-14")
	w.see(today, "2026-03-15") // a checker's clock is ahead
	w.see(once, "2025-12-13")  // the earliest kept day
	w.see(past, "2025-12-12")
	day := func(s string) *string { return &s }
	want := map[string]*string{never.ID: nil, today.ID: day("2026-03-14"), once.ID: day("2025-12-13"), past.ID: nil}
	got := map[string]*string{}
	for _, path := range []string{prod + "/api-keys", shop + "/api-keys?page_size=4"} {
		for _, k := range read[wire.List[wire.Key]](w.do(http.MethodGet, path, ""), http.StatusOK).Items {
			got[k.ID] = k.LastSeen
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	at := shop + "/api-keys/" + today.ID
	for name, k := range map[string]wire.Key{
		"read":    w.do(http.MethodGet, at, "").key(),
		"changed": w.do(http.MethodPatch, at, `{"name":"n"}`).key(),
		"rotated": w.do(http.MethodPost, at+"/rotate", "").issued(http.StatusOK).Key,
		"revoked": w.do(http.MethodPost, at+"/revoke", "").key(),
	} {
		if diff := cmp.Diff(day("2026-03-14"), k.LastSeen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// noUsage cannot be read.
type noUsage struct{ Store }

func (noUsage) Rollups(context.Context, []apikey.Prefix) ([]usage.History, error) {
	return nil, problem.Of(problem.Unavailable).Because(errors.New("injected"))
}

// A change that was made is answered, and a new secret shown, also when it cannot
// be read what was counted.
func TestChangesWithoutUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	k := w.makeKey()
	w.service.counted = counted.NewReader(noUsage{w.store}, counted.Recent{})
	at := shop + "/api-keys/" + k.ID
	w.do(http.MethodGet, at, "").refused(http.StatusServiceUnavailable, problem.Unavailable)
	w.do(http.MethodGet, shop+"/api-keys", "").refused(http.StatusServiceUnavailable, problem.Unavailable)
	if got := w.do(http.MethodPost, at+"/rotate", "").issued(http.StatusOK); got.FullKey == "" {
		t.Error("the new secret is lost")
	}
	if got := w.do(http.MethodPost, at+"/revoke", "").key(); got.Status != "revoked" {
		t.Errorf("status %s", got.Status)
	}
}
