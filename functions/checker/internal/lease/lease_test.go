package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

var errFault = errors.New("injected")

// ledgers is a store with versions. A write on top of an outdated version has no effect.
type ledgers struct {
	mu    sync.Mutex
	docs  map[usage.QuotaPeriod]*ledgerDoc
	late  []func() // failed writes that may still land
	fault fault
	done  int
}

type ledgerDoc struct {
	held    map[string]int64
	version int
}

type fault int

const (
	none    fault = iota
	down          // reads fail
	lost          // no effect, and the call fails
	unclear       // an effect, but the call fails
	late          // an effect later, but the call fails
)

func newLedgers() *ledgers {
	return &ledgers{docs: map[usage.QuotaPeriod]*ledgerDoc{}}
}

func (l *ledgers) Lease(_ context.Context, t usage.QuotaPeriod, process string, force bool, change func(own, others int64) int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == down {
		return errFault
	}
	d := l.docs[t]
	if d == nil {
		d = &ledgerDoc{held: map[string]int64{}}
		l.docs[t] = d
	}
	others, version := int64(0), d.version
	for by, n := range d.held {
		if by != process {
			others += n
		}
	}
	holds := change(d.held[process], others)
	if holds == d.held[process] && !force {
		return nil
	}
	land := func() {
		if d.version == version {
			d.held[process] = holds
			d.version++
			l.done++
		}
	}
	switch l.fault {
	case lost:
		return errFault
	case late:
		l.late = append(l.late, land)
		return errFault
	case unclear:
		land()
		return errFault
	case none, down:
	}
	land()
	return nil
}

func (l *ledgers) EndLeases(_ context.Context, all []usage.Ended) ([]usage.Ended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == down {
		return all, errFault
	}
	var writes []func()
	for _, e := range all {
		d := l.docs[e.QuotaPeriod]
		if d == nil {
			d = &ledgerDoc{held: map[string]int64{}}
			l.docs[e.QuotaPeriod] = d
		}
		version, spent := d.version, d.held[ended]+min(d.held[e.Process], e.Spent)
		land := func() {
			if d.version == version {
				d.held[ended] = spent
				delete(d.held, e.Process)
				d.version++
				l.done++
			}
		}
		writes = append(writes, land)
	}
	switch l.fault {
	case lost:
	case late:
		l.late = append(l.late, writes...)
	case none, unclear, down:
		for _, land := range writes {
			land()
		}
	}
	if l.fault == none {
		return nil, nil
	}
	return all, errFault
}

const ended = "ended"

type cluster struct {
	store   *ledgers
	now     time.Time
	limits  plan.Limits
	live    []*replica
	made    int
	dir     string // parent of the pods' directories; "" for no records
	allowed map[usage.QuotaPeriod]int64
	lost    []*replica // killed together with their pods
	dead    int64      // held by killed replicas
}

type replica struct {
	*Manager

	buckets *bucket.Buckets
	view    *view.View
	start   time.Time
	pod     string
	silent  bool // without a valid proof
	allowed map[usage.QuotaPeriod]int64
}

const testKey = apikey.Prefix("abcdefgh")

