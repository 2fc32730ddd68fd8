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

const flushInterval = 2 * time.Second

// writeTime is the assumed maximum duration of a flush.
const writeTime = 2 * time.Second

const loadConnections = 32

func size() (requests, keys int) { return long.Pick(6_000, 20_000), long.Pick(60, 200) }

// counted returns a site with unlimited keys, keys that reach their rate, and keys that reach
// their quota.
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

// reported reads each key's usage until it satisfies until, for at most 20 s.
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

// expect returns the client's counts of a key plus the requests of [counted].
func expect(y *stacktest.Tally, keys []stacktest.Key, id string) usage.Totals {
	want := y.Totals(id)
	if id == keys[len(keys)-1].ID {
		want.Allowed += uint64(len(world.Info().Checkers))
	}
	return want
}

// TestUsageIsExact also restarts a replica.
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
					t.Errorf("%s: got usage %+v, want %+v (%d requests without a response)", k.ID, have, want, y.Unclear(k.ID))
				}
				sum = sum.Plus(have)
			}
			t.Logf("%d requests, %d keys: reported %+v; %d requests without a response during the restart", l.Requests, len(keys), sum, unclear.Allowed)
			if sum.RateDenied == 0 || sum.QuotaDenied == 0 {
				t.Error("the load did not reach every limit")
			}
		})
	}
}

// TestKilledReplica checks that a killed replica loses at most its last flush interval, and that
// nothing is counted twice.
func TestKilledReplica(t *testing.T) {
	s, keys := counted(t)
	var killed time.Time
	l := load(t, keys, func() {
		killed = time.Now()
		if err := world.Kill("checker-0"); err != nil {
			t.Error(err)
		}
	})
	l.PerSecond = l.Requests / 13 // half of the load lasts three flush intervals
	y := s.Run(l)
	check.OK(t, world.Restart(t.Context(), "checker-0"))
	deadline := time.Now().Add(3 * flushInterval)
	got := reported(t, s, keys, func(string, usage.Totals) bool { return time.Now().After(deadline) })
	var short, may, seen uint64
	for _, k := range keys {
		want, have := expect(y, keys, k.ID), got[k.ID]
		total := func(u usage.Totals) uint64 { return u.Allowed + u.RateDenied + u.QuotaDenied }
		if total(have) > total(want)+y.Unclear(k.ID) {
			t.Errorf("%s: got usage %+v, want at most %+v and %d requests without a response", k.ID, have, want, y.Unclear(k.ID))
		}
		if total(want) > total(have) {
			short += total(want) - total(have)
		}
		may += y.AnsweredSince(0, k.ID, killed.Add(-flushInterval-writeTime))
		seen += total(want)
	}
	t.Logf("killed after half of %d requests: %d of %d are missing; the replica had decided %d in its last flush interval and write", l.Requests, short, seen, may)
	if short > may {
		t.Errorf("missing requests: got %d, want at most %d of one flush interval", short, may)
	}
}

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
		t.Fatalf("duration of the load: got %v, want at least %v", took, 3*flushInterval)
	}
	seen := y.Totals(k.ID)
	admitted := seen.Allowed + uint64(len(world.Info().Checkers))
	rate := float64(l.Requests) / took.Seconds()
	bound := uint64(rate*flushInterval.Seconds()) + 1
	t.Logf("quota %d: allowed %d, exceeded by %d; the bound is one flush interval of requests: %d at %.0f per second", quota, admitted, admitted-uint64(quota), bound, rate)
	if admitted < uint64(quota) || admitted > uint64(quota)+bound {
		t.Errorf("allowed requests: got %d, want %d to %d", admitted, quota, uint64(quota)+bound)
	}
	if seen.Allowed+seen.QuotaDenied != uint64(l.Requests) {
		t.Errorf("got %d allowed and %d denied requests, want %d in total", seen.Allowed, seen.QuotaDenied, l.Requests)
	}
	reported(t, s, []stacktest.Key{k}, func(_ string, u usage.Totals) bool { return u.Allowed == admitted })
	for _, r := range stacktest.Replicas(t, world) {
		r.Until(s, "hello", k.Full, http.StatusTooManyRequests, 20*time.Second)
	}
}
