// Package deploys is the function that deploys images, stores the history, and makes the cluster
// run the current revision (promises D1 to D6, D15). Package api lists its routes, and package
// deploy contains the rules. It receives these CloudEvents at "/":
//
//	dev.knative.sources.ping                 reconcile every app (the periodic tick)
//	dev.sluicegate.app.deploy_requested.v1   reconcile the app in the subject
//
// # Reconciliation
//
//  1. An API call resolves the tag's digest, for at most 3 seconds; without a digest, the tag
//     itself is deployed. One transaction stores the deployment as the app's current revision. The
//     call then returns.
//  2. A worker reads the workload first and then the app's record. It writes the workload only if
//     the workload has not changed since it was read.
//  3. Of concurrent workers, the one with the newest record therefore wins. After a crash, the
//     next tick continues.
//
// # Status
//
// A revision is live when all pods run it and serve. It fails if the cluster rejects it, or if it
// makes no progress for PROGRESS_DEADLINE after the cluster accepted it. If the cluster does not
// respond, the rollout stays in progress. The previous pods serve until new ones are ready. Each
// tick retries a failed revision.
//
// # Events
//
// The transaction that records the end of a deployment also writes an event to the outbox. If
// K_SINK is set, this function sends the outbox, including the events of other functions; see
// package event.
package deploys

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/store"
)

// Store stores apps, revisions and the outbox.
type Store interface {
	httpapi.Resources
	AllApps(ctx context.Context) iter.Seq2[app.App, error]

	RecordDeploymentOnce(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(app.App, deploy.Revision) (deploy.Revision, error)) (recorded deploy.Revision, fresh bool, err error)
	Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error)
	Deployments(ctx context.Context, ref app.Ref, page store.Page) ([]deploy.Revision, string, error)
	SetReady(ctx context.Context, ref app.Ref, revision int64, at time.Time) error
	UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error)

	Announcements(ctx context.Context, after event.Cursor, limit int) ([]event.Pending, error)
	Announced(ctx context.Context, id string) error
}

// Cluster runs the apps.
type Cluster interface {
	Workload(ctx context.Context, ref app.Ref) (cluster.Workload, error)
	Workloads(ctx context.Context) (cluster.Workloads, error)
	ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error
	RemoveWorkload(ctx context.Context, ref app.Ref) error
}

// Registry resolves tags.
type Registry interface {
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Sink receives outbox entries. Send returns a [notify.StatusError] if the status is not a
// success.
type Sink interface {
	Send(ctx context.Context, n event.OutboxEntry) error
}

// Service implements the function's API.
type Service struct {
	cfg          Config
	store        Store
	cluster      Cluster
	registry     Registry
	api          *httpapi.API
	outboxSender *outboxSender
	queue        *reconcile.Queue[app.Ref]
	live         sync.Map // app.Ref to the last revision known to be live
	gauges       *gauges
	log          *slog.Logger
	now          func() time.Time
}

// Parts holds the dependencies of a Service.
type Parts struct {
	Store    Store
	Cluster  Cluster
	Registry Registry
	Sink     Sink // optional
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

// New returns a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, store: p.Store, cluster: p.Cluster, registry: p.Registry, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls),
		outboxSender: newOutboxSender(p.Store, p.Sink, cfg.LookEvery, p.Log), gauges: newGauges(),
		log: p.Log, now: time.Now,
	}
	s.queue = s.newQueue()
	httpapi.Serve(s.api, api.ListDeployments, s.listDeployments)
	httpapi.Serve(s.api, api.GetDeployment, s.getDeployment)
	httpapi.Serve(s.api, api.CreateDeployment, s.createDeployment)
	httpapi.Serve(s.api, api.RollBack, s.rollBack)
	httpapi.Serve(s.api, api.Promote, s.promote)
	s.api.Mount("POST /{$}", funcmain.Events(s.log, s.Receive))
	return s, nil
}

// Handler returns the handler of routes and events.
func (s *Service) Handler() http.Handler { return s.api }

// Receive handles an event. The work continues after the sender disconnects.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.DeployRequested, s.pass, func(ctx context.Context, ref app.Ref) error {
		s.queue.Add(ctx, ref)
		return nil
	})
}

// Background sends outbox entries until ctx ends.
func (s *Service) Background(ctx context.Context) error {
	if s.cfg.announces() || s.outboxSender.sink != nil {
		s.outboxSender.run(ctx)
	}
	return nil
}

// Close stops following rollouts; the next resync continues.
func (s *Service) Close(context.Context) error {
	s.queue.Close()
	return nil
}

func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
