package chaos

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

type surface int

const (
	gate surface = iota
	management
	webhook
	deploys
	rollup
	quota
	acknowledgement
	sharedRates
	events
	keyless
	surfaces
)

func (s surface) String() string {
	return [...]string{"gate", "management", "webhook", "deploys", "rollup", "quota", "acknowledgement", "shared rate", "events", "keyless"}[s]
}

// cell checks a surface during a fault and after it. After the fault, [trial.recovered] checks
// every surface too.
type cell struct {
	want   string // "" for the default expectation
	during func(*trial)
	after  func(*trial)
}

type fault struct {
	name  string
	begin func(*trial)
	end   func(*trial)
	cells [surfaces]cell
}

// trial is one run of a fault. Each surface's test has a copy.
type trial struct {
	*scene

	t       *testing.T
	fault   string
	traffic *traffic
	key     stacktest.Key
	doomed  stacktest.Key
	metered stacktest.Key // with a quota
	leaky   stacktest.Key
	rated   stacktest.Key // with a rate

	witnesses [witnesses]stacktest.Key
	results   *waitResults
	came      *sync.WaitGroup // for the call while the fault begins

	began   time.Time
	there   time.Time // when the fault was effective
	ended   time.Time
	revoked *time.Time
	lost    *uint64
	forgot  *uint64 // of the metered key
	notes   []string

	lives *[]lived // keys with expected events

	expiring stacktest.Key // expires within the step of the clock
	before   string
	ahead    *string
	logged   map[string]int64

	waiting *sync.WaitGroup
	answers chan int
}

// run tries a fault and returns its rows.
func (f fault) run(t *testing.T, s *scene) []row {
	t.Helper()
	x := &trial{
		scene: s.with(t), t: t, fault: f.name, revoked: new(time.Time), lost: new(uint64), forgot: new(uint64),
		ahead: new(string), results: &waitResults{}, came: &sync.WaitGroup{}, lives: &[]lived{}, waiting: &sync.WaitGroup{}, answers: make(chan int, queued),
	}
	x.key, x.doomed, x.metered, x.rated, x.witnesses = x.AnyKey(), x.AnyKey(), x.meteredKey(), x.sharedKey(), x.witnessKeys()
	x.leaky = x.AnyKey()
	f.cells[sharedRates], f.cells[events], f.cells[keyless] = rateCell(f.name), eventsCell(f.name), keylessCell(f.name)
	x.traffic = startTraffic(t, x.Site, x)
	defer x.traffic.end()
	for _, y := range slices.Concat(x.traffic.keyed(), x.traffic.doomed[:], x.traffic.ofWitnesses()) {
		y.until(t, "allowed before the fault", 30*time.Second, allowed)
	}
	x.early()
	defer x.came.Wait()
	x.began = time.Now()
	over := sync.OnceFunc(func() { f.end(x) })
	defer over()
	f.begin(x)
	x.there = time.Now()
	rows := make([]row, surfaces)
	x.each("during", func(s surface, x *trial) { f.cells[s].look(x, f.cells[s].during, &rows[s]) })
	x.ended = time.Now()
	over()
	x.each("after", func(s surface, x *trial) {
		f.cells[s].look(x, f.cells[s].after, &rows[s])
		if f.name != emptyStore {
			x.recovered(s)
		}
		rows[s].failed = rows[s].failed || x.t.Failed()
	})
	x.traffic.end()
	x.invariants(&rows[gate])
	x.withinQuota(&rows[quota])
	x.nothingAfter(&rows[acknowledgement])
	x.withinRate(&rows[sharedRates])
	if f.name != emptyStore {
		x.counted(&rows[rollup])
	}
	for s := range rows {
		rows[s].surface, rows[s].want = surface(s).String(), cmp.Or(f.cells[s].want, byDefault)
	}
	return rows
}

func (x *trial) each(phase string, f func(surface, *trial)) {
	x.t.Run(phase, func(t *testing.T) {
		for s := range surfaces {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				own := *x
				own.t, own.scene = t, x.with(t)
				f(s, &own)
			})
		}
	})
}

// look runs one half of a cell and stores its result in r.
func (c cell) look(x *trial, half func(*trial), r *row) {
	defer func() {
		r.failed = r.failed || x.t.Failed()
		r.notes = append(r.notes, x.notes...)
		x.notes = nil
	}()
	if half != nil {
		half(x)
	}
}

func (x *trial) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

func (x *trial) revoke() {
	x.t.Helper()
	x.Revoke(x.doomed)
	*x.revoked = time.Now()
}

