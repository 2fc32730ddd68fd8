package rollout

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const rolls = 3

// flushInterval is the interval at which replicas store their counts.
const flushInterval = 2 * time.Second

// TestRollingUpdate checks that rolling updates cause no wrong response and no lost count.
func TestRollingUpdate(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	quota, period := int64(200), "month"
	free, limited := s.AnyKey(), s.Key(s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}))
	revoked := s.AnyKey()
	for _, k := range []stacktest.Key{free, limited} {
		s.Opens("hello", k)
	}
	s.Revoke(revoked)
	s.Refuses("hello", revoked)
	opened := uint64(len(world.Info().Checkers)) // one request to each by Opens
	seen := map[string]usage.Totals{free.ID: {Allowed: opened}, limited.ID: {Allowed: opened}}

	before := world.Info()
	y := begin(t, s, "hello", free, limited, revoked)
	y.runFor(time.Second)
	start := time.Now()
	for range rolls {
		if err := world.Roll(t.Context()); err != nil {
			t.Error(err)
		}
	}
	took := time.Since(start)
	y.runFor(time.Second)
	answers := y.stop()

	for name, pid := range before.PIDs {
		if now := world.Info().PIDs[name]; (name == "checker-0" || name == "checker-1") == (now == pid) {
			t.Errorf("%s: got PID %d, previous PID %d", name, now, pid)
		}
	}
	failed := 0
	for _, a := range answers {
		if !expected(a, free.ID, limited.ID) {
			failed++
			t.Errorf("%v after the start: key %q got %d %s, %v", a.begin.Sub(start), a.key, a.status, a.code, a.err)
		}
		u := seen[a.key]
		switch {
		case a.status == http.StatusOK:
			u.Allowed++
		case a.code == "quota_exhausted":
			u.QuotaDenied++
		}
		if a.key != "" {
			seen[a.key] = u
		}
	}
	t.Logf("%d rolling updates in %v: %d requests at %d a second, %d failed", rolls, took.Round(time.Millisecond), len(answers), perSecond, failed)
	rate := float64(perSecond) * 2 / 9 // per second, of the limited key
	if n := seen[limited.ID].Allowed; n < uint64(quota) || float64(n) > float64(quota)+rate*flushInterval.Seconds() {
		t.Errorf("allowed requests: got %d, quota %d", n, quota)
	}
	for _, k := range []stacktest.Key{free, limited} {
		s.Until("report the usage of "+k.ID, func() bool { return used(s, k) == seen[k.ID] })
		t.Logf("%s: usage %+v equals the counts of the client", k.ID, seen[k.ID])
	}
}

func expected(a answer, free, limited string) bool {
	switch a.key {
	case free:
		return a.status == http.StatusOK
	case limited:
		return a.status == http.StatusOK || a.status == http.StatusTooManyRequests && a.code == "quota_exhausted"
	}
	return a.status == http.StatusUnauthorized && a.code == "invalid_key"
}

func used(s *stacktest.Site, k stacktest.Key) usage.Totals {
	s.T.Helper()
	u, err := s.Client.Usage(s.T.Context(), s.Project, k.ID, "", "")
	check.OK(s.T, err)
	return usage.Totals{Allowed: u.Totals.Allowed, RateDenied: u.Totals.RateDenied, QuotaDenied: u.Totals.QuotaDenied}
}
