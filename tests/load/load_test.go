package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/report"
	"github.com/sluicegate/sluice/tests/stacktest"
)

var (
	book     = report.Open("load")
	promises = book.Table("Load report", "`make load`: ten minutes; `make test` runs half a minute of it with fewer keys and compares the verdicts.",
		[]string{"must", "verdict"}, "seen")
	growths = book.Table("Growth under load", "No process of the product, nor the ingress, grows: a line through the measurements of the second half, after all restarts, "+
		"rises by no more than 15 % (or 24 MiB, 12 descriptors, 24 goroutines). Threads stand in for goroutines where a process has no metrics.",
		[]string{"process", "verdict"}, "memory", "file descriptors", "goroutines or threads")
)

const (
	gatedApp    = "hello"
	otherApp    = "other" // that keys are scoped to now and then
	deployedApp = "web"

	flushInterval = 2 * time.Second // the replicas' default
	hop           = time.Second     // from a flush until the other replica has heard of it, here

	sampleEvery = time.Second
	deployPause = 2 * time.Second
)

// TestLoad is the package.
func TestLoad(t *testing.T) {
	lasts := loadTime(t)
	l := prepare(t, lasts)
	begin := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), l.end)
	defer cancel()
	change, samples, ships := newChanger(l), &sampler{}, &deployer{load: l}
	var beside sync.WaitGroup
	beside.Go(func() { change.run(ctx) })
	beside.Go(func() { samples.run(ctx, sampleEvery) })
	beside.Go(func() { ships.run(ctx) })
	beside.Go(func() { l.restart(ctx, begin, lasts) })
	l.run(ctx)
	took := time.Since(begin)
	l.lasted = took
	beside.Wait()

	l.answers(took, change, ships)
	l.propagation(change)
	l.growth(samples, begin.Add(lasts/2), lasts)
	l.usage()
	l.quota()
}

// prepare makes the keys and waits until both replicas have them all.
func prepare(t *testing.T, lasts time.Duration) *load {
	t.Helper()
	s := stacktest.New(t, world)
	s.GatedApp(gatedApp)
	s.App(otherApp)
	s.App(deployedApp)
	l := &load{t: t, site: s, app: gatedApp, plans: makePlans(s), strangers: makeStrangers(t), away: newTimeline(0)}
	l.aged.Store(&[]*credential{})
	begin, n := time.Now(), fewKeys
	if lasts >= longTime {
		n = manyKeys
	}
	l.keys = makeKeys(t, s, l.plans, n, begin.Add(lasts)) // the keys that expire do so before the end
	last := l.keys.plain[len(l.keys.plain)-1]
	for _, r := range stacktest.Replicas(t, world) {
		r.Until(s, gatedApp, last.current.Load().text, http.StatusOK, time.Minute)
		last.allowed.Add(1)
	}
	l.end = time.Now().Add(lasts)
	t.Logf("%d keys made and known to both replicas after %.1f s", len(l.keys.all), time.Since(begin).Seconds())
	return l
}

// restarts is how often a replica is restarted, by the load's time.
func restarts(lasts time.Duration) int { return max(2, min(6, int(lasts/time.Minute))) }

// restart restarts the replicas in turn, gracefully, in the first half of the time.
// Meanwhile requests to that replica get no answer, and the one that has just begun
// denies until it has proven its view.
func (l *load) restart(ctx context.Context, begin time.Time, lasts time.Duration) {
	for i := range restarts(lasts) {
		pause(ctx, time.Until(begin.Add(lasts/10+lasts*3/10*time.Duration(i)/time.Duration(restarts(lasts)))))
		if ctx.Err() != nil {
			return
		}
		made := l.away.change(time.Now(), noAnswer|unavailable)
		if err := world.Restart(context.WithoutCancel(ctx), fmt.Sprintf("checker-%d", i%2)); err != nil {
			l.t.Error(err)
			return
		}
		made(time.Now())
		l.away.change(time.Now(), 0)(time.Now().Add(time.Second))
	}
}

// deployer deploys an app now and then, which must serve all the time.
type deployer struct {
	*load

	deployed, asked int
}

func (d *deployer) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		image := fmt.Sprintf("registry.example/echo:load-%d", n)
		whole := context.WithoutCancel(ctx)
		rev, err := d.site.Client.Deploy(whole, d.site.Project, d.site.Env, deployedApp, image)
		if err != nil {
			d.t.Errorf("deploy: %v", err)
			return
		}
		d.deployed++
		for begin := time.Now(); ; pause(ctx, 50*time.Millisecond) {
			a, err := d.site.Call(deployedApp).Try(whole)
			d.asked++
			if err != nil || a.Status != http.StatusOK {
				d.tell(fmt.Sprintf("an app that is deployed: %d, %v", a.Status, err))
			}
			if strings.Contains(a.Body, `"`+image+`"`) {
				break
			}
			if time.Since(begin) > time.Minute {
				d.tell(fmt.Sprintf("revision %d does not serve within a minute", rev.Revision))
				break
			}
		}
		pause(ctx, deployPause)
	}
}

