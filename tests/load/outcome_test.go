package load

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/report"
)

var (
	book     = report.Open("load")
	promises = book.Table("Load report", "`make load` sends requests for ten minutes. `make test` does so for 15 s with fewer keys, and compares the verdicts.",
		[]string{"expected", "verdict"}, "measured")
	growths = book.Table("Growth under load", "No process of Sluice or of the ingress may grow in the second half of the load, after the last restart. "+
		"The test fits a line to each half of these measurements. "+
		"The flatter line may rise by 15% or 64 MiB for memory, 15% or 24 for goroutines (whichever is more), and 12 for file descriptors. "+
		"For the ingress, it counts threads.",
		[]string{"process", "verdict"}, "memory", "file descriptors", "goroutines or threads", "period")
)

func (l *load) answers(took time.Duration, c *changer, d *deployer) {
	answered := l.sent.Load() - l.unsent.Load()
	var kinds []string
	for v := allowed; v <= noResponse; v <<= 1 {
		n := l.byVerdict[v].Load()
		if v == noResponse {
			n -= l.unsent.Load()
		}
		kinds = append(kinds, fmt.Sprintf("%d %v", n, v))
	}
	l.holds("every response is possible for the key's state at that time", l.wrong.Load() == 0,
		"%d requests, %d keys, %.0f s, %.0f/s (%d cores): %s", answered, len(l.keys.all), took.Seconds(),
		float64(answered)/took.Seconds(), runtime.NumCPU(), strings.Join(kinds, ", "))
	for _, detail := range l.details {
		l.t.Log("wrong: " + detail)
	}
	var changes []string
	total := 0
	for _, what := range slices.Sorted(maps.Keys(c.made)) {
		changes, total = append(changes, fmt.Sprintf("%d %s", c.made[what], what)), total+c.made[what]
	}
	for _, detail := range c.unclear {
		l.t.Log("failed: " + detail)
	}
	l.holds("keys and plans change during the load; at most 10% of the calls, plus two, time out on the emulator", total >= 5 && 10*len(c.unclear) <= total+20,
		"%d changes (%s); %d failed calls", total, strings.Join(changes, ", "), len(c.unclear))
	l.holds("an app that is redeployed repeatedly stays available", d.deployed > 0 && 10*d.failed <= d.deployed+20,
		"%d deployments, %d requests, %d failed calls", d.deployed, d.requests, d.failed)
	l.holds("every kind of denial occurs", l.byVerdict[rateDenied].Load() > 0 && l.byVerdict[invalidKey].Load() > 0 && l.byVerdict[allowed].Load() > 0,
		"%d restarts of replicas", restarts(l.lasted))
}

// holds adds a requirement and its result to the report.
func (l *load) holds(must string, held bool, seen string, args ...any) {
	l.t.Helper()
	verdict, text := "passed", fmt.Sprintf(seen, args...)
	if !held {
		verdict = "FAILED"
		l.t.Errorf("%s: %s", must, text)
	}
	l.t.Logf("%s: %s: %s", must, verdict, text)
	promises.Row([]string{must, verdict}, text)
}

func (l *load) propagation(c *changer) {
	slices.Sort(c.took)
	slices.Sort(c.callTimes)
	at := func(of []time.Duration, share float64) time.Duration {
		if len(of) == 0 {
			return 0
		}
		return of[int(share*float64(len(of)-1))].Round(time.Millisecond)
	}
	l.holds("a change takes effect on both replicas within 20 s after its call (the emulator resends all keys for each change)",
		len(c.took) > 0 && at(c.took, 1) <= window,
		"%d changes: median %v, p99 %v, max %v; calls: median %v, max %v",
		len(c.took), at(c.took, 0.5), at(c.took, 0.99), at(c.took, 1), at(c.callTimes, 0.5), at(c.callTimes, 1))
}

