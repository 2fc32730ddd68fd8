package replicas

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// again is the time in which the rate becomes accurate again after a replica has stopped or
// joined.
const again = 2 * time.Second

func short() time.Duration     { return long.Pick(6*time.Second, 10*time.Second) }
func sustained() time.Duration { return long.Pick(10*time.Second, time.Minute) }

type lane struct {
	rate  float64
	burst int64
	first float64 // share of the first replica; the others share the rest
	key   stacktest.Key

	allowed, refused, failed atomic.Int64
}

func (l *lane) String() string {
	return fmt.Sprintf("%v/s, %.0f%% at the first", l.rate, 100*l.first)
}

// TestRates sends three times the rate of several keys to the replicas, evenly or not, and while
// one is killed and restarted.
func TestRates(t *testing.T) {
	for _, n := range numbers() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			row := together.Test(t, fmt.Sprint(n), "three times the rates 1, 20 and 60/s, evenly and 99% at one",
				"0.95 to 1.05 of the rate; again 2 s after a checker is killed (plus one burst) or joins")
			s := stackOf(t, n)
			site := stacktest.New(t, s)
			even := 1 / float64(n)
			lanes := []*lane{
				{rate: 1, burst: 5, first: even},
				{rate: 1, burst: 5, first: 0.99},
				{rate: 20, burst: 20, first: even},
				{rate: 20, burst: 20, first: 0.99},
				{rate: 60, burst: 60, first: even},
			}
			for _, l := range lanes {
				l.key = site.Key(site.Plan(wire.CreatePlan{Rate: &l.rate, Burst: &l.burst}))
				site.Opens("hello", l.key)
			}
			w := &world{t: t, site: site, replicas: stacktest.Replicas(t, s), lanes: lanes}
			w.live.Store(int64(n))
			end := w.load()
			defer end()
			w.pass(short() + again) // bursts and debts are used up
			before := sent(t, s)
			w.measure("sustained", sustained(), slack{})
			bytes := (sent(t, s) - before) / sustained().Seconds() / float64(n*(n-1)*len(lanes))
			w.live.Store(int64(n - 1))
			last := fmt.Sprintf("checker-%d", n-1)
			check.OK(t, s.Kill(last))
			w.pass(again)
			w.measure("killed", short(), slack{given: true})
			check.OK(t, s.Restart(t.Context(), last))
			w.live.Store(int64(n))
			w.pass(again)
			w.measure("joined", short(), slack{debt: n - 1})
			row.Measured(fmt.Sprintf("%s; %.0f bytes/s per key and peer", strings.Join(w.seen, "; "), bytes))
		})
	}
}

type world struct {
	t        *testing.T
	site     *stacktest.Site
	replicas []stacktest.Replica
	lanes    []*lane
	live     atomic.Int64 // number of used replicas, from the first on
	seen     []string
}

func (w *world) load() (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for _, l := range w.lanes {
		all.Go(func() {
			tick := time.NewTicker(time.Duration(float64(time.Second) / (3 * l.rate)))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					all.Go(func() { w.ask(ctx, l) })
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (w *world) ask(ctx context.Context, l *lane) {
	r := w.replicas[0]
	if rand.Float64() >= l.first {
		r = w.replicas[1+rand.Int64N(w.live.Load()-1)]
	}
	switch a, err := r.Check(ctx, w.site.Project+"-"+w.site.Env, "hello", l.key.Full); {
	case err != nil:
		l.failed.Add(1)
	case a.Status == http.StatusOK:
		l.allowed.Add(1)
	case a.Status == http.StatusTooManyRequests:
		l.refused.Add(1)
	default:
		w.t.Errorf("%v: got %d %s, want 200 or 429", l, a.Status, a.Body)
	}
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	select {
	case <-w.t.Context().Done():
	case <-time.After(d):
	}
}

// tries is the maximum number of measurements if the machine is too slow.
const tries = 3

// slack is the permitted temporary difference from the rate.
type slack struct {
	given bool // permits an additional burst, because the counts of a dead replica are refunded
	debt  int  // permits this many requests less: before a new replica exchanges counts with the others, they may spend the same tokens
}

// measure checks each lane's rate for d.
func (w *world) measure(what string, d time.Duration, differs slack) {
	w.t.Helper()
	for range tries {
		allowed, pace, took := w.observe(d)
		if pace < 0.8 {
			w.t.Logf("%s: the machine is too slow: at worst, %.2f of the responses arrived in time", what, pace)
			continue
		}
		least, largest := math.Inf(1), 0.0
		for i, l := range w.lanes {
			got, nominal := float64(allowed[i]), l.rate*took.Seconds()
			w.t.Logf("%d replicas, %s, %v: %.3f of the rate", len(w.replicas), what, l, got/nominal)
			least, largest = min(least, got/nominal), max(largest, got/nominal)
			most := 1.05*nominal + 1 // one request at the edges of the measured time
			if differs.given {
				most += float64(l.burst)
			}
			if got < 0.95*nominal-1-float64(differs.debt) || got > most {
				w.t.Errorf("%s, %v: allowed requests: got %.0f, want about %.1f", what, l, got, nominal)
			}
		}
		w.seen = append(w.seen, fmt.Sprintf("%s %.3f to %.3f (%s)", what, least, largest, took.Round(time.Second)))
		return
	}
}

// observe returns the allowed requests of each lane. pace is the smallest share of requests with
// a response: tokens that arrived while the machine was stalled could not be used.
func (w *world) observe(d time.Duration) (allowed []int64, pace float64, took time.Duration) {
	w.t.Helper()
	const part = 2 * time.Second
	begun := time.Now()
	pace = 1
	before := make([]int64, len(w.lanes))
	for i, l := range w.lanes {
		before[i] = l.allowed.Load()
	}
	for took < d {
		pace = min(pace, w.kept(part))
		took = time.Since(begun)
	}
	allowed = make([]int64, len(w.lanes))
	for i, l := range w.lanes {
		allowed[i] = l.allowed.Load() - before[i]
	}
	return allowed, pace, took
}

// kept returns the smallest share of a lane's requests that got a response within d.
func (w *world) kept(d time.Duration) (least float64) {
	w.t.Helper()
	answered := func(l *lane) int64 { return l.allowed.Load() + l.refused.Load() }
	before := make([]int64, len(w.lanes))
	for i, l := range w.lanes {
		before[i] = answered(l)
	}
	begun := time.Now()
	w.pass(d)
	least = 1
	for i, l := range w.lanes {
		least = min(least, float64(answered(l)-before[i])/(3*l.rate*time.Since(begun).Seconds()-3))
	}
	return least
}

func sent(t *testing.T, s *stack.Stack) (sum float64) {
	t.Helper()
	for _, n := range metric(t, s, "sluice_checker_peer_bytes_total", "sent") {
		sum += n
	}
	return sum
}

func decided(t *testing.T, s *stack.Stack) []float64 {
	t.Helper()
	return metric(t, s, "sluice_checker_decisions_total", "")
}

// metric returns a counter's sum at each replica, of one label value unless value is empty.
func metric(t *testing.T, s *stack.Stack, name, value string) (all []float64) {
	t.Helper()
	for _, url := range s.Info().CheckerMetrics {
		res, err := http.Get(url)
		check.OK(t, err)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(res.Body)
		_ = res.Body.Close()
		check.OK(t, err)
		sum := 0.0
		for _, m := range families[name].GetMetric() {
			if value == "" || m.GetLabel()[0].GetValue() == value {
				sum += m.GetCounter().GetValue()
			}
		}
		all = append(all, sum)
	}
	return all
}
