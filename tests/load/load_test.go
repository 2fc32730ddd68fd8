package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
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
	restarted := begin
	beside.Go(func() { restarted = l.restart(ctx, begin, lasts) })
	l.run(ctx)
	took := time.Since(begin)
	l.lasted = took
	beside.Wait()

	l.answers(took, change, ships)
	l.propagation(change)
	l.growth(samples, slices.MaxFunc([]time.Time{begin.Add(lasts / 2), restarted.Add(settleTime)}, time.Time.Compare), lasts)
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
	begin, n := time.Now(), fewKeys()
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
// denies until it has proven its view. It gives when the last one was done.
func (l *load) restart(ctx context.Context, begin time.Time, lasts time.Duration) (last time.Time) {
	for i := range restarts(lasts) {
		pause(ctx, time.Until(begin.Add(lasts/10+lasts*3/10*time.Duration(i)/time.Duration(restarts(lasts)))))
		if ctx.Err() != nil {
			break
		}
		made := l.away.change(time.Now(), noAnswer|unavailable)
		if err := world.Restart(context.WithoutCancel(ctx), fmt.Sprintf("checker-%d", i%2)); err != nil {
			l.t.Error(err)
			break
		}
		made(time.Now())
		l.away.change(time.Now(), 0)(time.Now().Add(time.Second))
	}
	return time.Now()
}

// settleTime is how long after a restart a replica and its connections still grow.
const settleTime = 3 * time.Second

// deployer deploys an app now and then, which must serve all the time.
type deployer struct {
	*load

	deployed, failed, asked int
}

func (d *deployer) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		image := fmt.Sprintf("registry.example/echo:load-%d", n)
		whole := context.WithoutCancel(ctx)
		rev, err := d.site.Client.Deploy(whole, d.site.Project, d.site.Env, deployedApp, image)
		if err != nil { // the machine is busy; how many that may be is looked at in the end
			d.t.Logf("unclear: deploy: %v", err)
			d.failed++
			pause(ctx, deployPause)
			continue
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
