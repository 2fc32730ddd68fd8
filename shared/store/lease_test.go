package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/storetest"
)

// Each process must hold what it believes to hold, and all together at most the quota.
func TestLease(t *testing.T) {
	t.Parallel()
	const processes, takes, quota = 4, 10, 33
	s := storetest.New(t)
	term := usage.QuotaPeriodAt("abcdefgh", plan.Month, time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC))
	var held [processes]int64
	var all errgroup.Group
	for i := range held {
		all.Go(func() error {
			for range takes {
				var next int64
				take := func(own, others int64) int64 {
					if own != held[i] {
						t.Errorf("process %d: got %d, %d are stored", i, held[i], own)
					}
					next = min(held[i]+1, quota-others)
					return next
				}
				err := s.Lease(t.Context(), term, fmt.Sprint("process", i), false, take)
				for problem.Is(err, problem.Conflict) {
					err = s.Lease(t.Context(), term, fmt.Sprint("process", i), false, take)
				}
				if err != nil {
					return err
				}
				held[i] = next
			}
			return nil
		})
	}
	check.OK(t, all.Wait())
	sum := int64(0)
	for _, n := range held {
		sum += n
	}
	if sum != quota {
		t.Errorf("got %v, want a sum of %d", held, quota)
	}
	if n, err := s.DeleteLeases(t.Context(), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), 10); n != 0 || err != nil {
		t.Errorf("got %d deleted before the end of the period, %v, want 0", n, err)
	}
	if n, err := s.DeleteLeases(t.Context(), time.Date(2026, 4, 1, 0, 0, 0, 1000, time.UTC), 10); n != 1 || err != nil {
		t.Errorf("got %d deleted, want 1, %v", n, err)
	}
}

func TestDamagedLease(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	term := usage.QuotaPeriodAt("abcdefgh", plan.Day, time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC))
	ends := time.Date(2026, 3, 18, 0, 0, 0, 0, time.UTC)
	for _, held := range []any{"much", map[string]any{"a": -1}, map[string]any{"a": "1"}, map[string]any{"a": int64(1) << 62, "b": int64(1) << 62}} {
		s.Put(t.Context(), t, "leases/"+term.ID(), map[string]any{"held": held, "ends_at": ends})
		err := s.Lease(t.Context(), term, "c", true, func(_, others int64) int64 {
			t.Errorf("got %d held by others for %v, want an error", others, held)
			return 1
		})
		if err == nil {
			t.Errorf("got a lease for %v, want an error", held)
		}
	}
}

func heldBy(t *testing.T, s *store.Store, term usage.QuotaPeriod, process string) (own, others int64) {
	t.Helper()
	err := s.Lease(t.Context(), term, process, false, func(o, all int64) int64 {
		own, others = o, all
		return o
	})
	check.OK(t, err)
	return own, others
}

func hold(t *testing.T, s *store.Store, term usage.QuotaPeriod, process string, n int64) error {
	t.Helper()
	return s.Lease(t.Context(), term, process, true, func(int64, int64) int64 { return n })
}

func TestEndLeases(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	now := time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC)
	a, b, damaged, absent := usage.QuotaPeriodAt("aaaaaaaa", plan.Day, now), usage.QuotaPeriodAt("bbbbbbbb", plan.Day, now), usage.QuotaPeriodAt("cccccccc", plan.Day, now), usage.QuotaPeriodAt("dddddddd", plan.Day, now)
	for _, h := range []struct {
		term    usage.QuotaPeriod
		process string
		n       int64
	}{{a, "first", 100}, {a, "second", 50}, {b, "first", 7}} {
		check.OK(t, hold(t, s, h.term, h.process, h.n))
	}
	s.Put(t.Context(), t, "leases/"+damaged.ID(), map[string]any{"held": "much", "ends_at": now})
	for range 2 {
		rest, err := s.EndLeases(t.Context(), []usage.Ended{
			{QuotaPeriod: a, Process: "first", Spent: 30}, {QuotaPeriod: b, Process: "first", Spent: 9}, {QuotaPeriod: damaged, Process: "first"}, {QuotaPeriod: absent, Process: "first", Spent: 3},
		})
		if len(rest) != 0 || err != nil {
			t.Fatalf("got %v left, %v, want none", rest, err)
		}
		for _, want := range []struct {
			term  usage.QuotaPeriod
			ended int64
			all   int64
		}{{a, 30, 50}, {b, 7, 0}, {absent, 0, 0}} {
			if ended, others := heldBy(t, s, want.term, "ended"); ended != want.ended || others != want.all {
				t.Errorf("%s: got %d by ended processes and %d by others, want %d and %d", want.term.ID(), ended, others, want.ended, want.all)
			}
		}
	}
}

