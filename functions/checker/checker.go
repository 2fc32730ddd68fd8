// Package checker implements the gate's authorization checker. The ingress proxy calls it for
// every request to a gated app, and it decides from memory (promises G1, F1 to F5).
//
// # The 90-second argument
//
// Every replica must reject a revoked key within 90 seconds, regardless of failures. A replica
// therefore allows requests only while it can prove that its view is recent:
//
//  1. Three listeners deliver the changes to keys, plans and usage counters in commit order.
//  2. The replica writes a canary document to each collection. The time w is the start of the
//     write, by the process's monotonic clock.
//  3. The canary returns through the listener in a consistent batch. It counts only after the
//     replica has applied that batch: the view then contains every change committed before w.
//  4. The replica allows requests at time now only while now − w < 90 s. Each collection has
//     its own w, from its last returned canary; the oldest w counts. Until a canary of each
//     collection has returned, the replica denies all requests except CORS preflights.
//  5. A listener that ends restarts with the whole collection. Until its next canary returns,
//     the previous proof remains and ages.
//  6. The proof becomes invalid immediately if the listener may have missed a change, or if the
//     replica's own canary is deleted. A replica that stops invalidates its proof before it
//     deletes its canaries.
//
// The monotonic clock is not affected if the machine's time is set, but stops while the machine
// is suspended.
//
// # Files
//
//   - Requests: handler.go serves HTTP, decision.go decides, connection.go limits the age of
//     connections, key.go serves GET /api/v1/key, explain.go reports reasons and usage.
//   - Documents: stream.go listens, snapshot.go updates the view, applied.go reports the times
//     up to which changes are applied.
//   - Decisions: internal/view is the immutable view, gate checks keys, bucket limits rates,
//     meter counts requests and enforces quotas, lease leases hard quotas, spent records their use.
//   - Support: canary proves freshness, peers exchanges counts between replicas, denials stores
//     reasons, slots stores one value per key.
package checker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/canary"
	"github.com/sluicegate/sluice/functions/checker/internal/denials"
	"github.com/sluicegate/sluice/functions/checker/internal/lease"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/functions/checker/internal/peers"
	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/servercert"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Feed delivers the changes of the collections.
type Feed interface {
	Keys(ctx context.Context, to store.Receiver[apikey.Key]) error
	Plans(ctx context.Context, to store.Receiver[plan.Plan]) error
	Counters(ctx context.Context, to store.Receiver[usage.Counter]) error
}

// Store is the part of the document store to which the checker writes.
type Store interface {
	WriteCanary(ctx context.Context, t store.CanaryType, c store.Canary) error
	DeleteCanary(ctx context.Context, t store.CanaryType, replica string) error
	meter.Writer
	lease.Store
}

// Checker is one replica. It implements [http.Handler].
type Checker struct {
	cfg            Config
	feed           Feed
	store          Store
	log            *slog.Logger
	now            func() time.Time
	start          time.Time // zero of the monotonic times
	process        string    // random; names the process in its canaries
	buckets        *bucket.Buckets
	keyInfoBuckets *bucket.Buckets
	meter          *meter.Meter
	leases         *lease.Manager
	snapshot       *snapshot
	proof          *canary.Proof
	streams        [canary.Types]*stream
	metrics        *metrics
	denials        *denials.Log
	peers          *peers.Link
	appliedCalls   chan struct{} // a semaphore, like the queries below
	queryKey       checkers.QueryKey
	denialGuard    *checkers.ReplayGuard
	usageGuard     *checkers.ReplayGuard
	denialQueries  chan struct{}
	usageQueries   chan struct{}
	spans          *span.Tracer // nil if spans are not exported
	proven         atomic.Bool

	certificate *servercert.Certificate
	proofKey    func() (checkers.ProofKey, error) // derived from certificate; nil without it
}

