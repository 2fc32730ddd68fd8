package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// The traffic is eight times this rate, half of it at each replica.
const (
	sharedRate  = 10
	sharedBurst = 10
)

// refusedFor is the longest time without an allowed request: 2 s until a dead replica's counts
// are refunded, and a margin for a busy machine.
const refusedFor = 2*time.Second + 1500*time.Millisecond

func (s *scene) sharedKey() stacktest.Key {
	rate, burst := float64(sharedRate), int64(sharedBurst)
	return s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
}

// rateCell checks the rate after the fault; [trial.withinRate] checks the limits during it.
func rateCell(fault string) cell {
	if fault == emptyStore {
		return cell{want: "default, but not afterwards: the key is gone"}
	}
	return cell{after: together}
}

func together(x *trial) {
	x.t.Helper()
	decided := either(allowed, denied(http.StatusTooManyRequests, "rate_limited"))
	var from time.Time
	for end, lapsed := time.Now().Add(time.Minute), 1; lapsed > 0 && time.Now().Before(end); {
		for _, y := range x.traffic.rated {
			y.until(x.t, "deciding again", time.Minute, decided)
		}
		begin := time.Now()
		wait(x.t, 4*time.Second) // a replica that joined uses up its additional tokens
		from = time.Now()
		wait(x.t, 4*time.Second)
		lapsed = 0 // measures again if a replica made no decision, because a slow store delayed its freshness proof
		for _, y := range x.traffic.rated {
			lapsed += y.count(begin, time.Time{}, not(decided))
		}
	}
	got, nominal := 0, sharedRate*time.Since(from).Seconds()
	for _, y := range x.traffic.rated {
		got += y.count(from, time.Time{}, allowed)
	}
	x.note("rate %.2f", float64(got)/nominal)
	if float64(got) < 0.9*nominal-1 || float64(got) > 1.1*nominal+1 {
		x.t.Errorf("allowed requests of both replicas: got %d, want about %.0f", got, nominal)
	}
}

// withinRate checks that no replica exceeds its bucket, and that a dead replica does not make the
// others deny for long.
func (x *trial) withinRate(r *row) {
	x.t.Helper()
	fail := func(format string, args ...any) {
		r.failed = true
		x.t.Errorf(format, args...)
	}
	var decided []sample
	for i, y := range x.traffic.rated {
		own := slices.DeleteFunc(slices.Clone(y.samples), not(either(allowed, denied(http.StatusTooManyRequests, "rate_limited"))))
		decided = append(decided, own...)
		if len(own) == 0 {
			continue
		}
		took := own[len(own)-1].end.Sub(own[0].begin)
		lives := 2.0
		if got := y.count(time.Time{}, time.Time{}, allowed); float64(got) > lives*sharedBurst+sharedRate*took.Seconds() {
			fail("replica %d: got %d allowed requests in %v, want at most %.0f", i, got, took, lives*sharedBurst+sharedRate*took.Seconds())
		}
	}
	slices.SortFunc(decided, func(a, b sample) int { return a.begin.Compare(b.begin) })
	var longest time.Duration
	var since time.Time
	for i, s := range decided {
		if i == 0 || s.begin.Sub(decided[i-1].begin) > time.Second || allowed(s) {
			since = s.end // no replica decided in between
			continue
		}
		longest = max(longest, s.begin.Sub(since))
	}
	if longest > refusedFor {
		fail("longest time without an allowed request: got %v, want at most %v", longest, refusedFor)
	}
	r.notes = append(r.notes, fmt.Sprintf("denied %.1f s", longest.Seconds()))
}