func newCrowd(t fataler, dir string, n int, l plan.Limits) *cluster {
	c := &cluster{store: newLedgers(), now: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC), limits: l, dir: dir, allowed: map[usage.QuotaPeriod]int64{}}
	for range n {
		c.join(t)
	}
	return c
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func (c *cluster) join(t fataler) {
	t.Helper()
	if c.dir == "" {
		c.start(t, "")
		return
	}
	pod, err := os.MkdirTemp(c.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	c.start(t, pod)
}

func (c *cluster) start(t fataler, pod string) *replica {
	t.Helper()
	var dir *spent.Dir
	if pod != "" {
		var err error
		if dir, err = spent.Open(pod); err != nil {
			t.Fatal(err)
		}
	}
	r := &replica{buckets: &bucket.Buckets{}, start: c.now, pod: pod, allowed: map[usage.QuotaPeriod]int64{}}
	r.Manager = New(Config{
		Run: fmt.Sprint("run", c.made), Store: c.store, View: func() *view.View { return r.view }, Buckets: r.buckets, Start: c.now, Spent: dir,
		Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
	})
	c.made++
	r.buckets.Grow(1)
	r.Grow(1)
	if pod != "" {
		all, _ := r.openFile() // recoverAll reads them again
		for _, e := range all {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.live = append(c.live, r)
	c.show(r)
	c.count()
	return r
}

func (r *replica) recoverAll(ctx context.Context) {
	if r.pod == "" {
		return
	}
	all, _ := r.endedFiles()
	for _, e := range all {
		r.recoverLeases(ctx, e)
	}
}

func (c *cluster) show(r *replica) {
	key := apikey.Key{Prefix: testKey, Namespace: "shop-prod", Environment: "prod", Plan: "plan-a", Status: apikey.Active}
	v := (&view.View{}).WithKeys(true, []view.KeyChange{{Prefix: testKey, Key: &key}})
	r.view = v.WithPlans(true, []view.PlanChange{{Document: "shop-prod.plan-a", Limits: c.limits}})
	r.Changed()
}

func (c *cluster) count() {
	for _, r := range c.live {
		r.SetPeerCount(len(c.live) - 1)
	}
}

// tick runs a replica's reconciler and notifies its peers of shortages.
func (c *cluster) tick(ctx context.Context, r *replica) {
	r.Tick(ctx, c.now)
	r.writes.Wait()
	for slot := range r.Shortages().Drain() {
		for _, o := range c.live {
			if o != r {
				o.NotePeerShortage(slot, c.now)
			}
		}
	}
}

func (c *cluster) request(r *replica) Result {
	l := r.limits()
	if r.silent || !l.Hard || !r.buckets.Take(0, l.Bucket, int64(c.now.Sub(r.start))) {
		return Unleased
	}
	answer := r.Spend(0, l, c.now.UnixNano())
	if answer == Spent {
		c.allowed[usage.QuotaPeriodAt(testKey, l.Period, c.now)]++
		r.allowed[usage.QuotaPeriodAt(testKey, l.Period, c.now)]++
	}
	return answer
}

func (c *cluster) drain(ctx context.Context) {
	c.store.fault = none
	for round := range 8 {
		c.now = c.now.Add(2 * time.Second)
		for _, r := range c.live {
			r.recoverAll(ctx)
			if r.silent && round == 5 {
				r.Lapse()
				r.silent = false
			}
			for range 60 {
				c.request(r)
			}
			c.tick(ctx, r)
		}
	}
}

func (r *replica) limits() view.Limits {
	k, _ := r.view.Find([]byte(testKey))
	l, _ := k.Limits()
	return l
}

// kill stops a replica without notice. The directory of its pod remains.
func (c *cluster) kill(t fataler, at int) *replica {
	t.Helper()
	r := c.live[at]
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.live = append(c.live[:at:at], c.live[at+1:]...)
	c.count()
	return r
}

func (r *replica) sleep() {
	select {
	case <-r.wakeup:
	default:
	}
}

func (r *replica) holds() (sum int64) {
	for _, h := range r.holdings {
		sum += h.unspent.Load()
	}
	return sum
}

// TestNeverExceeded tests promise P9 for any faults and changes. Once all replicas apply a new
// quota, they allow nothing beyond it.
func TestNeverExceeded(t *testing.T) {
	t.Parallel()
	dir := ""
	neverExceeded := func(t *rapid.T) {
		quotas := rapid.Int64Range(1, 300)
		c := newCrowd(t, dir, rapid.IntRange(1, 8).Draw(t, "replicas"), plan.Limits{
			Rate: rapid.SampledFrom([]float64{1, 20, 1000}).Draw(t, "rate"), Burst: rapid.Int64Range(1, 200).Draw(t, "burst"),
			Quota: quotas.Draw(t, "quota"), Period: plan.Day, Hard: true,
		})
		trouble := rapid.IntRange(0, 3).Draw(t, "trouble")
		luck := func(t *rapid.T) {
			c.store.fault = none
			if rapid.IntRange(0, 9).Draw(t, "luck") < trouble {
				c.store.fault = rapid.SampledFrom([]fault{down, lost, unclear, late}).Draw(t, "fault")
			}
		}
		most := map[usage.QuotaPeriod]int64{}
		some := func() *replica { return c.live[rapid.IntRange(0, len(c.live)-1).Draw(t, "replica")] }
		note := func() {
			name := usage.QuotaPeriodAt(testKey, plan.Day, c.now)
			for _, r := range c.live {
				most[name] = max(most[name], r.limits().Quota)
			}
		}
		check := func(t *rapid.T) {
			note()
			for name, n := range c.allowed {
				if n > most[name] {
					t.Fatalf("allowed: got %d, want at most %d in %s", n, most[name], name.ID())
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"request": func(t *rapid.T) {
				r := some()
				for range rapid.IntRange(1, 60).Draw(t, "requests") {
					c.request(r)
				}
			},
			"tick": func(t *rapid.T) {
				luck(t)
				c.tick(t.Context(), some())
			},
			"pass": func(t *rapid.T) {
				d := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, time.Minute, 6 * time.Hour}).Draw(t, "time")
				c.now = c.now.Add(d)
			},
			"set back": func(t *rapid.T) {
				c.now = c.now.Add(-rapid.SampledFrom([]time.Duration{time.Second, 25 * time.Hour}).Draw(t, "time"))
			},
			"land": func(t *rapid.T) {
				if n := len(c.store.late); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(t, "write")
					c.store.late[at]()
					c.store.late = append(c.store.late[:at:at], c.store.late[at+1:]...)
				}
			},
			"kill": func(t *rapid.T) {
				if len(c.live) > 1 {
					c.lost = append(c.lost, c.kill(t, rapid.IntRange(0, len(c.live)-1).Draw(t, "who")))
				}
			},
			"silent": func(*rapid.T) { some().silent = true },
			"fresh": func(*rapid.T) {
				if r := some(); r.silent {
					r.Lapse()
					r.silent = false
				}
			},
			"release": func(t *rapid.T) {
				var all []usage.Ended
				for _, r := range append(slices.Clone(c.live), c.lost...) {
					if r.silent || !slices.Contains(c.live, r) {
						name := usage.QuotaPeriodAt(testKey, plan.Day, c.now)
						all = append(all, usage.Ended{QuotaPeriod: name, Process: r.cfg.Run, Spent: r.allowed[name]})
					}
				}
				luck(t)
				if len(all) > 0 {
					_, _ = c.store.EndLeases(t.Context(), all[rapid.IntRange(0, len(all)-1).Draw(t, "whose"):][:1])
				}
			},
			"crash": func(t *rapid.T) {
				c.start(t, c.kill(t, rapid.IntRange(0, len(c.live)-1).Draw(t, "who")).pod)
			},
			"recover": func(t *rapid.T) {
				luck(t)
				some().recoverAll(t.Context())
			},
			"join": func(t *rapid.T) {
				if len(c.live) < 8 {
					c.join(t)
				}
			},
			"stop": func(t *rapid.T) {
				if len(c.live) > 1 {
					luck(t)
					r := c.kill(t, rapid.IntRange(0, len(c.live)-1).Draw(t, "who"))
					r.giveUp(t.Context(), c.now)
				}
			},
			"quota": func(t *rapid.T) {
				c.limits.Quota = quotas.Draw(t, "new")
			},
			"quota for all": func(t *rapid.T) {
				c.limits.Quota = quotas.Draw(t, "new")
				luck(t)
				for _, r := range c.live {
					c.show(r)
					r.scannedAt = time.Time{}
					c.tick(t.Context(), r)
				}
				if c.limits.Hard {
					name := usage.QuotaPeriodAt(testKey, plan.Day, c.now)
					most[name] = max(c.allowed[name], c.limits.Quota)
				}
			},
			"mode":   func(*rapid.T) { c.limits.Hard = !c.limits.Hard },
			"view":   func(*rapid.T) { c.show(some()) },
			"wanted": func(*rapid.T) { some().NotePeerShortage(0, c.now) },
		})
		c.drain(t.Context())
		check(t)
	}
	for i := range 20 { // of a hundred schedules each
		dir = ""
		if i%5 == 0 { // files are slow
			dir = t.TempDir()
		}
		rapid.Check(t, neverExceeded)
	}
}

func TestCrashesLoseNothing(t *testing.T) {
	t.Parallel()
	const quota, kills = 1000, 20
	c := newCrowd(t, t.TempDir(), 1, plan.Limits{Rate: 10, Burst: 100, Quota: quota, Period: plan.Month, Hard: true})
	name := usage.QuotaPeriodAt(testKey, plan.Month, c.now)
	for range kills {
		r := c.live[0]
		c.tick(t.Context(), r)
		c.request(r)
		r = c.start(t, c.kill(t, 0).pod)
		c.now = c.now.Add(3 * time.Minute)
		r.recoverAll(t.Context())
	}
	if held := c.store.docs[name].held; held[ended] != kills || len(held) != 1 {
		t.Errorf("held: got %v, want %d by ended processes", held, kills)
	}
	for range 10 * quota {
		c.now = c.now.Add(100 * time.Millisecond)
		c.tick(t.Context(), c.live[0])
		c.request(c.live[0])
	}
	if got := c.allowed[name]; got != quota {
		t.Errorf("allowed: got %d, want %d", got, quota)
	}
}

func TestReleasedLeaseIsNotSpent(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "", 2, plan.Limits{Rate: 10, Burst: 100, Quota: 100, Period: plan.Day, Hard: true})
	name := usage.QuotaPeriodAt(testKey, plan.Day, c.now)
	a, b := c.live[0], c.live[1]
	c.tick(t.Context(), a)
	c.request(a)
	if _, err := c.store.EndLeases(t.Context(), []usage.Ended{{QuotaPeriod: name, Process: a.cfg.Run, Spent: 1}}); err != nil {
		t.Fatal(err)
	}
	a.Lapse()
	if got := c.request(a); got != Unleased {
		t.Errorf("result before a confirmation: got %v, want Unleased", got)
	}
	for range 500 {
		c.now = c.now.Add(100 * time.Millisecond)
		for _, r := range []*replica{b, a} {
			c.tick(t.Context(), r)
			c.request(r)
		}
	}
	if got := c.allowed[name]; got < 90 || got > 100 {
		t.Errorf("allowed: got %d, want 90 to 100", got)
	}
}

