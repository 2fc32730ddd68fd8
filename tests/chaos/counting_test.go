package chaos

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// flushInterval is the replicas' default.
const flushInterval = 2 * time.Second

// writeTime is what a flush itself may take here.
const writeTime = 2 * time.Second

const loadConnections = 32

// size returns the number of requests of a load, and of the keys that they use.
func size() (requests, keys int) { return long.Pick(6_000, 20_000), long.Pick(60, 200) }

// counted is a site with keys of every kind: plain ones, ones that run into
// their rate, ones that run into their quota.
func counted(t *testing.T) (*stacktest.Site, []stacktest.Key) {
	t.Helper()
	s := stacktest.New(t, world)
	s.App("hello")
	rate, burst, quota, period := 0.01, int64(40), int64(30), "month"
	plans := []wire.Plan{
		s.Plan(wire.CreatePlan{}),
		s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}),
		s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}),
	}
	var keys []stacktest.Key
	_, number := size()
	for i := range number {
		keys = append(keys, s.Key(plans[i%len(plans)]))
	}
	s.Opens("hello", keys[len(keys)-1])
	return s, keys
}

func load(t *testing.T, keys []stacktest.Key, at func()) stacktest.Load {
	t.Helper()
	requests, _ := size()
	return stacktest.Load{
		Replicas:    func() []stacktest.Replica { return stacktest.Replicas(t, world) },
		Connections: loadConnections,
		Requests:    requests,
		Pick:        func(i int) stacktest.Key { return keys[i/2%len(keys)] },
		App:         "hello",
		At:          at,
	}
}

// reported reads every key's usage once it has stopped changing, at the latest
// after some flush intervals.
func reported(t *testing.T, s *stacktest.Site, keys []stacktest.Key, until func(id string, got usage.Totals) bool) map[string]usage.Totals {
	t.Helper()
	got := map[string]usage.Totals{}
	deadline := time.Now().Add(20 * time.Second)
	for _, k := range keys {
		for {
			u, err := s.Client.Usage(t.Context(), s.Project, k.ID, "", "")
			check.OK(t, err)
			got[k.ID] = usage.Totals{Allowed: u.Totals.Allowed, RateDenied: u.Totals.RateDenied, QuotaDenied: u.Totals.QuotaDenied}
			if until(k.ID, got[k.ID]) || time.Now().After(deadline) {
				break
			}
			wait(t, 100*time.Millisecond)
		}
	}
	return got
}

// expect is what the client saw of a key, and the requests by which [counted]
// found its last key ready.
func expect(y *stacktest.Tally, keys []stacktest.Key, id string) usage.Totals {
	want := y.Totals(id)
	if id == keys[len(keys)-1].ID {
		want.Allowed += uint64(len(world.Info().Checkers))
	}
	return want
}

// TestUsageIsExact: the report equals what the client saw, to the request, in
// every column; also when a replica is restarted in the middle.
func TestUsageIsExact(t *testing.T) {
	for _, restart := range []bool{false, true} {
		name := map[bool]string{false: "undisturbed", true: "one replica restarted by SIGTERM"}[restart]
		t.Run(name, func(t *testing.T) {
			s, keys := counted(t)
			var restarting sync.WaitGroup
			at := func() {
				if restart {
					restarting.Go(func() {
						if err := world.Restart(t.Context(), "checker-0"); err != nil {
							t.Error(err)
						}
					})
				}
			}
			l := load(t, keys, at)
			y := s.Run(l)
			restarting.Wait()
			got := reported(t, s, keys, func(id string, u usage.Totals) bool { return u == expect(y, keys, id) })
			var sum, unclear usage.Totals
			for _, k := range keys {
				want, have := expect(y, keys, k.ID), got[k.ID]
				unclear.Allowed += y.Unclear(k.ID)
				if most := want.Plus(usage.Totals{Allowed: y.Unclear(k.ID)}); have != want && (!restart || have.Allowed < want.Allowed || have.Allowed > most.Allowed) {
					t.Errorf("%s: reported %+v, seen %+v (%d without an answer)", k.ID, have, want, y.Unclear(k.ID))
				}
				sum = sum.Plus(have)
			}
			t.Logf("%d requests over %d keys: reported %+v, equal to what the client saw; %d sent while the replica was away got no answer", l.Requests, len(keys), sum, unclear.Allowed)
			if sum.RateDenied == 0 || sum.QuotaDenied == 0 {
				t.Error("the load did not run into every limit")
			}
		})
	}
}

