package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// A rate that the traffic asks for eight times, half of it of each replica.
const (
	sharedRate  = 10
	sharedBurst = 10
)

// refusedFor is for how long replicas that decide may allow nothing of a rate: until a
// dead one's words are given back, and some more on a busy machine.
const refusedFor = 2*time.Second + 1500*time.Millisecond

func (s *scene) sharedKey() stacktest.Key {
	rate, burst := float64(sharedRate), int64(sharedBurst)
	return s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
}

// rateCell is the same under every fault: [trial.withinRate] looks at all of it, and once
// it is over both replicas together allow the rate, unless the key is gone then.
func rateCell(fault string) cell {
	must := fmt.Sprintf("each replica allows at most its rate and burst; those that decide refuse for no longer than %v at a time", refusedFor)
	if fault == emptyStore {
		return cell{must: must}
	}
	return cell{must: must + "; once it is over, both together allow the rate", after: together}
}

func together(x *trial) {
	x.t.Helper()
	decided := either(allowed, denied(http.StatusTooManyRequests, "rate_limited"))
	var from time.Time
	for end, lapsed := time.Now().Add(time.Minute), 1; lapsed > 0 && time.Now().Before(end); {
		for _, y := range x.traffic.rated {
			y.until(x.t, "decided again", time.Minute, decided)
		}
		begin := time.Now()
		wait(x.t, 4*time.Second) // what a replica gains by joining is used
		from = time.Now()
		wait(x.t, 4*time.Second)
		lapsed = 0 // while a slow store delays the proof of freshness, a replica allows nothing
		for _, y := range x.traffic.rated {
			lapsed += y.count(begin, time.Time{}, not(decided))
		}
	}
	got, nominal := 0, sharedRate*time.Since(from).Seconds()
	for _, y := range x.traffic.rated {
		got += y.count(from, time.Time{}, allowed)
	}
	x.note("%.2f of the rate once it is over", float64(got)/nominal)
	if float64(got) < 0.9*nominal-1 || float64(got) > 1.1*nominal+1 {
		x.t.Errorf("both together allowed %d requests, %.0f are nominal", got, nominal)
	}
}

// withinRate: no replica allows more than a bucket lets through, and those that decide do
// not refuse for long because of one that is gone.
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
		lives := 2.0 // a replica that was killed begins with a full bucket
		if got := y.count(time.Time{}, time.Time{}, allowed); float64(got) > lives*sharedBurst+sharedRate*took.Seconds() {
			fail("replica %d allowed %d requests in %v", i, got, took)
		}
	}
	slices.SortFunc(decided, func(a, b sample) int { return a.begin.Compare(b.begin) })
	var longest time.Duration
	var since time.Time
	for i, s := range decided {
		if i == 0 || s.begin.Sub(decided[i-1].begin) > time.Second || allowed(s) {
			since = s.end // nobody decided meanwhile
			continue
		}
		longest = max(longest, s.begin.Sub(since))
	}
	if longest > refusedFor {
		fail("for %v nothing of the rate was allowed", longest)
	}
	r.notes = append(r.notes, fmt.Sprintf("refused for %.1f s at a time", longest.Seconds()))
}
