// Package wiring is the function that reconciles the cluster with the apps' documents. Above all,
// it engages and releases gates (promises G2 to G5). It receives these CloudEvents:
//
//	dev.knative.sources.ping               reconcile every app (the tick, at least once a minute)
//	dev.sluicegate.app.gate_requested.v1   reconcile the app in the subject
//
// # Gates
//
// When Require API key is switched on, the gate is pending until it is proven, then engaged.
// Wiring writes the gate's objects and the route, and sends probes. ("Middleware" in identifiers
// means the gate's objects of any kind of route.)
//
//  1. A probe is GET [ProbePath] through the ingress, without a key. It carries a nonce. The proof
//     in the checker's 401 shows that the checker was called for this app (package checkers). An
//     app cannot create it, and network policies prevent apps from calling the checkers.
//  2. All ready replicas of the ingress must return the proof, since each applies changes at its
//     own pace. They are the addresses of the host of INGRESS_URL, a headless Service. Replicas
//     that start later are probed within REPROVE_EVERY.
//  3. The proof names the generation of the route, which is new each time the gate is switched
//     on. A previous route therefore cannot prove the gate. While a checker of an earlier release
//     runs, a proof without a generation counts.
//  4. The app must not be reachable otherwise. With each proof, wiring checks the namespace's
//     routes and external Services, and Knative's public gateway ([cluster.Cluster.Bypass]). It
//     does not find routes in other namespaces, TCPRoutes, TLSRoutes, TraefikServices,
//     additional Knative Routes, or host ports; RBAC must restrict these.
//
// Over https, the app's certificate must be valid for clients. When Require API key is switched
// off, the gate is releasing until every replica responds without the gate, then ungated.
//
// A gate whose objects were changed outside of Sluice is repaired, and is pending until it is
// proven. The proof is repeated every few minutes. If a request passes the gate, the gate becomes
// pending. If the ingress or the checkers fail, it remains engaged, because no request passes.
//
// # Other tasks
//
// An app with a reserved host gets no route: it could take over the console's sessions. With
// FORMER_ROUTES, each new route is proven before the former one is deleted. Wiring issues the
// checkers' certificate (package ca), unless its Secret exists without Sluice's label. In each
// resync it restores the RoleBindings of Sluice's functions in the apps' namespaces.
package wiring

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/store"
)

// Cluster accesses the Kubernetes objects of apps.
type Cluster interface {
	Objects(ctx context.Context, ref app.Ref) (cluster.Objects, error)
	Inventory(ctx context.Context) (cluster.Inventory, error)
	State(o cluster.Objects, a app.App, ca []byte) cluster.State
	Bypass(ctx context.Context, ref app.Ref) (cluster.Bypass, error)

	EnsureNamespace(ctx context.Context, name string) error
	RestoreGrants(ctx context.Context, namespaces iter.Seq[string]) (restored []app.Ref, err error)
	ApplyService(ctx context.Context, o cluster.Objects, a app.App) error
	ApplyDeployment(ctx context.Context, o cluster.Objects, a app.App) error
	ApplyRoute(ctx context.Context, o cluster.Objects, a app.App, gated bool) error
	RemoveRoute(ctx context.Context, o cluster.Objects, ref app.Ref) error
	DeletePreviousRoute(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RemoveSuperseded(ctx context.Context, o cluster.Objects, ref app.Ref) error
	WriteHost(ctx context.Context, o cluster.Objects, ref app.Ref) error
	WriteStrip(ctx context.Context, o cluster.Objects, ref app.Ref) error
	MakeClusterLocal(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RestoreVisibility(ctx context.Context, o cluster.Objects, ref app.Ref) error
	Delete(ctx context.Context, ref app.Ref) error

	WriteCA(ctx context.Context, o cluster.Objects, ref app.Ref, ca []byte) error
	WriteMiddleware(ctx context.Context, o cluster.Objects, a app.App) error
	DeleteMiddleware(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RemoveGenerations(ctx context.Context, o cluster.Objects, ref app.Ref) error

	Secret(ctx context.Context, namespace, name string) (cluster.Secret, error)
	WriteSecret(ctx context.Context, s cluster.Secret) (cluster.Secret, error)
}

// Service implements the function.
type Service struct {
	cfg         Config
	checkerHost string
	baseHosts   cluster.BaseHosts
	store       *store.Store
	cluster     Cluster
	ingress     *ingress
	ca          atomic.Pointer[[]byte] // the CA certificates, once issued
	queue       *reconcile.Queue[app.Ref]
	schedule    *reproveSchedule
	gauges      *gauges
	log         *slog.Logger
	now         func() time.Time
}

// New returns a service.
func New(cfg Config, st *store.Store, cl Cluster, log *slog.Logger) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	checker, err := url.Parse(cfg.CheckerURL)
	if err != nil {
		return nil, fmt.Errorf("CHECKER_URL: %w", err)
	}
	in, err := newIngress(cfg.IngressURL, cfg.IngressCAFile)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, checkerHost: checker.Hostname(), baseHosts: cluster.BaseHostsOf(cfg.BaseURL, cfg.ExtraHosts), store: st, cluster: cl,
		ingress: in, schedule: newReproveSchedule(cfg.ReproveEvery, rand.N[time.Duration]), gauges: newGauges(),
		log: log, now: time.Now,
	}
	// Interrupt: when a gate is switched off, the work of switching it on must not continue.
	s.queue = reconcile.New(reconcile.Options{Workers: cfg.Workers, Interrupt: true}, s.reconcile, func(ctx context.Context, ref app.Ref, err error) {
		log.WarnContext(ctx, "reconcile app failed", "app", ref.String(), "error", err)
	})
	return s, nil
}

// Receive handles an event. The work continues after the sender disconnects.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.GateRequested, s.pass, s.requested)
}

func (s *Service) requested(ctx context.Context, ref app.Ref) error {
	if _, err := s.certify(ctx); err != nil {
		return err
	}
	s.queue.AddAndWait(ctx, ref)
	return nil
}

// Close cancels the work; the next resync continues it.
func (s *Service) Close() { s.queue.Close() }

type gauges struct {
	gates    *prometheus.GaugeVec
	reserved prometheus.Gauge
	expires  prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_wiring_gates", Help: "Apps by gate state in the last resync.",
		}, []string{"state"}),
		reserved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_wiring_reserved_hosts", Help: "Apps without a route because of a reserved host.",
		}),
		expires: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_wiring_certificate_expires_timestamp_seconds", Help: "Expiry time of the checker's certificate, 0 if unknown.",
		}),
	}
	g.count(nil)
	return g
}

func (g *gauges) count(gates map[app.GateState]int) {
	for _, state := range app.GateStates() {
		g.gates.WithLabelValues(string(state)).Set(float64(gates[state]))
	}
}

func (g *gauges) serves(cert []byte) {
	expires := time.Time{}
	if block, _ := pem.Decode(cert); block != nil {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			expires = c.NotAfter
		}
	}
	if expires.IsZero() {
		g.expires.Set(0)
		return
	}
	g.expires.Set(float64(expires.Unix()))
}

// Collectors returns the function's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.gates, s.gauges.reserved, s.gauges.expires}
}
