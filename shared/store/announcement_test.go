package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// outbox returns the announcements to send, as "subject type", and their IDs.
func outbox(t *testing.T, s *store.Store) (lines, ids []string) {
	t.Helper()
	waiting, err := s.Announcements(t.Context(), event.Cursor{}, 1000)
	check.OK(t, err)
	for _, w := range waiting {
		lines = append(lines, w.Subject+" "+string(w.Type))
		ids = append(ids, w.ID)
	}
	return lines, ids
}

func announcedKey(t *testing.T, s *store.Store, prefix apikey.Prefix, expires time.Time) apikey.Key {
	t.Helper()
	storetest.Environment(t, s, "shop", "prod")
	_, err := s.Plan(t.Context(), "shop-prod", "plan-starter")
	if err != nil {
		storetest.Make(t, func() error {
			_, err := s.CreatePlan(t.Context(), plan.Plan{ID: "plan-starter", Namespace: "shop-prod", Name: "Starter", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: noon()})
			return err
		})
	}
	k := apikey.Key{
		Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter", Status: apikey.Active,
		Secret: apikey.Hash{1}, CreatedAt: noon(), UpdatedAt: noon(), ExpiresAt: expires,
	}
	storetest.Make(t, func() error { _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); return err })
	return k
}

func changeKey(t *testing.T, s *store.Store, k apikey.Key, change func(*apikey.Key)) {
	t.Helper()
	_, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { change(&k); return k, nil })
	check.OK(t, err)
}

