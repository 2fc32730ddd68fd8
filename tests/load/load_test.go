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
	otherApp    = "other" // in the scope of some keys
	deployedApp = "web"

	flushInterval = 2 * time.Second // default of the replicas
	hop           = time.Second     // from a flush until the other replica reads it

	sampleEvery = time.Second
	deployPause = 2 * time.Second
)

func TestLoad(t *testing.T) {
	lasts := loadTime(t)
	l := prepare(t, lasts)
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	change, samples, deploys := newChanger(l), &sampler{}, &deployer{load: l}
	var background sync.WaitGroup
	background.Go(func() { change.run(ctx) })
	background.Go(func() { samples.run(ctx, sampleEvery) })
	background.Go(func() { deploys.run(ctx) })
	restarted := begin
	background.Go(func() {
		restarted = l.restart(ctx, begin, lasts)
		pause(ctx, max(time.Until(begin.Add(lasts)), warmUp+lasts/2)) // on a slow machine, the restarts end late
		cancel()
	})
	l.run(ctx)
	took := time.Since(begin)
	l.lasted = took
	background.Wait()

	l.answers(took, change, deploys)
	l.propagation(change)
	l.growth(samples, slices.MaxFunc([]time.Time{begin.Add(lasts / 2), restarted.Add(warmUp)}, time.Time.Compare), lasts)
	l.usage()
	l.quota()
}

func prepare(t *testing.T, lasts time.Duration) *load {
	t.Helper()
	s := stacktest.New(t, world)
	s.GatedApp(gatedApp)
	s.App(otherApp)
	s.App(deployedApp)
	l := &load{t: t, site: s, app: gatedApp, plans: makePlans(s), unknown: makeUnknownKeys(t), outages: newTimeline(0)}
	l.replaced.Store(&[]*credential{})
	begin, n := time.Now(), fewKeys()
	if lasts >= longTime {
		n = manyKeys
	}
	l.keys = makeKeys(t, s, l.plans, n, begin.Add(lasts)) // keys with an expiry expire before the end
	last := l.keys.plain[len(l.keys.plain)-1]
	for _, r := range stacktest.Replicas(t, world) {
		r.Until(s, gatedApp, last.current.Load().text, http.StatusOK, time.Minute)
		last.allowed.Add(1)
	}
	t.Logf("%d keys created and applied by both replicas after %.1f s", len(l.keys.all), time.Since(begin).Seconds())
	return l
}

func restarts(lasts time.Duration) int { return max(2, min(6, int(lasts/time.Minute))) }

// restart restarts the replicas in turn, in the first half of the load, and returns the time of
// the last restart. A replica does not respond while it restarts, and may then deny requests for
// a second.
func (l *load) restart(ctx context.Context, begin time.Time, lasts time.Duration) (last time.Time) {
	for i := range restarts(lasts) {
		pause(ctx, time.Until(begin.Add(lasts/10+lasts*3/10*time.Duration(i)/time.Duration(restarts(lasts)))))
		if ctx.Err() != nil {
			break
		}
		made := l.outages.change(time.Now(), noResponse|unavailable)
		if err := world.Restart(context.WithoutCancel(ctx), fmt.Sprintf("checker-%d", i%2)); err != nil {
			l.t.Error(err)
			break
		}
		made(time.Now())
		l.outages.change(time.Now(), 0)(time.Now().Add(time.Second))
	}
	return time.Now()
}

// warmUp is the time in which a restarted replica and its connections still grow.
const warmUp = 3 * time.Second

// deployer repeatedly deploys an app that must serve all the time.
type deployer struct {
	*load

	deployed, failed, requests int
}

func (d *deployer) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		image := fmt.Sprintf("registry.example/echo:load-%d", n)
		whole := context.WithoutCancel(ctx)
		rev, err := d.site.Client.Deploy(whole, d.site.Project, d.site.Env, deployedApp, image)
		if err != nil { // a busy machine; the report limits the number
			d.t.Logf("deploy failed: %v", err)
			d.failed++
			pause(ctx, deployPause)
			continue
		}
		d.deployed++
		for begin := time.Now(); ; pause(ctx, 50*time.Millisecond) {
			a, err := d.site.Call(deployedApp).Try(whole)
			d.requests++
			if err != nil || a.Status != http.StatusOK {
				d.recordWrong(fmt.Sprintf("app during a deployment: got %d, %v, want 200", a.Status, err))
			}
			if strings.Contains(a.Body, `"`+image+`"`) {
				break
			}
			if time.Since(begin) > time.Minute {
				d.recordWrong(fmt.Sprintf("revision %d did not serve within a minute", rev.Revision))
				break
			}
		}
		pause(ctx, deployPause)
	}
}