func TestSpendAllocatesNothing(t *testing.T) {
	c := newCrowd(t, t.TempDir(), 1, plan.Limits{Rate: 1000, Burst: 1000, Quota: 100_000, Period: plan.Day, Hard: true})
	r := c.live[0]
	c.tick(t.Context(), r)
	l, now := r.limits(), c.now.UnixNano()
	if n := testing.AllocsPerRun(100, func() { r.Spend(0, l, now) }); n != 0 || r.holds() == 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

func TestRunRecovers(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, t.TempDir(), 1, plan.Limits{Rate: 10, Burst: 100, Quota: 100, Period: plan.Month, Hard: true})
	c.tick(t.Context(), c.live[0])
	for range 7 {
		c.request(c.live[0])
	}
	pod := c.kill(t, 0).pod
	r := c.start(t, pod)
	if err := r.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.file.Discard(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	for c.request(r) != Spent {
		select {
		case <-t.Context().Done():
			t.Fatal("no request was allowed")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-done
	name := usage.QuotaPeriodAt(testKey, plan.Month, c.now)
	if held := c.store.docs[name].held; held[ended] != c.allowed[name] || len(held) != 1 {
		t.Errorf("held: got %v, want the %d spent", held, c.allowed[name])
	}
	if files, err := os.ReadDir(pod); len(files) != 0 || err != nil {
		t.Errorf("files: got %v, %v, want none", files, err)
	}
}

// TestLateWrite tests a release that lands after its process has leased the same number again.
func TestLateWrite(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, t.TempDir(), 2, plan.Limits{Rate: 1000, Burst: 1000, Quota: 100, Period: plan.Day, Hard: true})
	a, b := c.live[0], c.live[1]
	c.tick(t.Context(), a)
	held := a.holds()
	c.store.fault = late
	a.NotePeerShortage(0, c.now)
	c.tick(t.Context(), a)
	if a.holds() != 0 || len(c.store.late) != 1 {
		t.Fatalf("got %d held and %d late writes, want 0 and 1", a.holds(), len(c.store.late))
	}
	c.store.fault = none
	c.now = c.now.Add(time.Minute)
	c.request(a)
	c.tick(t.Context(), a)
	if a.holds() != held {
		t.Fatalf("held: got %d, want %d again", a.holds(), held)
	}
	c.store.late[0]()
	for range 100 {
		c.tick(t.Context(), b)
		c.request(b)
	}
	for range 100 {
		c.request(a)
	}
	for name, n := range c.allowed {
		if n > c.limits.Quota {
			t.Errorf("allowed: got %d, want at most %d in %s", n, c.limits.Quota, name.ID())
		}
	}
}

// TestHardQuotaIsServedCompletely tests that a quota is served completely, and up to its last 2% without Unleased.
func TestHardQuotaIsServedCompletely(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 8} {
		for _, first := range []float64{1 / float64(n), 0.99} {
			for _, killed := range []bool{false, true} {
				if killed && n == 1 {
					continue
				}
				const rate, quota = 100.0, 4_000
				c := newCrowd(t, t.TempDir(), n, plan.Limits{Rate: rate, Burst: 10, Quota: quota, Period: plan.Month, Hard: true})
				s := c.serve(t, rate, first, killed)
				name := fmt.Sprintf("%d replicas, %.0f %% at the first, killed %v", n, 100*first, killed)
				t.Logf("%-40s %5d of %d allowed, %3d held by the killed, first Unleased after %5d, %2d Unleased, %3d writes",
					name, s.served, quota, c.dead, s.before, s.unleased, c.store.done)
				if s.served+c.dead < quota*99/100 || c.dead > quota/100 {
					t.Errorf("%s: got %d allowed and %d held by the killed replica", name, s.served, c.dead)
				}
				if s.before < quota*98/100 {
					t.Errorf("%s: allowed before the first Unleased: got %d, want at least 98%% of the quota", name, s.before)
				}
			}
		}
	}
}

// TestCost tests that writes increase with time and replicas, not with requests.
func TestCost(t *testing.T) {
	t.Parallel()
	const requests, rate = 20_000, 100.0
	for _, n := range []int{1, 2, 8} {
		c := newCrowd(t, t.TempDir(), n, plan.Limits{Rate: rate, Burst: 20, Quota: 1_000_000_000, Period: plan.Month, Hard: true})
		for _, r := range c.live {
			c.tick(t.Context(), r)
		}
		if c.store.done != n {
			t.Errorf("writes before the first request: got %d, want %d", c.store.done, n)
		}
		for i := range requests {
			c.now = c.now.Add(time.Second / rate)
			r := c.live[i%n]
			c.request(r)
			if len(r.wakeup) > 0 {
				r.sleep()
				c.tick(t.Context(), r)
			}
		}
		t.Logf("%d replicas, %v requests a second: %d writes for a million, as many reads", n, rate, 50*c.store.done)
		if most := n * int(requests/rate) / 3; c.store.done > most {
			t.Errorf("%d replicas: got %d writes, want at most %d", n, c.store.done, most)
		}
	}
}

type service struct {
	served, unleased int64
	before           int64 // before the first Unleased
}

// serve sends requests at three times the rate until the quota is used up.
func (c *cluster) serve(t *testing.T, rate, first float64, kill bool) (s service) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	shared := &bucket.Buckets{}
	shared.Grow(1)
	for _, r := range c.live {
		r.buckets = shared
		r.cfg.Buckets = shared
		c.tick(t.Context(), r)
	}
	start, step := c.now, time.Duration(float64(time.Second)/(3*rate))
	lastly := 0
	for i := 0; lastly < 500; i++ {
		c.now = c.now.Add(step)
		r := c.live[0]
		if n := len(c.live); n > 1 && rnd.Float64() >= first {
			r = c.live[1+rnd.IntN(n-1)]
		}
		for _, r := range c.live {
			if i%3 == 0 && len(r.wakeup) > 0 || i%30 == 0 { // about 10 ms and 100 ms
				r.sleep()
				c.tick(t.Context(), r)
			}
		}
		l := r.limits()
		if !shared.Take(0, l.Bucket, int64(c.now.Sub(start))) {
			continue
		}
		lastly++
		switch r.Spend(0, l, c.now.UnixNano()) {
		case Spent:
			lastly = 0
			s.served++
		case Unleased:
			if s.unleased++; s.unleased == 1 {
				s.before = s.served
			}
		case Exhausted:
		}
		if kill && s.served == 2000 {
			c.dead += c.kill(t, len(c.live)-1).holds()
			kill = false
		}
	}
	if s.unleased == 0 {
		s.before = s.served
	}
	return s
}