// New returns a replica. It denies all requests until [Checker.Run] has proved its view.
func New(cfg Config, f Feed, s Store, log *slog.Logger) (*Checker, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &Checker{
		cfg: cfg, feed: f, store: s, log: log,
		now: time.Now, start: time.Now(), process: rand.Text(),
		buckets: &bucket.Buckets{}, keyInfoBuckets: &bucket.Buckets{}, denials: denials.New(cfg.DenialsLogged, log),
		appliedCalls: make(chan struct{}, maxAppliedCalls), queryKey: checkers.NewQueryKey(), denialQueries: make(chan struct{}, maxQueries), usageQueries: make(chan struct{}, maxQueries),
	}
	c.denialGuard, c.usageGuard = checkers.NewReplayGuard(c.queryKey), checkers.NewReplayGuard(c.queryKey)
	c.snapshot = &snapshot{buckets: c.buckets, keyInfoBuckets: c.keyInfoBuckets, now: c.now}
	c.snapshot.Store(&view.View{})
	c.leases = lease.New(lease.Config{
		Run: c.process, Store: s, View: c.snapshot.Load, Buckets: c.buckets, Start: c.start, Spent: c.spentDir(), Now: c.now, Log: log,
	})
	c.meter = meter.New(meter.Config{
		Run: c.process, Leases: c.leases, Replica: cfg.Replica, Interval: cfg.FlushInterval, Writer: s,
		MaxUnshared: cfg.MaxUnshared, Horizon: cfg.MaxStaleness, Find: c.snapshot.find, Now: c.now, Log: log,
	})
	c.snapshot.meter, c.snapshot.leases = c.meter, c.leases
	c.peers = &peers.Link{Exchange: peers.New(peers.Config{
		Replica: cfg.Replica, Run: c.process, Buckets: c.buckets, Meter: c.meter, Leases: c.leases, Find: c.snapshot.shape, Start: c.start, Gone: cfg.MaxStaleness,
	}), Now: c.now, Log: log}
	c.proof = canary.New(cfg.MaxStaleness, c.start, c.leases.Lapse)
	c.streams = c.newStreams()
	c.metrics = newMetrics(c)
	return c, nil
}

func (c *Checker) spentDir() *spent.Dir {
	if c.cfg.SpentDir == "" {
		return nil
	}
	d, err := spent.Open(c.cfg.SpentDir)
	if err != nil {
		c.log.Warn("open record directory failed: leases are not returned after a crash", "error", err)
		return nil
	}
	return d
}

// Collectors returns the replica's metrics.
func (c *Checker) Collectors() []prometheus.Collector { return c.metrics.all }

// Private returns the handler of the private port, which serves GET /denials.
func (c *Checker) Private() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /denials", c.denials)
	return mux
}

// TLSConfig returns the server's TLS settings, with the certificate in TLS_DIR (promise G14). It
// returns an error if it cannot read the certificate.
func (c *Checker) TLSConfig() (*tls.Config, error) {
	cert, err := servercert.Open(c.cfg.TLSDir, c.now, c.log)
	if err != nil {
		return nil, err
	}
	c.certificate, c.proofKey = cert, cert.ProofKey
	c.peers.Client = c.toPeers()
	server := cert.Config()
	server.ClientAuth = tls.RequestClientCert // peers send one, other clients need none
	return server, nil
}

// Run keeps the replica's view and proof up to date until ctx ends. It then deletes the
// canaries.
func (c *Checker) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range c.streams {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Go(func() { c.canaryKeeper().Run(ctx) })
	wg.Go(func() { c.meter.Run(ctx) })
	wg.Go(func() { c.peers.Run(ctx) })
	wg.Go(func() { c.leases.Run(ctx) })
	wg.Go(func() { keepHeap(ctx) })
	wg.Go(func() { c.denials.Run(ctx) })
	wg.Wait()
	c.deleteCanaries(context.WithoutCancel(ctx))
	return nil
}