// TestKilledReplica: a replica that is killed loses at most its last flush
// interval, and nothing is ever counted that did not happen.
func TestKilledReplica(t *testing.T) {
	s, keys := counted(t)
	var killed time.Time
	l := load(t, keys, func() {
		killed = time.Now()
		if err := world.Kill("checker-0"); err != nil {
			t.Error(err)
		}
	})
	l.PerSecond = l.Requests / 13 // half of the load lasts for three flush intervals
	y := s.Run(l)
	check.OK(t, world.Restart(t.Context(), "checker-0"))
	deadline := time.Now().Add(3 * flushInterval)
	got := reported(t, s, keys, func(string, usage.Totals) bool { return time.Now().After(deadline) })
	var short, may, seen uint64
	for _, k := range keys {
		want, have := expect(y, keys, k.ID), got[k.ID]
		total := func(u usage.Totals) uint64 { return u.Allowed + u.RateDenied + u.QuotaDenied }
		if total(have) > total(want)+y.Unclear(k.ID) {
			t.Errorf("%s: reported %+v, more than the %+v seen and the %d that got no answer", k.ID, have, want, y.Unclear(k.ID))
		}
		if total(want) > total(have) {
			short += total(want) - total(have)
		}
		may += y.AnsweredSince(0, k.ID, killed.Add(-flushInterval-writeTime))
		seen += total(want)
	}
	t.Logf("killed after half of %d requests: short by %d of %d seen; the replica had answered %d in its last flush interval and write", l.Requests, short, seen, may)
	if short > may {
		t.Errorf("short by %d, more than the %d of one flush interval", short, may)
	}
}

// TestQuotaAcrossReplicas: three times the load on both replicas at once.
func TestQuotaAcrossReplicas(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	quota, period := int64(1000), "month"
	k := s.Key(s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}))
	s.Opens("hello", k)
	begin := time.Now()
	l := load(t, []stacktest.Key{k}, nil)
	l.Requests, l.Connections, l.PerSecond = 3*int(quota), 8, 300
	y := s.Run(l)
	took := time.Since(begin)
	if took < 3*flushInterval {
		t.Fatalf("the load took %v, too short for the bound to mean anything", took)
	}
	seen := y.Totals(k.ID)
	admitted := seen.Allowed + uint64(len(world.Info().Checkers)) // and those that found the key ready
	rate := float64(l.Requests) / took.Seconds()
	bound := uint64(rate*flushInterval.Seconds()) + 1
	t.Logf("quota %d: admitted %d, over by %d; the bound is what both replicas can admit in one flush interval: %d at %.0f a second", quota, admitted, admitted-uint64(quota), bound, rate)
	if admitted < uint64(quota) || admitted > uint64(quota)+bound {
		t.Errorf("admitted %d of a quota of %d", admitted, quota)
	}
	if seen.Allowed+seen.QuotaDenied != uint64(l.Requests) {
		t.Errorf("%d allowed and %d denied of %d", seen.Allowed, seen.QuotaDenied, l.Requests)
	}
	reported(t, s, []stacktest.Key{k}, func(_ string, u usage.Totals) bool { return u.Allowed == admitted })
	for _, r := range stacktest.Replicas(t, world) { // once replicas agree, the quota is shut on both
		r.Until(s, "hello", k.Full, http.StatusTooManyRequests, 20*time.Second)
	}
}
