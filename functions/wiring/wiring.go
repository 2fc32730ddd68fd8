// Package wiring is the function that makes the cluster what the apps' documents say,
// and above all engages and releases gates (promises G2 to G5). It takes CloudEvents:
//
//	dev.knative.sources.ping               every app (PingSource sends it, each minute or faster)
//	dev.sluicegate.app.gate_requested.v1   the one app that is the event's subject
//
// It is level-triggered: what is there is compared with what is recorded, and only
// differences are worked on. An event only says where to look, so one that is lost,
// repeated, or processed by two replicas at once does no harm; see package cluster
// for why a late writer cannot undo a newer one.
//
// What a route and its gate are made of, Traefik's own kinds or the Gateway API's, is for the
// installation to say (ROUTES) and for package cluster to know. Here it makes no difference:
// below, "the Middleware" is what the gate is made of, and the proof is the same for all.
//
// # A gate's way
//
// Require API key is switched on: the CA and the Middleware are written into the
// app's namespace, the Middleware is put on the route, and the app's public URL is
// asked through the ingress, without a key, until every address of the ingress
// answers with the checker's own 401, and nothing else leads to the app from outside
// (state pending, then engaged). It is switched off: the Middleware is taken off the route,
// the ingress asked until the gate no longer answers, the Middleware deleted (releasing, then ungated). Each move of
// the state is one transaction that goes through only if nobody has switched
// meanwhile. A proof that fails leaves the state as it is with the reason in the
// gate's message, and the next tick goes on.
//
// Over https the app's certificate is verified as its clients do, by the system's
// authorities and those of INGRESS_CA_FILE: an app that no client would talk to is not
// called engaged, and what is wrong with its certificate is said.
//
// An ingress of several replicas takes a change up in each of them at its own time, so one
// answer says nothing about the others, and a Service's one address would lead to any of
// them. INGRESS_URL therefore names a headless Service, whose host resolves to the address
// of every replica that is ready; each is asked over a connection of its own, 16 at most,
// and all have to prove the gate. A replica that was there at the look-up and is not there
// any more has no say. One that comes later is asked with the next proof, at the latest
// within REPROVE_EVERY: until then it is trusted to have read the same routes as the others
// before it called itself ready. With a Service's address, or an IP address, one replica's
// answer has to do for all.
//
// The request that proves a gate is GET [ProbePath]. An app sees it when its gate
// is not in place yet, or any more. It carries a nonce, for which a checker proves that
// it was asked about this app (package gateproof): an app that answers with a copy of
// the gate's 401 is not taken for gated. What remains is an app that can reach the
// checkers itself, and passes the question on; network policies forbid that.
//
// The proof names the generation of the route. An ingress takes up a changed route after
// some seconds, and until then it serves the route before. If the gate is switched off and
// on again within that time, the route before may be gated too, and the ingress may still
// take up the open route between the two. So each time a gate is switched on, its route
// names a new Middleware, which calls the checkers at a new address. The gate is engaged
// once every address of the ingress returns the proof of that address. The Middlewares of earlier generations are then deleted. While some checkers are
// of a release that does not name generations, a proof without one is accepted.
//
// # Ways around a gate
//
// A gate that answers is not called engaged while the app can be reached without it; its
// message says where. What somebody else has made is left alone, and a way that is meant
// to be there has to lead through the gate's Middleware as well. Looked for are, in the
// app's namespace: IngressRoutes, also for TCP, and Ingresses that lead to the app's pods
// by any Service without the gate's Middleware, the Gateway API's HTTPRoutes and GRPCRoutes
// that do, Services of them with an address outside
// (NodePort, LoadBalancer, external IPs), and Knative's DomainMappings.
//
// An app that Knative runs is on Knative's public gateway besides, where no gate is. So
// its Knative Service gets Knative's label for services of the cluster alone, which goes
// again with the gate if it was not there before, and the gate is pending until Knative
// says that every address of the service is inside and its gateways are in line.
//
// # Reserved hosts
//
// An app whose host is one of the API's and the console's, or above or below one, gets no
// route: it could take over the console's sessions. The apps function refuses such a host.
// This covers apps that had theirs before the host was reserved. The gate's message says
// why, and sluice_wiring_reserved_hosts counts them.
//
// # Drift
//
// A gate whose Middleware or route somebody has changed is put back, and its state
// goes back to pending until it is proven again. A gate in place is proven anew
// every few minutes. If it then turns out not to be in front of the app, it is
// pending again; if the checker cannot decide, or the ingress cannot be asked, it
// stays engaged, since either way nothing gets through, and the message says so.
//
// Ways around a gate are looked for with each proof, so one that is made later is found
// within those minutes. Not found out are: routes of other namespaces, where Traefik is
// told to allow such, or a ReferenceGrant does; the Gateway API's routes for TCP and TLS; a
// TraefikService or a kind of another ingress between a route and the app; a second Knative Route for the app's revisions; host ports of pods. Who may
// make these is for the cluster's RBAC to say.
//
// # Another kind of routes
//
// An installation that had another kind before says so (FORMER_ROUTES), and every app is
// moved with the next tick: the new route is made beside the former one, of the same gate,
// and is proven; once its Gateway says that it has taken it up, and the ingress has had ten
// seconds to act on it, the former one is deleted, and the gate is proven again. It stays
// engaged meanwhile, since both routes lead through it. A former route that does not say the
// same of the gate as the app's document, because somebody has changed one of them in
// between, is deleted at once.
//
// # The checker's certificate
//
// When CHECKER_TLS_SECRET is absent it is made here, at start and with every tick,
// with a CA of its own (package authority), and renewed at two thirds of its life.
// A Secret of that name that does not carry Sluice's label is somebody else's, for
// example cert-manager's: it is used, with its ca.crt, and never written.
package wiring

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
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