// growth omits the stores and the emulators, which store all data.
func (l *load) growth(s *sampler, warm time.Time, lasts time.Duration) {
	all := s.fitAll(warm, int(lasts/2/sampleEvery)/3)
	for _, name := range slices.Sorted(maps.Keys(world.Info().PIDs)) {
		switch name {
		case "stack", "firestore", "etcd", "kube-apiserver", "workloads", "build-system":
			continue
		}
		verdict, seen, period := "passed", []string{}, ""
		for _, g := range all {
			if g.process != name {
				continue
			}
			seen = append(seen, fmt.Sprintf("%s, %+.1f%%", g.what.text(g.mean), 100*g.grown/g.mean))
			period = fmt.Sprintf("%.0f s", g.over.Seconds())
			if g.grown > g.what.slack(g.mean) {
				verdict = "FAILED"
			}
		}
		if len(seen) != int(measures) {
			verdict = "FAILED"
			l.t.Errorf("%s: growth: got %v, want %d measures", name, seen, measures)
		}
		if verdict != "passed" {
			l.t.Errorf("%s has grown: %s", name, strings.Join(seen, "; "))
		}
		l.t.Logf("growth of %s: %s: %s", name, verdict, strings.Join(seen, "; "))
		growths.Row([]string{name, verdict}, append(seen, period)...)
	}
}

func (l *load) usage() {
	left, unclear := l.keys.all, 0
	for deadline := time.Now().Add(time.Minute); len(left) > 0; {
		left = l.unequal(left)
		if time.Now().After(deadline) {
			break
		}
	}
	for _, k := range left[:min(len(left), maxDetails)] {
		u, err := l.site.Client.Usage(l.t.Context(), l.site.Project, k.id, "", "")
		l.t.Logf("%s: usage: got %+v (%v), the client counted %+v and %d without a response", k.id, u.Totals, err, k.totals(), k.unclear.Load())
	}
	var sum usage.Totals
	for _, k := range l.keys.all {
		sum = sum.Plus(k.totals())
		if k.unclear.Load() != 0 {
			unclear++
		}
	}
	l.holds("the reported usage of every key equals the client's counts", len(left) == 0,
		"%d of %d keys: %d allowed, %d rate-denied, %d quota-denied; %d keys had requests without a response",
		len(l.keys.all)-len(left), len(l.keys.all), sum.Allowed, sum.RateDenied, sum.QuotaDenied, unclear)
}

func (l *load) unequal(keys []*key) (left []*key) {
	var mu sync.Mutex
	var group sync.WaitGroup
	next := make(chan *key)
	for range 16 {
		group.Go(func() {
			for k := range next {
				if !l.equal(k) {
					mu.Lock()
					left = append(left, k)
					mu.Unlock()
				}
			}
		})
	}
	for _, k := range keys {
		next <- k
	}
	close(next)
	group.Wait()
	return left
}

func (l *load) equal(k *key) bool {
	u, err := l.site.Client.Usage(l.t.Context(), l.site.Project, k.id, "", "")
	if err != nil {
		if e := (*client.Error)(nil); !errors.As(err, &e) {
			l.t.Error(err)
		}
		return false
	}
	want, more := k.totals(), k.unclear.Load()
	got := usage.Totals{Allowed: u.Totals.Allowed, RateDenied: u.Totals.RateDenied, QuotaDenied: u.Totals.QuotaDenied}
	if more == 0 {
		return got == want
	}
	all := func(t usage.Totals) uint64 { return t.Allowed + t.RateDenied + t.QuotaDenied }
	return got.Covers(want) && all(got) <= all(want)+more
}

// quota checks the allowed requests of each key with a quota. They may exceed the quota by the
// requests that replicas serve before they exchange counts.
func (l *load) quota() {
	exhausted, maxOver, held := 0, int64(0), true
	for _, k := range l.keys.quotas {
		if k.quota.Load() == 0 {
			continue
		}
		exhausted++
		over := int64(k.allowed.Load()) - usedQuota
		maxOver = max(maxOver, over)
		requests := k.allowed.Load() + k.quota.Load()
		bound := int64(float64(requests)/l.lasted.Seconds()*3*(flushInterval+hop).Seconds()) + 2
		if over > bound || over < -int64(k.unclear.Load()) {
			held = false
			l.t.Logf("%s: got %d allowed, want a quota of %d and at most %d more", k.id, k.allowed.Load(), usedQuota, bound)
		}
	}
	l.holds("a quota is exceeded by at most the requests of three flush intervals and exchanges between replicas", held && exhausted > 0,
		"%d keys reached their quota of %d; exceeded by at most %d", exhausted, usedQuota, maxOver)
}
