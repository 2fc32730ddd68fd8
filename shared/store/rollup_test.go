package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func raise(t *testing.T, s *store.Store, day usage.Day, allowed uint64, prefixes ...apikey.Prefix) {
	t.Helper()
	err := s.UpdateRollups(t.Context(), prefixes, func(_ apikey.Prefix, h usage.History) usage.History {
		return h.Merge(day, usage.Totals{Allowed: allowed})
	})
	check.OK(t, err)
}

func TestUpdateRollups(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	day := dayOf(t, "2028-02-29")
	raise(t, s, day, 1, "aaaaaaaa", "bbbbbbbb")
	raise(t, s, day-3, 2, "aaaaaaaa")
	got, err := s.Rollups(t.Context(), []apikey.Prefix{"bbbbbbbb", "cccccccc", "aaaaaaaa"})
	check.OK(t, err)
	one, two := usage.Totals{Allowed: 1}, usage.Totals{Allowed: 2}
	want := []usage.History{{{Day: day, Totals: one}}, nil, {{Day: day - 3, Totals: two}, {Day: day, Totals: one}}}
	check.Equal(t, "rollups", want, got)
	snap, err := raw.Doc("rollups/key-aaaaaaaa").Get(t.Context())
	check.OK(t, err)
	fields := map[string]any{"days": want[2].Pack(), "oldest": "2028-02-26", "last_seen": "2028-02-29"}
	check.Equal(t, "stored", fields, snap.Data())
	raise(t, s, day, 1, "aaaaaaaa") // an unchanged history is not written
	again, err := raw.Doc("rollups/key-aaaaaaaa").Get(t.Context())
	if err != nil || !again.UpdateTime.Equal(snap.UpdateTime) {
		t.Errorf("got a write at %s, %v, want none", again.UpdateTime, err)
	}
}

func TestOldRollups(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	raise(t, s, 20000, 1, "aaaaaaaa", "bbbbbbbb")
	raise(t, s, 20005, 1, "bbbbbbbb", "cccccccc")
	old, err := s.RollupsOlder(t.Context(), 20001, 10)
	if diff := cmp.Diff([]apikey.Prefix{"aaaaaaaa", "bbbbbbbb"}, old); diff != "" || err != nil {
		t.Errorf("older (-want +got):\n%s%v", diff, err)
	}
	err = s.UpdateRollups(t.Context(), old, func(_ apikey.Prefix, h usage.History) usage.History { return h.Since(20001) })
	check.OK(t, err)
	if old, err = s.RollupsOlder(t.Context(), 20001, 10); len(old) != 0 || err != nil {
		t.Errorf("older rollups: got %v, %v, want none", old, err)
	}
	all, err := s.RollupsOlder(t.Context(), 30000, 10)
	if diff := cmp.Diff([]apikey.Prefix{"bbbbbbbb", "cccccccc"}, all); diff != "" || err != nil {
		t.Errorf("older rollups (-want +got):\n%s%v", diff, err)
	}
}

func TestUpdateRollupsAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	prefixes := []apikey.Prefix{"aaaaaaaa", "bbbbbbbb"}
	var g errgroup.Group
	for i := range usage.Day(4) {
		g.Go(func() error {
			return s.UpdateRollups(t.Context(), prefixes, func(_ apikey.Prefix, h usage.History) usage.History {
				return h.Merge(20000+i, usage.Totals{Allowed: 1})
			})
		})
	}
	check.OK(t, g.Wait())
	got, err := s.Rollups(t.Context(), prefixes)
	check.OK(t, err)
	for i, h := range got {
		if len(h) != 4 {
			t.Errorf("%s: got %v, want four days", prefixes[i], h)
		}
	}
}

func TestDamagedRollup(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	broken := raw.Doc("rollups/key-aaaaaaaa")
	storetest.Damage(t, project, "rollups/key-aaaaaaaa", map[string]any{"oldest": "2024-10-01", "last_seen": ""})
	raise(t, s, 20000, 1, "bbbbbbbb")
	both := []apikey.Prefix{"aaaaaaaa", "bbbbbbbb"}
	var damaged *store.DamagedError
	older, err := s.RollupsOlder(t.Context(), 20001, 1)
	if diff := cmp.Diff([]apikey.Prefix{"bbbbbbbb"}, older); diff != "" || !errors.As(err, &damaged) {
		t.Errorf("older (-want +got), %v:\n%s", err, diff)
	}
	err = s.UpdateRollups(t.Context(), both, func(_ apikey.Prefix, h usage.History) usage.History {
		return h.Merge(20001, usage.Totals{Allowed: 2})
	})
	if !errors.As(err, &damaged) || len(damaged.Documents) != 1 || !strings.Contains(err.Error(), "key-aaaaaaaa") {
		t.Errorf("update: got %v, want the damaged document", err)
	}
	got, err := s.Rollups(t.Context(), both)
	if err != nil || len(got[0]) != 0 || len(got[1]) != 2 {
		t.Errorf("histories: got %v, %v, want none and two days", got, err)
	}
	if snap, err := broken.Get(t.Context()); err != nil || snap.Data()["last_seen"] != "" {
		t.Errorf("damaged rollup: got %v, %v, want no change", snap, err)
	}
}

func TestIncompleteDays(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, day := range []usage.Day{20005, 20001, 20005, 20003} {
		check.OK(t, s.MarkIncomplete(t.Context(), day, 20002))
	}
	days, err := s.IncompleteDays(t.Context())
	if diff := cmp.Diff([]usage.Day{20003, 20005}, days); diff != "" || err != nil {
		t.Errorf("days (-want +got), %v:\n%s", err, diff)
	}
}

func TestSettleDay(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if _, err := s.SettledDay(t.Context()); !problem.Is(err, problem.NotFound) {
		t.Errorf("no finalized day: got %v, want not_found", err)
	}
	for _, step := range []struct{ settle, want string }{
		{"2026-02-28", "2026-02-28"},
		{"2026-03-01", "2026-03-01"},
		{"2026-02-28", "2026-03-01"}, // the day never decreases
	} {
		check.OK(t, s.SettleDay(t.Context(), dayOf(t, step.settle)))
		if got, err := s.SettledDay(t.Context()); err != nil || got.String() != step.want {
			t.Errorf("after %s: got %s, %v", step.settle, got, err)
		}
	}
}

// The test uses a full batch of keys with requests on all 92 days.
func TestRollupsOfABusyInstallation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var prefixes []apikey.Prefix
	for i := range 200 {
		prefixes = append(prefixes, apikey.Prefix(fmt.Sprintf("%08d", i)))
	}
	err := s.UpdateRollups(t.Context(), prefixes, func(_ apikey.Prefix, h usage.History) usage.History {
		for d := range usage.Day(usage.RetentionDays) {
			h = h.Merge(20000+d, usage.Totals{Allowed: 1e12, RateDenied: 1e12, QuotaDenied: 1e12})
		}
		return h
	})
	check.OK(t, err)
	got, err := s.Rollups(t.Context(), prefixes)
	if err != nil || len(got) != 200 || len(got[199]) != usage.RetentionDays {
		t.Errorf("got %d rollups, %v, want 200 of 92 days", len(got), err)
	}
}
