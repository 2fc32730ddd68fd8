// Package checker is the gate's authorization checker: the ingress proxy asks
// it about every request to a gated app, and it answers from memory
// (specification sections 1, 3.3, 4.1, 7 and 8; decisions section 4).
//
// # The 90-second argument
//
// A revoked key must be refused everywhere within 90 seconds, whatever fails. So
// a replica may allow only while it can prove that its view of keys, plans and
// usage is younger than that. Each data type has a listener that delivers the
// collection's changes in commit order. The replica writes a canary document
// into the same collection, notes the (monotonic) time w at which it began to
// write, and waits for it to come back through the listener. Once it is back,
// everything committed before w has been seen and applied. The replica allows at
// now only while now − w < 90 s for the oldest w of the three (package canary).
// There is no proof before the first echo of all three, and a canary counts only
// together with the consistent batch that it came in, after that batch has been
// applied. A listener that ends starts over with the whole collection; until its
// canary comes back through the new one, the last proof just grows old. If what
// was heard is itself in doubt, the proof is void at once.
//
// The clock is the process's monotonic one, which setting the machine's time does
// not touch. It stands still while a whole machine is suspended: a replica on a
// virtual machine that is resumed goes on where it was, and the ceiling counts
// from there. Do not run checkers on machines that are suspended.
//
// # A decision
//
// In this order: is the address one that the proxy may ask with (else 500
// misconfigured), is it a CORS preflight (then 200 and nothing else), is the view
// fresh (else 503), is the key good for the app (else 401), is there a token in
// its bucket (else 429 rate_limited), and is there quota left (else 429
// quota_exhausted, or 503 while the replicas' counts cannot be shared and others may
// have used what is left). The decision about the key is the pure function gate.Decide;
// the view is immutable; no lock is taken and nothing is logged. Package meter
// counts, and makes the arguments why counts add up and why quotas hold.
//
// # A denial's reason
//
// Every refusal of one kind is the same to the client, byte for byte, except for its
// X-Request-Id: the client's own if it sent one that is fit for a log (package
// trace), else random. It does not depend on the reason, so it tells nothing of it.
// The reason (unknown, disabled, expired, …) is found by it in the replica's log, up
// to DENIALS_LOGGED_PER_SECOND lines a second, and among the last 4096 denials at
// GET /denials?request_id= on the private port; package denials says how a flood is
// kept from filling the disk. Allowed requests get no id and cost nothing more.
//
// # Layout
//
// internal/feed keeps listeners going, internal/view is the snapshot,
// internal/gate decides, internal/bucket limits rates, internal/meter counts and
// limits quotas, internal/canary proves freshness, internal/denials keeps reasons,
// internal/slots holds one small value per key.
package checker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/canary"
	"github.com/sluicegate/sluice/functions/checker/internal/denials"
	"github.com/sluicegate/sluice/functions/checker/internal/feed"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/gateproof"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/servercert"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Feed is what the checker listens to.
type Feed interface {
	Keys(ctx context.Context, to store.Receiver[apikey.Key]) error
	Plans(ctx context.Context, to store.Receiver[plan.Plan]) error
	Counters(ctx context.Context, to store.Receiver[usage.Counter]) error
}

// Store is what the checker writes to.
type Store interface {
	WriteCanary(ctx context.Context, t store.CanaryType, c store.Canary) error
	DeleteCanary(ctx context.Context, t store.CanaryType, replica string) error
	meter.Writer
}

// types are the data types to prove, by their index in package canary.
//
//nolint:gochecknoglobals // a constant table
var types = [canary.Types]store.CanaryType{store.CanaryKeys, store.CanaryPlans, store.CanaryCounters}

// Checker is one replica.
type Checker struct {
	cfg     Config
	feed    Feed
	store   Store
	log     *slog.Logger
	now     func() time.Time
	start   time.Time // the zero of this process's clock
	run     string    // names this process's canaries
	buckets *bucket.Buckets
	meter   *meter.Meter
	view    *snapshot
	proof   *canary.Proof
	lives   [canary.Types]life
	strange [canary.Types]unreadable
	metrics *metrics
	book    *denials.Book
	proven  atomic.Bool // all three data types have been proven at least once
	wrote   [canary.Types]firstWrite

	proofKey func() (gateproof.Key, error) // of the certificate; nil without one
}

// New makes a replica that denies until [Checker.Run] has proven its view.
func New(cfg Config, f Feed, s Store, log *slog.Logger) (*Checker, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &Checker{
		cfg: cfg, feed: f, store: s, log: log,
		now: time.Now, start: time.Now(), run: rand.Text(),
		buckets: &bucket.Buckets{}, book: denials.New(cfg.DenialsLogged, log),
	}
	c.view = &snapshot{buckets: c.buckets}
	c.view.view.Store(&view.View{})
	c.meter = meter.New(meter.Config{
		Run: c.run, Replica: cfg.Replica, Interval: cfg.FlushInterval, Writer: s,
		MaxUnshared: cfg.MaxUnshared, Horizon: cfg.MaxStaleness, Find: c.view.find, Now: c.now, Log: log,
	})
	c.view.meter = c.meter
	c.proof = canary.New(cfg.MaxStaleness, c.start)
	for t := range types {
		c.lives[t].now, c.lives[t].zero = c.now, c.start
		c.wrote[t].done = make(chan struct{})
		c.strange[t].what, c.strange[t].log = types[t], log
	}
	c.metrics = newMetrics(c)
	return c, nil
}