func (r *replica) giveUp(ctx context.Context, now time.Time) {
	r.accounts.Store(&map[uint32]*account{})
	_, _ = r.cfg.Store.EndLeases(ctx, r.endedHoldings(now))
}

type hanging struct {
	*ledgers

	release chan struct{}
}

func (h hanging) Lease(ctx context.Context, t usage.QuotaPeriod, process string, force bool, change func(own, others int64) int64) error {
	<-h.release
	return h.ledgers.Lease(ctx, t, process, force, change)
}

func TestHangingWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = maxWrites + 4
		var changes []view.KeyChange
		for i := range keys {
			k := apikey.Key{Prefix: apikey.Prefix(fmt.Sprintf("hang%04d", i)), Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active}
			changes = append(changes, view.KeyChange{Prefix: k.Prefix, Key: &k})
		}
		l := plan.Limits{Rate: 1, Burst: 1, Quota: 100, Period: plan.Day, Hard: true}
		v := (&view.View{}).WithKeys(true, changes).WithPlans(true, []view.PlanChange{{Document: "shop-prod.plan-a", Limits: l}})
		h := hanging{newLedgers(), make(chan struct{})}
		defer close(h.release)
		b := New(Config{
			Run: "run", Store: h, View: func() *view.View { return v }, Buckets: &bucket.Buckets{}, Start: time.Now(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		b.cfg.Buckets.Grow(keys)
		b.Grow(keys)
		b.Changed()
		ticked := make(chan struct{})
		go func() {
			b.Tick(t.Context(), time.Now())
			close(ticked)
		}()
		synctest.Wait()
		select {
		case <-ticked:
		default:
			t.Fatal("Tick waits for writes that hang")
		}
		for range keys - maxWrites {
			h.release <- struct{}{}
			synctest.Wait()
			<-b.wakeup
			b.Tick(t.Context(), time.Now())
		}
		for range maxWrites {
			h.release <- struct{}{}
		}
		synctest.Wait()
		if h.done != keys {
			t.Errorf("written keys: got %d, want %d", h.done, keys)
		}
	})
}
