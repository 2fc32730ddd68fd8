package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

// Two processes that create keys at once do not pass the limit together.
func TestKeyLimitAcrossProcesses(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	processes := []*store.Store{storetest.Open(t, project), storetest.Open(t, project)}
	storePlan(t, processes[0], "shop-prod", "Starter")
	const most = 6
	var created atomic.Int64
	var creating sync.WaitGroup
	for i := range 12 {
		k := newKey(t)
		creating.Go(func() {
			_, err := processes[i%2].IssueKey(t.Context(), k, apikey.Request{}, most)
			switch {
			case err == nil:
				created.Add(1)
			case !problem.Is(err, problem.TooManyKeys) && !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable):
				t.Error(err)
			}
		})
	}
	creating.Wait()
	for { // what lost its race may be asked for again
		_, err := processes[0].IssueKey(t.Context(), newKey(t), apikey.Request{}, most)
		if problem.Is(err, problem.TooManyKeys) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		created.Add(1)
	}
	keys, _, err := processes[0].Keys(t.Context(), store.KeyFilter{Project: "shop"}, store.Page{Size: 50})
	if err != nil || len(keys) != most || created.Load() != most {
		t.Errorf("%d keys are stored and %d were created, %d may be (%v)", len(keys), created.Load(), most, err)
	}
}

// A revoked key is not heard of any more, by a listener that hears its revocation and by
// one that begins later.
func TestRevokedKeysAreNotHeard(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, feed := storetest.Open(t, project), store.NewFeed(project)
	storePlan(t, s, "shop-prod", "Starter")
	good, disabled := storeKey(t, s, nil), storeKey(t, s, func(k *apikey.Key) { k.Status = apikey.Disabled })
	revoked := storeKey(t, s, nil)
	if err := s.WriteCanary(t.Context(), store.CanaryKeys, store.Canary{Replica: "checker-0", Run: "r", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	heard := map[string]bool{}
	var revoking sync.Once
	hear(t, feed.Keys, func(b store.Batch[apikey.Key]) bool {
		if b.Reset {
			clear(heard)
		}
		for _, c := range b.Changes {
			heard[c.ID] = !c.Gone
		}
		if !heard[string(revoked.ID())] {
			return true
		}
		revoking.Do(func() {
			go func() {
				_, _, err := s.ReissueKey(t.Context(), revoked.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
				if err != nil {
					t.Error(err)
				}
			}()
		})
		return false
	})
	if !heard[string(good.ID())] || !heard[string(disabled.ID())] {
		t.Errorf("heard %v", heard)
	}
	first := hear(t, feed.Keys, func(store.Batch[apikey.Key]) bool { return true })
	if len(first.Changes) != 2 || len(first.Canaries) != 1 {
		t.Errorf("a listener that begins later hears %d keys and %d canaries", len(first.Changes), len(first.Canaries))
	}
}

// Documents that Sluice did not write are told apart from its own, by a listener and by
// who sums up counters.
func TestForeignDocuments(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, feed := storetest.Open(t, project), store.NewFeed(project)
	storePlan(t, s, "shop-prod", "Starter")
	k := storeKey(t, s, nil)
	s.Copy(t.Context(), t, "keys/"+string(k.ID()), "keys/backup")
	s.Copy(t.Context(), t, "keys/"+string(k.ID()), "keys/key-00000000")
	s.Copy(t.Context(), t, "plans/shop-prod.plan-starter", "plans/notes")
	s.Copy(t.Context(), t, "keys/"+string(k.ID()), "counters/notes")
	readable := func(gone bool) int {
		if gone {
			return 0
		}
		return 1
	}
	keys, plans := 0, 0
	for _, c := range hear(t, feed.Keys, func(b store.Batch[apikey.Key]) bool { return len(b.Changes) == 3 }).Changes {
		keys += readable(c.Gone)
	}
	for _, c := range hear(t, feed.Plans, func(b store.Batch[plan.Plan]) bool { return len(b.Changes) == 2 }).Changes {
		plans += readable(c.Gone)
	}
	if keys != 1 || plans != 1 {
		t.Errorf("%d keys and %d plans can be read, want one of each", keys, plans)
	}
}

// Keys are deleted once they have been revoked for long enough; others never are.
func TestDeleteRevokedKeys(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storePlan(t, s, "shop-prod", "Starter")
	at := func(status apikey.Status, changed time.Time) apikey.Key {
		return storeKey(t, s, func(k *apikey.Key) { k.Status, k.UpdatedAt, k.ExpiresAt = status, changed, noon() })
	}
	old := noon().Add(-time.Hour)
	gone := []apikey.Key{at(apikey.Revoked, old), at(apikey.Revoked, old)}
	kept := []apikey.Key{at(apikey.Active, old), at(apikey.Disabled, old), at(apikey.Revoked, noon())}
	for _, want := range []int{1, 1, 0} {
		if n, err := s.DeleteRevokedKeys(t.Context(), noon(), 1); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	for _, k := range gone {
		if _, err := s.Key(t.Context(), k.ID()); !problem.Is(err, problem.NotFound) {
			t.Errorf("a key revoked long ago: %v", err)
		}
	}
	for _, k := range kept {
		if _, err := s.Key(t.Context(), k.ID()); err != nil {
			t.Errorf("%s, %s: %v", k.Status, k.UpdatedAt, err)
		}
	}
}
