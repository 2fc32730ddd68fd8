package chaos

import (
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

// surface is what is looked at under each fault.
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
	surfaces // how many there are
)

func (s surface) String() string {
	return [...]string{"gate", "management", "webhook", "deploys", "rollup", "quota", "acknowledgement", "shared rate", "events", "keyless"}[s]
}

// cell says what must happen to one surface, and looks: during the fault, and once
// it is over. Beside these, every surface must be as before when a fault is over
// (see [trial.recovered]).
type cell struct {
	must   string
	during func(*trial)
	after  func(*trial)
}

// fault is one row of the table.
type fault struct {
	name  string
	begin func(*trial)
	end   func(*trial)
	cells [surfaces]cell
}

// trial is one fault as it is tried; each surface's test has its own copy.
type trial struct {
	*scene

	t       *testing.T
	fault   string
	traffic *traffic
	key     stacktest.Key // good all the time
	doomed  stacktest.Key // revoked before the fault or during it
	metered stacktest.Key // with a quota that both replicas' traffic uses up
	leaky   stacktest.Key // reported as leaked during the fault
	rated   stacktest.Key // with a rate that both replicas' traffic exceeds

	witnesses [witnesses]stacktest.Key // revoked by calls that wait
	sayings   *sayings                 // what these were told
	came      *sync.WaitGroup          // for the one that is under way when the fault comes

	began   time.Time // the fault
	there   time.Time // it has fully come: nothing got past it any more
	ended   time.Time
	revoked *time.Time
	lost    *uint64  // counts that the fault may take with it
	forgot  *uint64  // and of them those of the metered key
	notes   []string // figures for the table

	lives *[]lived // of keys that the sink is to be told of

	expiring stacktest.Key    // within the step of a clock
	before   string           // token of the session from before a clock's step
	ahead    *string          // and of one that was issued ahead
	logged   map[string]int64 // sizes of logs when the fault began

	waiting *sync.WaitGroup // for requests that the fault holds up
	answers chan int        // and their status
}

// run tries a fault and gives its rows.
func (f fault) run(t *testing.T, s *scene) []row {
	t.Helper()
	x := &trial{
		scene: s.with(t), t: t, fault: f.name, revoked: new(time.Time), lost: new(uint64), forgot: new(uint64),
		ahead: new(string), sayings: &sayings{}, came: &sync.WaitGroup{}, lives: &[]lived{}, waiting: &sync.WaitGroup{}, answers: make(chan int, queued),
	}
	x.key, x.doomed, x.metered, x.rated, x.witnesses = x.AnyKey(), x.AnyKey(), x.meteredKey(), x.sharedKey(), x.witnessKeys()
	x.leaky = x.AnyKey()
	f.cells[quota], f.cells[sharedRates], f.cells[events], f.cells[keyless] = quotaCell(), rateCell(f.name), eventsCell(f.name), keylessCell(f.name)
	x.traffic = startTraffic(t, x.Site, x)
	defer x.traffic.end()
	for _, y := range slices.Concat(x.traffic.keyed(), x.traffic.doomed[:], x.traffic.ofWitnesses()) {
		y.until(t, "allowed before the fault", 30*time.Second, allowed)
	}
	x.early()
	defer x.came.Wait()
	x.began = time.Now()
	over := sync.OnceFunc(func() { f.end(x) })
	defer over() // also when the fault could not begin
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
		rows[s].fault, rows[s].surface, rows[s].must = f.name, surface(s).String(), f.cells[s].must
	}
	return rows
}

// each runs the tests of the surfaces side by side.
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

// look runs one half of a cell and keeps what it found.
func (c cell) look(x *trial, half func(*trial), r *row) {
	defer func() { // also when the test ends here
		r.failed = r.failed || x.t.Failed()
		r.notes = append(r.notes, x.notes...)
		x.notes = nil
	}()
	if half != nil {
		half(x)
	}
}

// note adds a figure to the table.
func (x *trial) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// revoke ends the doomed key. From the ceiling on it may not be allowed anywhere.
func (x *trial) revoke() {
	x.t.Helper()
	x.Revoke(x.doomed)
	*x.revoked = time.Now()
}

