package store_test

import (
	"context"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// TestKeyLimitAcrossProcesses creates keys in two processes up to the limit. Each has an old count,
// from far below the limit.
func TestKeyLimitAcrossProcesses(t *testing.T) {
	t.Parallel()
	const limit = 505 // creations count in their transaction from the sixth key on
	project := storetest.Project(t)
	processes := []*store.Store{storetest.Open(t, project), storetest.Open(t, project)}
	storePlan(t, processes[0], "shop-prod", "Starter")
	var created atomic.Int64
	create := func(n int) (some apikey.Key) {
		t.Helper()
		var creating sync.WaitGroup
		for i := range n {
			some = newKey(t)
			k, s := some, processes[i%len(processes)]
			creating.Go(func() {
				_, err := s.IssueKey(t.Context(), k, apikey.Request{}, limit)
				switch {
				case err == nil:
					created.Add(1)
				case !problem.Is(err, problem.TooManyKeys) && !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable):
					t.Error(err)
				}
			})
		}
		creating.Wait()
		return some
	}
	for _, s := range processes {
		s.SetClock(noon)
	}
	some := create(2)
	storetest.CopyKey(t, project, some.ID(), limit-10)
	created.Add(limit - 10)
	// With this limit, a creation always writes the environment's document, which invalidates the
	// old counts.
	_, err := processes[0].IssueKey(t.Context(), newKey(t), apikey.Request{}, 500)
	wantProblem(t, "first key near the limit", err, "")
	created.Add(1)
	create(16)
	for {
		_, err := processes[0].IssueKey(t.Context(), newKey(t), apikey.Request{}, limit)
		if problem.Is(err, problem.TooManyKeys) {
			break
		}
		check.OK(t, err)
		created.Add(1)
	}
	stored := 0
	for _, err := range processes[0].EachKey(t.Context(), store.KeyFilter{Project: "shop"}) {
		check.OK(t, err)
		stored++
	}
	if stored != limit || created.Load() != limit {
		t.Errorf("got %d stored and %d created keys, want %d", stored, created.Load(), limit)
	}
}

func TestOutdatedCountIsNotUsed(t *testing.T) {
	t.Parallel()
	const limit = 502 // creations count in their transaction from the third key on
	project := storetest.Project(t)
	early, late := storetest.Open(t, project), storetest.Open(t, project)
	early.SetClock(noon)
	storePlan(t, early, "shop-prod", "Starter")
	create := func(s *store.Store) (apikey.Key, error) {
		k := newKey(t)
		_, err := s.IssueKey(t.Context(), k, apikey.Request{}, limit)
		return k, err
	}
	k, err := create(early)
	wantProblem(t, "first key", err, "")
	storetest.CopyKey(t, project, k.ID(), limit-2)
	_, err = create(late)
	wantProblem(t, "last key", err, "")
	_, err = create(early)
	wantProblem(t, "one more by the other process", err, problem.TooManyKeys)
	_, _, err = early.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
	wantProblem(t, "revoke", err, "")
	_, err = create(early)
	wantProblem(t, "one more after a revocation", err, "")
	_, err = create(late)
	wantProblem(t, "one too many", err, problem.TooManyKeys)
}

type calls struct {
	mu sync.Mutex
	of map[string]int
}

func (c *calls) add(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[op]++
}

func (c *calls) reset() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.of
	c.of = map[string]int{}
	return counts
}

func (c *calls) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.add(path.Base(method))
	return call(ctx, method, req, reply, cc, opts...)
}

func (c *calls) stream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, s grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.add(path.Base(method))
	stream, err := s(ctx, d, cc, method, opts...)
	return countedStream{stream, c}, err
}

type countedStream struct {
	grpc.ClientStream
	calls *calls
}

func (s countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch r := m.(type) {
	case *pb.BatchGetDocumentsResponse:
		if err == nil && r.GetFound() != nil {
			s.calls.add("document")
		}
	case *pb.RunQueryResponse:
		if err == nil && r.GetDocument() != nil {
			s.calls.add("document")
		}
	}
	return err
}

// Only the first creation in a second counts the keys.
func TestCallsOfAKeyCreation(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	c := &calls{of: map[string]int{}}
	s, err := store.OpenCounted(t.Context(), project, c.unary, c.stream)
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	now := noon()
	s.SetClock(func() time.Time { return now })
	storePlan(t, s, "shop-prod", "Starter")
	create := func() (apikey.Key, map[string]int) {
		t.Helper()
		c.reset()
		k := newKey(t)
		_, err := s.IssueKey(t.Context(), k, apikey.Request{}, 10000)
		wantProblem(t, "create", err, "")
		return k, c.reset()
	}
	again := map[string]int{"BeginTransaction": 1, "BatchGetDocuments": 2, "document": 2, "Commit": 1}
	first := map[string]int{"BeginTransaction": 1, "BatchGetDocuments": 3, "document": 3, "Commit": 1, "RunAggregationQuery": 1}
	want := func(keys string, got, want map[string]int) {
		t.Helper()
		check.Equal(t, keys, want, got)
	}
	k, got := create()
	want("first key", got, first)
	_, got = create()
	want("second key", got, again)
	storetest.CopyKey(t, project, k.ID(), 2000)
	now = now.Add(time.Second)
	_, got = create()
	want("first of many keys", got, first)
	_, got = create()
	want("second of many keys", got, again)
}

// One listener receives the revocation; another one begins later.
func TestListenerExcludesRevokedKeys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, feed := storetest.Open(t, project), store.NewFeed(project)
	storePlan(t, s, "shop-prod", "Starter")
	good, disabled := storeKey(t, s, nil), storeKey(t, s, func(k *apikey.Key) { k.Status = apikey.Disabled })
	revoked := storeKey(t, s, nil)
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryKeys, store.Canary{Replica: "checker-0", Run: "r", Seq: 1}))
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
		t.Errorf("got keys %v, want the usable ones", heard)
	}
	first := hear(t, feed.Keys, func(store.Batch[apikey.Key]) bool { return true })
	if len(first.Changes) != 2 || len(first.Canaries) != 1 {
		t.Errorf("later listener: got %d keys and %d canaries, want 2 and 1", len(first.Changes), len(first.Canaries))
	}
}

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
		t.Errorf("got %d keys and %d plans, want one each", keys, plans)
	}
}

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
			t.Errorf("got %d deleted, %v, want %d", n, err, want)
		}
	}
	for _, k := range gone {
		if _, err := s.Key(t.Context(), k.ID()); !problem.Is(err, problem.NotFound) {
			t.Errorf("key revoked long ago: got %v, want not_found", err)
		}
	}
	for _, k := range kept {
		if _, err := s.Key(t.Context(), k.ID()); err != nil {
			t.Errorf("key %s of %s: got %v", k.Status, k.UpdatedAt, err)
		}
	}
}