// answers tells what was asked, and that no answer was wrong.
func (l *load) answers(took time.Duration, c *changer, d *deployer) {
	answered := l.sent.Load() - l.gone.Load()
	var kinds []string
	for v := allowed; v <= noAnswer; v <<= 1 {
		n := l.byVerdict[v].Load()
		if v == noAnswer {
			n -= l.gone.Load()
		}
		kinds = append(kinds, fmt.Sprintf("%d %v", n, v))
	}
	l.holds("each answer is one that it may be at that moment", l.wrong.Load() == 0,
		"%d requests over %d keys in %.0f s, %.0f a second (%d cores): %s", answered, len(l.keys.all), took.Seconds(),
		float64(answered)/took.Seconds(), runtime.NumCPU(), strings.Join(kinds, ", "))
	for _, detail := range l.details {
		l.t.Log("wrong: " + detail)
	}
	var changes []string
	total := 0
	for _, what := range slices.Sorted(maps.Keys(c.made)) {
		changes, total = append(changes, fmt.Sprintf("%d × %s", c.made[what], what)), total+c.made[what]
	}
	for _, detail := range c.unclear {
		l.t.Log("unclear: " + detail)
	}
	l.holds("keys and plans are changed meanwhile; at most one call in ten fails", total >= 5 && 10*len(c.unclear) <= total+9,
		"%d changes: %s; %d calls failed", total, strings.Join(changes, ", "), len(c.unclear))
	l.holds("an app that is deployed again and again serves all the time", d.deployed > 0, "%d deployments, %d requests to the app", d.deployed, d.asked)
	l.holds("every kind of denial comes up", l.byVerdict[rateDenied].Load() > 0 && l.byVerdict[invalidKey].Load() > 0 && l.byVerdict[allowed].Load() > 0,
		"%d restarts of replicas", restarts(l.lasted))
}

// holds puts a promise and what was seen into the report.
func (l *load) holds(must string, held bool, seen string, args ...any) {
	l.t.Helper()
	verdict, text := "held", fmt.Sprintf(seen, args...)
	if !held {
		verdict = "FAILED"
		l.t.Errorf("%s: %s", must, text)
	}
	l.t.Logf("%s: %s: %s", must, verdict, text)
	promises.Row([]string{must, verdict}, text)
}

// propagation tells how long changes took to act.
func (l *load) propagation(c *changer) {
	slices.Sort(c.took)
	slices.Sort(c.callTimes)
	at := func(of []time.Duration, share float64) time.Duration {
		if len(of) == 0 {
			return 0
		}
		return of[int(share*float64(len(of)-1))].Round(time.Millisecond)
	}
	l.holds("a change acts on both replicas within 20 s of its call's return (on an emulator that sends all keys again for each change)",
		len(c.took) > 0 && at(c.took, 1) <= window,
		"%d changes followed: median %v, 99 %% %v, longest %v; calls: median %v, longest %v",
		len(c.took), at(c.took, 0.5), at(c.took, 0.99), at(c.took, 1), at(c.callTimes, 0.5), at(c.callTimes, 1))
}

// growth tells that no process of the product, nor the ingress, has grown since the
// restarts. The stores and what plays the cluster keep what they are given.
func (l *load) growth(s *sampler, warm time.Time, lasts time.Duration) {
	all := s.grown(warm, int(lasts/2/sampleEvery)/3)
	for _, name := range slices.Sorted(maps.Keys(world.Info().PIDs)) {
		switch name {
		case "stack", "firestore", "etcd", "kube-apiserver", "workloads", "build-system":
			continue
		}
		verdict, seen := "held", []string{}
		for _, g := range all {
			if g.process != name {
				continue
			}
			seen = append(seen, fmt.Sprintf("%s, %+.1f %% in %.0f s", g.what.text(g.mean), 100*g.grown/g.mean, g.over.Seconds()))
			if g.grown > g.what.slack(g.mean) {
				verdict = "FAILED"
			}
		}
		if len(seen) != int(measures) {
			verdict = "FAILED"
			l.t.Errorf("%s: growth is not known: %v", name, seen)
		}
		if verdict != "held" {
			l.t.Errorf("%s has grown: %s", name, strings.Join(seen, "; "))
		}
		l.t.Logf("growth of %s: %s: %s", name, verdict, strings.Join(seen, "; "))
		growths.Row([]string{name, verdict}, seen...)
	}
}

// usage holds every key's report against what the client saw.
func (l *load) usage() {
	left, unclear := l.keys.all, 0
	for deadline := time.Now().Add(time.Minute); len(left) > 0; {
		left = l.unequal(left)
		if time.Now().After(deadline) {
			break
		}
	}
	for _, k := range left[:min(len(left), maxDetails)] {
		l.t.Logf("wrong: %s: usage is not what the client saw: %+v, %d without an answer", k.id, k.totals(), k.unclear.Load())
	}
	var sum usage.Totals
	for _, k := range l.keys.all {
		sum = sum.Plus(k.totals())
		if k.unclear.Load() != 0 {
			unclear++
		}
	}
	l.holds("the usage report of every key is what the client saw", len(left) == 0,
		"%d keys: %d allowed, %d rate-denied, %d quota-denied; %d keys had requests without an answer, which may be in it",
		len(l.keys.all), sum.Allowed, sum.RateDenied, sum.QuotaDenied, unclear)
}

// unequal gives those keys whose report is not what the client saw.
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

// quota tells by how much keys were let beyond their quota: at most what both
// replicas can admit until they know of each other's counts.
func (l *load) quota() {
	exhausted, most, held := 0, int64(0), true
	for _, k := range l.keys.quotas {
		if k.quota.Load() == 0 {
			continue
		}
		exhausted++
		over := int64(k.allowed.Load()) - usedQuota
		most = max(most, over)
		asked := k.allowed.Load() + k.quota.Load()
		bound := int64(float64(asked)/l.lasted.Seconds()*3*(flushInterval+hop).Seconds()) + 2
		if over > bound || over < -int64(k.unclear.Load()) {
			held = false
			l.t.Logf("wrong: %s: %d allowed of a quota of %d, the bound is %d more", k.id, k.allowed.Load(), usedQuota, bound)
		}
	}
	l.holds("a quota is exceeded by no more than what comes in three flush intervals and ways to the other replica", held && exhausted > 0,
		"%d keys ran into their quota of %d; the most beyond it was %d", exhausted, usedQuota, most)
}
