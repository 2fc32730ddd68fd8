package store_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/storetest"
	"github.com/sluicegate/sluice/shared/usage"
)

// TestLease: what several processes take of one quota at the same time is what each believes
// to hold, and together never more than the quota.
func TestLease(t *testing.T) {
	t.Parallel()
	const processes, takes, quota = 4, 10, 33
	s := storetest.New(t)
	term := usage.TermOf("abcdefgh", plan.Month, time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC))
	var held [processes]int64
	var all errgroup.Group
	for i := range held {
		all.Go(func() error {
			for range takes {
				var next int64
				take := func(own, others int64) int64 {
					if own != held[i] {
						t.Errorf("process %d holds %d, %d are stored", i, held[i], own)
					}
					next = min(held[i]+1, quota-others)
					return next
				}
				err := s.Lease(t.Context(), term, fmt.Sprint("process", i), false, take)
				for problem.Is(err, problem.Conflict) { // the other processes were faster each time
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
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, n := range held {
		sum += n
	}
	if sum != quota {
		t.Errorf("%v are held, want %d together", held, quota)
	}
	if n, err := s.DeleteLeases(t.Context(), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), 10); n != 0 || err != nil {
		t.Errorf("%d deleted before the period was over, %v", n, err)
	}
	if n, err := s.DeleteLeases(t.Context(), time.Date(2026, 4, 1, 0, 0, 0, 1000, time.UTC), 10); n != 1 || err != nil {
		t.Errorf("%d deleted, want 1, %v", n, err)
	}
}

// TestDamagedLease: by a document with what no process writes nothing is leased.
func TestDamagedLease(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	term := usage.TermOf("abcdefgh", plan.Day, time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC))
	ends := time.Date(2026, 3, 18, 0, 0, 0, 0, time.UTC)
	for _, held := range []any{"much", map[string]any{"a": -1}, map[string]any{"a": "1"}, map[string]any{"a": int64(1) << 62, "b": int64(1) << 62}} {
		s.Put(t.Context(), t, "leases/"+term.ID(), map[string]any{"held": held, "ends_at": ends})
		err := s.Lease(t.Context(), term, "c", true, func(_, others int64) int64 {
			t.Errorf("%d are held by others of %v", others, held)
			return 1
		})
		if err == nil {
			t.Errorf("leased of %v", held)
		}
	}
}
