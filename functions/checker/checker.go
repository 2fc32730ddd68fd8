// Package checker is the gate's authorization checker: the ingress proxy asks it about
// every request to a gated app, and it answers from memory (promises G1, F1 to F5).
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
// # What is applied
//
// Whoever changes a key or a plan may wait until every replica follows (package
// inforce). The replicas that may allow anything are those whose canaries are in the store:
// each says by them up to when it has applied the collection, by the store's clock, and
// says the same at once to who asks at GET /applied. That list must be whole. So a replica
// that hears that its own canary is gone takes its proof back, and one that ends gives up
// its proof before it deletes its canaries.
//
// # A decision
//
// In this order: is the address one that the proxy may ask with (else 500
// misconfigured), is it a CORS preflight (then 200 and nothing else), is the view
// fresh (else 503), is the key good for the app (else 401), is there a token in
// its bucket (else 429 rate_limited), and is there quota left (else 429
// quota_exhausted, or 503 while the replicas' counts cannot be shared and others may
// have used what is left, or while more of a hard quota is under way). The decision about the key is the pure function gate.Decide;
// the view is immutable; no lock is taken and nothing is logged. Package meter
// counts, and makes the arguments why counts add up and why quotas hold.
//
// # Other replicas
//
// Each decides alone, and tells the others what it has allowed, so that the sum is the
// plan's rate (package peers): over POST /counts, from those who hold the checkers'
// certificate. A proxy that keeps one connection would ask one replica alone; so a
// connection that has lived for CONNECTION_AGE is ended, by GOAWAY over HTTP/2.
//
// # A denial's reason
//
// Every refusal of one kind is the same to the client, byte for byte, except for its
// X-Request-Id: the client's own if it sent one that is fit for a log (package
// trace), else random. It does not depend on the reason, so it tells nothing of it.
// The reason (unknown, disabled, expired, …) is found by it in the replica's log, up
// to DENIALS_LOGGED_PER_SECOND lines a second, and among the last 4096 denials at
// GET /denials?request_id= on the private port; package denials says how a flood is
// kept from filling the disk. Those who look after an app are told of its denials by the
// management API, which asks at POST /denials of the public port, where package explain says
// who may ask. Allowed requests get no id and cost nothing more.
//
// # Layout
//
// A document's way is on two pages: stream.go listens, and snapshot.go puts what was
// heard where requests look; applied.go says how far that is, and explain.go why a request was refused. A request's is on two others: decision.go decides and holds
// the table of outcomes, handler.go answers; key.go is what a key's holder is told. internal/view is the picture of keys and
// plans, internal/gate decides about a key, internal/bucket limits rates, internal/meter
// counts and limits quotas, internal/lease holds hard ones, internal/spent records what is spent of them, internal/peers tells other replicas, internal/canary proves
// freshness, internal/denials keeps reasons, shared/plan writes limits into header fields,
// internal/slots holds one small value per key.
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
	lease.Store
}

// Checker is one replica.
type Checker struct {
	cfg       Config
	feed      Feed
	store     Store
	log       *slog.Logger
	now       func() time.Time
	start     time.Time // the zero of this process's clock
	process   string    // names this process's canaries
	buckets   *bucket.Buckets
	shown     *bucket.Buckets // of keys shown to their holders
	meter     *meter.Meter
	leases    *lease.Book
	snapshot  *snapshot
	proof     *canary.Proof
	streams   [canary.Types]*stream
	metrics   *metrics
	denials   *denials.Log
	peers     *peers.Link
	asked     chan struct{}     // holds an item for each caller that waits for what is applied
	queryKey  checkers.QueryKey // signs queries to this process
	explains  *checkers.ReplayGuard
	usages    *checkers.ReplayGuard
	reading   chan struct{} // holds one for each query that is read or answered
	reporting chan struct{} // holds one for each call for usage
	spans     *span.Tracer  // nil where none are exported
	proven    atomic.Bool   // all three data types have been proven at least once

	certificate *servercert.Certificate           // nil without one
	proofKey    func() (checkers.ProofKey, error) // of it; nil without one
}

// New makes a replica that denies until [Checker.Run] has proven its view.
func New(cfg Config, f Feed, s Store, log *slog.Logger) (*Checker, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &Checker{
		cfg: cfg, feed: f, store: s, log: log,
		now: time.Now, start: time.Now(), process: rand.Text(),
		buckets: &bucket.Buckets{}, shown: &bucket.Buckets{}, denials: denials.New(cfg.DenialsLogged, log),
		asked: make(chan struct{}, asking), queryKey: checkers.NewQueryKey(), reading: make(chan struct{}, explaining), reporting: make(chan struct{}, explaining),
	}
	c.explains, c.usages = checkers.NewReplayGuard(c.queryKey), checkers.NewReplayGuard(c.queryKey)
	c.snapshot = &snapshot{buckets: c.buckets, shown: c.shown, now: c.now}
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

// spentDir returns the folder of the pod's records, or nil without one.
func (c *Checker) spentDir() *spent.Dir {
	if c.cfg.SpentDir == "" {
		return nil
	}
	d, err := spent.Open(c.cfg.SpentDir)
	if err != nil {
		c.log.Warn("spent requests are not recorded: a crash keeps what this process holds", "error", err)
		return nil
	}
	return d
}

// Collectors are the replica's metrics.
func (c *Checker) Collectors() []prometheus.Collector { return c.metrics.all }

// Private answers GET /denials, for operators: the last denials with their reasons.
func (c *Checker) Private() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /denials", c.denials)
	return mux
}

// TLSConfig serves the certificate in TLS_DIR: keys never cross the pod network
// in clear (promise G14). It fails when there is none to begin with.
func (c *Checker) TLSConfig() (*tls.Config, error) {
	cert, err := servercert.Open(c.cfg.TLSDir, c.now, c.log)
	if err != nil {
		return nil, err
	}
	c.certificate, c.proofKey = cert, cert.ProofKey
	c.peers.Client = c.toPeers()
	server := cert.Config()
	server.ClientAuth = tls.RequestClientCert // of peers; nobody else needs one
	return server, nil
}

// Run listens and proves until ctx ends, then takes the replica's canaries away.
func (c *Checker) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range c.streams {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Go(func() { c.keeper().Run(ctx) })
	wg.Go(func() { c.meter.Run(ctx) })
	wg.Go(func() { c.peers.Run(ctx) })
	wg.Go(func() { c.leases.Run(ctx) })
	wg.Go(func() { keepHeap(ctx) })
	wg.Go(func() { c.denials.Run(ctx) })
	wg.Wait()
	c.leave(context.WithoutCancel(ctx))
	return nil
}