// Cluster runs the apps.
type Cluster interface {
	Objects(ctx context.Context, ref app.Ref) (cluster.Objects, error)
	Inventory(ctx context.Context) (cluster.Inventory, error)
	State(o cluster.Objects, a app.App, ca []byte) cluster.State
	Bypass(ctx context.Context, ref app.Ref) (cluster.Bypass, error)

	EnsureNamespace(ctx context.Context, name string) error
	ApplyService(ctx context.Context, o cluster.Objects, a app.App) error
	ApplyDeployment(ctx context.Context, o cluster.Objects, a app.App) error
	ApplyRoute(ctx context.Context, o cluster.Objects, a app.App, gated bool) error
	RemoveRoute(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RemoveFormer(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RemoveSuperseded(ctx context.Context, o cluster.Objects, ref app.Ref) error
	WriteHost(ctx context.Context, o cluster.Objects, ref app.Ref) error
	WriteStrip(ctx context.Context, o cluster.Objects, ref app.Ref) error
	HideKnative(ctx context.Context, o cluster.Objects, ref app.Ref) error
	ShowKnative(ctx context.Context, o cluster.Objects, ref app.Ref) error
	Delete(ctx context.Context, ref app.Ref) error

	WriteCA(ctx context.Context, o cluster.Objects, ref app.Ref, ca []byte) error
	WriteMiddleware(ctx context.Context, o cluster.Objects, a app.App) error
	DeleteMiddleware(ctx context.Context, o cluster.Objects, ref app.Ref) error
	RemoveGenerations(ctx context.Context, o cluster.Objects, ref app.Ref) error

	Secret(ctx context.Context, namespace, name string) (cluster.Secret, error)
	WriteSecret(ctx context.Context, s cluster.Secret) (cluster.Secret, error)
}

// Service works on the apps.
type Service struct {
	cfg         Config
	checkerHost string
	baseHosts   cluster.BaseHosts
	store       *store.Store
	cluster     Cluster
	ingress     *ingress
	ca          atomic.Pointer[[]byte] // what the apps' namespaces shall trust, as it was last made sure of
	queue       *reconcile.Queue[app.Ref]
	proofs      *proofs
	gauges      *gauges
	log         *slog.Logger
	now         func() time.Time
}

// New makes a service.
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
		ingress: in, proofs: newProofs(cfg.ReproveEvery, rand.N[time.Duration]), gauges: newGauges(),
		log: log, now: time.Now,
	}
	// The proof that a gate was switched on is interrupted when it is switched off.
	s.queue = reconcile.New(reconcile.Options{Workers: cfg.Workers, Interrupt: true}, s.reconcile, func(ctx context.Context, ref app.Ref, err error) {
		log.WarnContext(ctx, "reconcile app failed", "app", ref.String(), "error", err)
	})
	return s, nil
}

// Receive takes an event. The work goes on when the sender hangs up: it has
// deadlines of its own.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.GateRequested, s.pass, s.requested)
}

// requested works on an app at once.
func (s *Service) requested(ctx context.Context, ref app.Ref) error {
	if _, err := s.certify(ctx); err != nil {
		return err
	}
	s.queue.Do(ctx, ref)
	return nil
}

// Close ends the work on the apps; the next pass goes on with it.
func (s *Service) Close() { s.queue.Close() }

// gauges are the function's own metrics.
type gauges struct {
	gates    *prometheus.GaugeVec
	reserved prometheus.Gauge
	expires  prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_wiring_gates", Help: "Apps by the state of their gate, as the last tick has found them.",
		}, []string{"state"}),
		reserved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_wiring_reserved_hosts", Help: "Apps without a route, because their host is reserved for the API and the console.",
		}),
		expires: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_wiring_certificate_expires_timestamp_seconds", Help: "When the checker's certificate expires; 0 when that is not known.",
		}),
	}
	g.count(nil)
	return g
}

// count shows how many gates have which state.
func (g *gauges) count(gates map[app.GateState]int) {
	for _, state := range app.GateStates() {
		g.gates.WithLabelValues(string(state)).Set(float64(gates[state]))
	}
}

// serves shows when the certificate in a PEM file expires.
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

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.gates, s.gauges.reserved, s.gauges.expires}
}