// Each change is made by another process, whose clock is wrong.
func TestKeyIsAnnounced(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	var stores []*store.Store
	for _, skew := range []time.Duration{24 * time.Hour, 0, -24 * time.Hour} {
		s := storetest.Open(t, project)
		s.AnnounceEvents(true)
		s.SetClock(func() time.Time { return time.Now().Add(skew) })
		stores = append(stores, s)
	}
	k := announcedKey(t, stores[0], "aaaaaaaa", time.Time{})
	changeKey(t, stores[1], k, func(k *apikey.Key) { k.Secret = apikey.Hash{2} })
	changeKey(t, stores[2], k, func(k *apikey.Key) { k.Status = apikey.Disabled })
	changeKey(t, stores[2], k, func(k *apikey.Key) { k.Name = "ci" })
	changeKey(t, stores[2], k, func(*apikey.Key) {})
	changeKey(t, stores[1], k, func(k *apikey.Key) { k.Status = apikey.Active })
	changeKey(t, stores[2], k, func(k *apikey.Key) { k.Status = apikey.Revoked })
	lines, _ := outbox(t, stores[1])
	want := []string{
		"key-aaaaaaaa dev.sluicegate.key.created.v1", "key-aaaaaaaa dev.sluicegate.key.rotated.v1", "key-aaaaaaaa dev.sluicegate.key.disabled.v1",
		"key-aaaaaaaa dev.sluicegate.key.enabled.v1", "key-aaaaaaaa dev.sluicegate.key.revoked.v1",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
	waiting, err := stores[0].Announcements(t.Context(), event.Cursor{}, 1)
	if err != nil || len(waiting) != 1 || waiting[0].Waited < 0 || waiting[0].Waited > time.Hour {
		t.Errorf("announcements: got %+v, %v, want one that waited for at most 1 h", waiting, err)
	}
	next, err := stores[0].Announcements(t.Context(), waiting[0].Place, 1)
	if err != nil || len(next) != 1 || next[0].Type != event.KeyRotated {
		t.Errorf("after the first: got %+v, %v, want one rotation", next, err)
	}
}

func TestLeakIsAnnounced(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.AnnounceEvents(true)
	storetest.Make(t, func() error { return s.CreateProject(t.Context(), app.Project{Name: "shop"}) })
	k := announcedKey(t, s, "aaaaaaaa", time.Time{})
	for range 2 {
		if _, _, err := s.ReportLeak(t.Context(), k.ID(), apikey.Leak{Secret: k.Secret, At: noon(), By: "program:github"}); err != nil {
			t.Fatal(err)
		}
	}
	lines, _ := outbox(t, s)
	slices.Sort(lines)
	want := []string{"key-aaaaaaaa dev.sluicegate.key.created.v1", "key-aaaaaaaa dev.sluicegate.key.disabled.v1", "key-aaaaaaaa dev.sluicegate.key.leaked.v1"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}

func TestGateIsAnnounced(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	s.AnnounceEvents(true)
	for _, state := range []app.GateState{app.Pending, app.Engaged, app.Engaged, app.Pending, app.Engaged, app.Releasing, app.Ungated} {
		_, err := s.UpdateApp(t.Context(), hello(), func(a app.App) (app.App, error) {
			a.Gate = app.Gate{State: state, Since: noon(), Message: "m"}
			return a, nil
		})
		check.OK(t, err)
	}
	lines, _ := outbox(t, s)
	subject := hello().String()
	want := []string{subject + " dev.sluicegate.gate.engaged.v1", subject + " dev.sluicegate.gate.engaged.v1", subject + " dev.sluicegate.gate.released.v1"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}

func TestNothingIsAnnounced(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	k := announcedKey(t, s, "aaaaaaaa", time.Time{})
	changeKey(t, s, k, func(k *apikey.Key) { k.Status = apikey.Revoked })
	storeApp(t, s, "hello:v1")
	setStatus(t, s, 1, "live")
	if lines, _ := outbox(t, s); len(lines) != 0 {
		t.Errorf("outbox: got %v, want nothing", lines)
	}
}

// TestExpiries also covers revoked keys and keys that were created too late for an event (promise
// D13).
func TestExpiries(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.AnnounceEvents(true)
	for _, e := range event.Expiries() {
		if n, err := s.AnnounceExpiries(t.Context(), e, 2); n != 0 || err != nil {
			t.Fatalf("first call for %s: got %d, %v, want 0", e.Name, n, err)
		}
	}
	soon := time.Now().Add(500 * time.Millisecond)
	lag := 30 * time.Second
	var want []string
	for i, e := range event.Expiries() {
		for n := range 5 {
			k := announcedKey(t, s, apikey.Prefix(fmt.Sprintf("aaaaa%d%02d", i, n)), soon.Add(e.Before()-lag))
			if n == 0 {
				changeKey(t, s, k, func(k *apikey.Key) { k.Status = apikey.Revoked })
				continue
			}
			want = append(want, string(k.ID())+" "+string(e.Type))
		}
	}
	_, ids := outbox(t, s)
	for _, id := range ids {
		check.OK(t, s.Announced(t.Context(), id))
	}
	look := func() {
		t.Helper()
		for _, e := range event.Expiries() {
			for n := 2; n == 2; {
				var err error
				if n, err = s.AnnounceExpiries(t.Context(), e, 2); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var lines []string
	for deadline := time.Now().Add(30 * time.Second); len(lines) < len(want) && time.Now().Before(deadline); {
		look()
		lines, ids = outbox(t, s)
	}
	slices.Sort(want)
	slices.Sort(lines)
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		check.OK(t, s.Announced(t.Context(), id))
	}
	look()
	if lines, _ := outbox(t, s); len(lines) != 0 {
		t.Errorf("second call: got %v, want nothing", lines)
	}
}

func TestQuotaIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.AnnounceEvents(true)
	k := announcedKey(t, s, "aaaaaaaa", time.Time{})
	l := plan.Limits{Quota: 10, Period: plan.Day}
	term := usage.QuotaPeriodAt(k.Prefix, l.Period, noon())
	_, ends := term.Span()
	quotaOf := func(percent int) []store.QuotaCrossing {
		return []store.QuotaCrossing{{Term: term, Event: event.OfQuota(k, l, percent, 8, term.ID(), ends, noon())}}
	}
	made := make(chan int)
	for range 4 {
		go func() {
			made <- errorFree[int](t)(s.AnnounceQuotas(t.Context(), quotaOf(80)))
		}()
	}
	n := 0
	for range 4 {
		n += <-made
	}
	if n != 1 {
		t.Errorf("got %d announcements, want 1", n)
	}
	for _, percent := range []int{100, 80, 100} {
		if got := errorFree[int](t)(s.AnnounceQuotas(t.Context(), quotaOf(percent))); (got == 1) != (n == 1 && percent == 100) {
			t.Errorf("unexpected result at %d%%: got %d announcements", percent, got)
		}
		n++
	}
	for _, step := range []struct {
		at   time.Time
		want int
	}{{ends, 0}, {ends.Add(event.Retention + time.Second), 1}} {
		if n, err := s.DeleteThresholds(t.Context(), step.at, 10); n != step.want || err != nil {
			t.Errorf("deleted: got %d at %v, %v", n, step.at, err)
		}
	}
}

func errorFree[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(b T, err error) T {
		if err != nil {
			t.Error(err)
		}
		return b
	}
}