// recovered: once the fault is over, the surface is as before.
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
			y.until(x.t, "refused", time.Minute, denied(http.StatusUnauthorized, "invalid_key"))
		}
	case management:
		x.eventually("make a key", func() reply { return x.createKey("after " + x.fault) }, http.StatusCreated)
	case webhook:
		img := image(x.fault, "hook-after")
		x.eventually("call the webhook", func() reply { return x.hook(img, img) }, http.StatusAccepted)
		x.Runs("hooked", img)
		x.once("hooked", img)
	case deploys:
		img := image(x.fault, "hand-after")
		x.eventually("deploy", func() reply { return x.deploy(img) }, http.StatusAccepted)
		x.Runs("byhand", img)
		x.Settled("byhand", x.revisionsOf("byhand", img)[0], "live") // the newest, if a call without an answer made one too
	case rollup:
		x.eventually("roll up", x.roll, http.StatusOK)
	case quota:
		for _, y := range x.traffic.metered {
			y.until(x.t, "decided again", time.Minute, either(allowed, overLimit))
		}
	case acknowledgement:
		x.eventually("change a key and wait", func() reply {
			return x.changing(http.MethodPatch, "api-keys/"+x.key.ID, map[string]any{"name": "at " + time.Now().Format(time.RFC3339Nano)}, briefly)
		}, http.StatusOK)
	case sharedRates, events, keyless, surfaces:
	}
}

// eventually calls until the answer is as wanted: connections that broke with the
// fault are made anew.
func (x *trial) eventually(what string, call func() reply, status int) {
	x.t.Helper()
	for begin := time.Now(); ; wait(x.t, 200*time.Millisecond) {
		r := call()
		if r.status == status {
			return
		}
		if time.Since(begin) > time.Minute {
			x.t.Errorf("%s: %v a minute after the fault, want %d: %.200s", what, r, status, r.body)
			return
		}
	}
}

// once: exactly one revision has the image, and it goes live.
func (x *trial) once(app, img string) {
	x.t.Helper()
	numbers := x.revisionsOf(app, img)
	if len(numbers) != 1 {
		x.t.Errorf("%s has the revisions %v with %s, want one", app, numbers, img)
		return
	}
	x.Settled(app, numbers[0], "live")
}

// invariants hold under every fault: nobody gets in without a key, a revoked key is
// refused after the ceiling, and an app without a gate is never touched.
func (x *trial) invariants(r *row) {
	x.t.Helper()
	fail := func(format string, args ...any) {
		r.failed = true
		x.t.Errorf(format, args...)
	}
	if n := x.traffic.keyless.count(time.Time{}, time.Time{}, allowed); n != 0 {
		fail("%d requests without a key were allowed", n)
	}
	for _, y := range x.traffic.doomed {
		if n := y.count(x.revoked.Add(ceiling), time.Time{}, allowed); n != 0 {
			fail("%s: %d requests were allowed later than the ceiling", y.name, n)
		}
	}
	if n := x.traffic.open.count(time.Time{}, time.Time{}, not(allowed)); n != 0 {
		fail("%d requests to the app without a gate failed", n)
	}
}

// counted: the report holds each request that was allowed, once. What got no answer
// may have been counted too.
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
		x.t.Errorf("%d requests are reported, %d to %d were allowed", got, least, least+more)
	}
	if more == 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d requests of the key, exactly", got))
	} else {
		r.notes = append(r.notes, fmt.Sprintf("%d requests of the key, of %d to %d", got, least, least+more))
	}
}

// reported is the key's total, once it has been within the bounds for a moment.
func (x *trial) reported(least, most uint64) (total uint64) {
	x.t.Helper()
	begin := time.Now()
	within := begin // since when
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

// row is a line of the table.
type row struct {
	fault, surface, must string
	notes                []string
	failed               bool
}

func (r row) verdict() string {
	if r.failed {
		return "FAILED"
	}
	return "held"
}

func (r row) String() string {
	return fmt.Sprintf("%s, %s: %s: %s; %s", r.fault, r.surface, r.must, r.verdict(), strings.Join(r.notes, "; "))
}