func TestEndManyLeases(t *testing.T) {
	t.Parallel()
	const patience = 15 * time.Second
	n := long.Pick(450, 10_000)
	s := storetest.New(t)
	all := make([]usage.Ended, n)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range all {
		all[i] = usage.Ended{QuotaPeriod: usage.QuotaPeriodAt(apikey.Prefix(fmt.Sprintf("key%05d", i)), plan.Month, time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC)), Process: "first", Spent: 1}
		g.Go(func() error { return hold(t, s, all[i].QuotaPeriod, "first", 100) })
	}
	check.OK(t, g.Wait())
	var commits atomic.Int64
	s.Observe(func(op, _ string, _ time.Duration, _ bool) {
		if op == "commit" {
			commits.Add(1)
		}
	})
	began := time.Now()
	rest, err := s.EndLeases(t.Context(), all)
	took, wrote := time.Since(began), commits.Load()
	if len(rest) != 0 || err != nil {
		t.Fatalf("got %d left, %v, want none", len(rest), err)
	}
	t.Logf("%d leases ended in %v, %d commits", n, took, wrote)
	if want := int64((n + 199) / 200); wrote != want || took > patience {
		t.Errorf("got %d commits in %v, want %d in at most %v", wrote, took, want, patience)
	}
	again := all[:100]
	g.Go(func() error {
		for _, e := range again[:20] {
			if err := hold(t, s, e.QuotaPeriod, "second", 5); err != nil && !problem.Is(err, problem.Conflict) {
				return err
			}
		}
		return nil
	})
	for range 3 {
		if rest, err := s.EndLeases(t.Context(), again); len(rest) != 0 || err != nil {
			t.Fatalf("got %d left, %v, want none", len(rest), err)
		}
	}
	check.OK(t, g.Wait())
	for _, e := range []usage.Ended{all[0], all[99], all[n-1]} {
		if ended, _ := heldBy(t, s, e.QuotaPeriod, "ended"); ended != 1 {
			t.Errorf("%s: got %d held, want 1", e.ID(), ended)
		}
	}
}

// Counted requests beyond those of other processes are not released.
func TestReleaseLeases(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Environment(t, s, "shop", "prod")
	now := time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC)
	long := time.Now().Add(-time.Hour)
	k := apikey.Key{Prefix: "aaaaaaaa", Project: "shop", Environment: "prod", Namespace: "shop-prod"}
	term := usage.QuotaPeriodAt(k.Prefix, plan.Month, now)
	release := func(used int64, want store.Released) {
		t.Helper()
		if got, err := s.ReleaseLeases(t.Context(), k, term, used); got != want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	release(0, store.Released{})
	s.Put(t.Context(), t, "leases/"+term.ID(), map[string]any{
		"held":    map[string]int64{"LOST": 100, "GONE": 20, "FRESH": 40, "EARLIER": 7, "ended": 300},
		"since":   map[string]any{"LOST": long, "GONE": long, "FRESH": long},
		"ends_at": now.AddDate(0, 1, 0),
	})
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryPlans, store.Canary{Replica: "checker-0", Run: "FRESH", Seq: 1}))
	release(300+47+30, store.Released{Requests: 90, Held: 47})
	if ended, others := heldBy(t, s, term, "ended"); ended != 330 || others != 47 {
		t.Errorf("got %d by ended processes and %d by others, want 330 and 47", ended, others)
	}
	release(1000, store.Released{Held: 47})
	records, _, err := s.Records(t.Context(), audit.Query{Project: "shop", Actions: []audit.Action{audit.ReleaseQuota}}, store.Page{Size: 10})
	if err != nil || len(records) != 1 || records[0].Resource != "projects/shop/api-keys/key-aaaaaaaa" {
		t.Errorf("got records %+v, %v, want one for the key", records, err)
	}
	if err := hold(t, s, term, "STARTS", 50); err != nil {
		t.Fatal(err)
	}
	release(0, store.Released{Held: 97})
}