// Collectors are the replica's metrics.
func (c *Checker) Collectors() []prometheus.Collector { return c.metrics.all }

// Private answers GET /denials, for operators: the last denials with their reasons.
func (c *Checker) Private() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /denials", c.book)
	return mux
}

// TLSConfig serves the certificate in TLS_DIR: keys never cross the pod network
// in clear (decisions section 4). It fails when there is none to begin with.
func (c *Checker) TLSConfig() (*tls.Config, error) {
	cert, err := servercert.Open(c.cfg.TLSDir, c.now, c.log)
	if err != nil {
		return nil, err
	}
	c.proofKey = cert.ProofKey
	return cert.Config(), nil
}

// Run listens and proves until ctx ends, then takes the replica's canaries away.
func (c *Checker) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for t, listen := range c.listeners() {
		wg.Go(func() { c.loop(t, listen).Run(ctx) })
	}
	wg.Go(func() { c.keeper().Run(ctx) })
	wg.Go(func() { c.meter.Run(ctx) })
	wg.Go(func() { keepHeap(ctx) })
	wg.Go(func() { c.book.Run(ctx) })
	wg.Wait()
	return c.leave(context.WithoutCancel(ctx))
}

// listeners gives the listener of each data type, in the order of types.
func (c *Checker) listeners() [canary.Types]func(context.Context) error {
	return [canary.Types]func(context.Context) error{
		func(ctx context.Context) error {
			return c.feed.Keys(ctx, keyReceiver{c.view, &c.lives[0], &c.strange[0], c.echo(0)})
		},
		func(ctx context.Context) error {
			return c.feed.Plans(ctx, planReceiver{c.view, &c.lives[1], &c.strange[1], c.echo(1)})
		},
		func(ctx context.Context) error {
			return c.feed.Counters(ctx, counterReceiver{c.meter, &c.lives[2], &c.strange[2], c.echoOfCounters})
		},
	}
}

// loop keeps one listener going.
func (c *Checker) loop(t int, listen func(context.Context) error) *feed.Loop {
	return &feed.Loop{
		Name: string(types[t]),
		Listen: func(ctx context.Context) error {
			c.wrote[t].wait(ctx)
			c.lives[t].begin()
			return listen(ctx)
		},
		Ended: func(err error) {
			if errors.Is(err, store.ErrDoubt) {
				c.proof.Doubt(t)
			}
		},
		Silence:  func() time.Duration { return c.lives[t].silence(c.proof.Age(t, c.now())) },
		Patience: c.cfg.MaxStaleness / 2,
		Now:      c.now,
		Log:      c.log,
	}
}

// keeper writes the canaries.
func (c *Checker) keeper() *canary.Keeper {
	k := &canary.Keeper{
		Proof:    c.proof,
		Interval: c.cfg.CanaryInterval,
		Coming:   func(t int) bool { return c.lives[t].coming() },
		Timeout:  c.cfg.MaxStaleness / 2,
		Now:      c.now,
		Log:      c.log,
	}
	for t := range types {
		k.Writers[t] = func(ctx context.Context, seq int64) error {
			defer c.wrote[t].over()
			return c.store.WriteCanary(ctx, types[t], store.Canary{Replica: c.cfg.Replica, Run: c.run, Seq: seq})
		}
	}
	return k
}

// echo counts the canaries of a batch that are this process's own.
func (c *Checker) echo(t int) func([]store.Canary) {
	return func(heard []store.Canary) {
		for _, y := range heard {
			if y.Replica == c.cfg.Replica && y.Run == c.run {
				c.proof.Echo(t, y.Seq)
			}
		}
		if !c.proven.Load() && c.proof.Fresh(c.now()) {
			c.proven.Store(true)
			c.log.Info("view proven", "keys", c.view.view.Load().Keys(), "took", c.now().Sub(c.start))
		}
	}
}

// echoOfCounters tells the meter, too, how far counts have been heard and of whom.
func (c *Checker) echoOfCounters(heard []store.Canary) {
	const counters = 2
	c.echo(counters)(heard)
	now := c.now()
	if age, ok := c.proof.Age(counters, now); ok {
		c.meter.Proven(now.Add(-age), heard)
	}
}

// leave deletes the replica's canaries, so that those of replicas that are gone
// do not pile up.
func (c *Checker) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	for _, t := range types {
		err = errors.Join(err, c.store.DeleteCanary(ctx, t, c.cfg.Replica))
	}
	if err != nil {
		c.log.Warn("canaries left behind", "error", err)
	}
	return nil
}