// recovered checks that the surface works again.
func (x *trial) recovered(s surface) {
	x.t.Helper()
	switch s {
	case gate:
		for _, y := range x.traffic.keyed() {
			y.until(x.t, "allowed again", time.Minute, allowed)
		}
		if x.revoked.IsZero() {
			x.revoke()
		}
		for _, y := range x.traffic.doomed {
			y.until(x.t, "denied", time.Minute, denied(http.StatusUnauthorized, "invalid_key"))
		}
	case management:
		x.eventually("create a key", func() reply { return x.createKey("after " + x.fault) }, http.StatusCreated)
	case webhook:
		img := image(x.fault, "hook-after")
		x.eventually("call the webhook", func() reply { return x.hook(img, img) }, http.StatusAccepted)
		x.Runs("hooked", img)
		x.once("hooked", img)
	case deploys:
		img := image(x.fault, "hand-after")
		x.eventually("deploy", func() reply { return x.deploy(img) }, http.StatusAccepted)
		x.Runs("byhand", img)
		x.Settled("byhand", x.revisionsOf("byhand", img)[0], "live") // the newest, if a call without a response created one
	case rollup:
		x.eventually("roll up", x.roll, http.StatusOK)
	case quota:
		for _, y := range x.traffic.metered {
			y.until(x.t, "deciding again", time.Minute, either(allowed, overLimit))
		}
	case acknowledgement:
		x.eventually("change a key and wait", func() reply {
			return x.changing(http.MethodPatch, "api-keys/"+x.key.ID, map[string]any{"name": "at " + time.Now().Format(time.RFC3339Nano)}, shortWait)
		}, http.StatusOK)
	case sharedRates, events, keyless, surfaces:
	}
}

// eventually repeats a call until it returns status: connections may be broken.
func (x *trial) eventually(what string, call func() reply, status int) {
	x.t.Helper()
	for begin := time.Now(); ; wait(x.t, 200*time.Millisecond) {
		r := call()
		if r.status == status {
			return
		}
		if time.Since(begin) > time.Minute {
			x.t.Errorf("%s: got %v a minute after the fault, want %d: %.200s", what, r, status, r.body)
			return
		}
	}
}

// once checks that exactly one revision has the image and becomes live.
func (x *trial) once(app, img string) {
	x.t.Helper()
	numbers := x.revisionsOf(app, img)
	if len(numbers) != 1 {
		x.t.Errorf("%s: got revisions %v with %s, want one", app, numbers, img)
		return
	}
	x.Settled(app, numbers[0], "live")
}

// invariants hold under every fault.
func (x *trial) invariants(r *row) {
	x.t.Helper()
	fail := func(format string, args ...any) {
		r.failed = true
		x.t.Errorf(format, args...)
	}
	if n := x.traffic.keyless.count(time.Time{}, time.Time{}, allowed); n != 0 {
		fail("without a key: got %d allowed requests, want 0", n)
	}
	for _, y := range x.traffic.doomed {
		if n := y.count(x.revoked.Add(ceiling), time.Time{}, allowed); n != 0 {
			fail("%s: got %d allowed requests after the ceiling, want 0", y.name, n)
		}
	}
	if n := x.traffic.open.count(time.Time{}, time.Time{}, not(allowed)); n != 0 {
		fail("app without a gate: got %d failed requests, want 0", n)
	}
}

func (x *trial) counted(r *row) {
	x.t.Helper()
	var least, more uint64
	for _, y := range x.traffic.keyed() {
		least += uint64(y.count(time.Time{}, time.Time{}, allowed))
		more += uint64(y.count(time.Time{}, time.Time{}, unclear))
	}
	least -= min(*x.lost, least)
	more += *x.lost
	got := x.reported(least, least+more)
	if got < least || got > least+more {
		r.failed = true
		x.t.Errorf("reported requests: got %d, want %d to %d", got, least, least+more)
	}
	if more == 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d requests, exact", got))
	} else {
		r.notes = append(r.notes, fmt.Sprintf("%d requests (%d to %d)", got, least, least+more))
	}
}

// reported returns the key's total once it has remained within the bounds for a flush, or after a
// minute.
func (x *trial) reported(least, most uint64) (total uint64) {
	x.t.Helper()
	begin := time.Now()
	within := begin
	for {
		u, err := x.Client.Usage(x.t.Context(), x.Project, x.key.ID, "", "")
		check.OK(x.t, err)
		if u.Totals.Allowed != total || total < least {
			total, within = u.Totals.Allowed, time.Now()
		}
		settled := least == most && total == least || total >= least && time.Since(within) > flushInterval+writeTime
		if settled || time.Since(begin) > time.Minute {
			return total
		}
		wait(x.t, 200*time.Millisecond)
	}
}

type row struct {
	surface, want string
	notes         []string
	failed        bool
}

func (r row) verdict() string {
	if r.failed {
		return "FAILED"
	}
	return "passed"
}

func (r row) String() string {
	return fmt.Sprintf("%s: %s: %s; %s", r.surface, r.want, r.verdict(), strings.Join(r.notes, "; "))
}
