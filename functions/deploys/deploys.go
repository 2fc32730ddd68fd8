// Package deploys is the function that deploys images, keeps an app's history and
// makes the cluster run the current revision (promises D1 to D6 and D15).
//
// Its routes are those of package api with this name. Package deploy says what a rollback and a promotion copy. An image is refused to a git app
// (git_source_attached), as it is on its webhook.
//
// CloudEvents come to "/":
//
//	dev.knative.sources.ping                 every app (PingSource sends it)
//	dev.sluicegate.app.deploy_requested.v1   the one app that is the event's subject
//
// # Record first
//
// A deployment is recorded, here or by whoever else deploys, in one transaction
// that makes it the app's current revision. Then the cluster is made to match it:
// the workload is looked at, then the app is read, then the workload is written,
// bound to the version that was looked at. So of several writers the one with the
// newest record wins, whoever of them comes last, and a process that dies at any
// point leaves work that the next tick finds. A call is answered once the record
// stands; the rollout goes on.
//
// # Live and failed
//
// A revision worked once one of its pods was ready. Before the workload gets another
// revision, the function records whether the previous revision had a ready pod. The write
// of the workload is bound to the version that showed it.
//
// An app is idle while its workload has zero desired replicas: no revision becomes live or
// fails then, and a live one stays live.
//
// A revision is live when its workload reports that every pod is of that revision
// and serves. One that makes no progress for PROGRESS_DEADLINE has failed, and so
// has one that the cluster refuses (an invalid field, a quota). A cluster that does
// not answer is nobody's failure: the revision goes on rolling out. The clock starts
// when the cluster takes the revision. Old pods serve until new ones are ready, so
// a failed revision leaves the one before it serving; its workload stays as it is,
// is tried again with every tick, and makes the revision live if it becomes ready
// after all.
//
// # Digests
//
// A tag is resolved when the deploy is accepted, and from then on the digest is
// what is deployed, rolled back to and promoted. A registry that cannot be asked
// within three seconds delays nothing: the tag is deployed and the revision's
// message says so.
//
// # Events
//
// With K_SINK set, the end of each deployment is sent there as a CDEvent. It is put into an
// outbox in the transaction that records the end, and a goroutine of its own sends it. The
// events of other functions, about keys, quotas and gates, lie in the same outbox where
// EVENTS is set for those, and this function, which has the sink anyway, sends them too: one
// sender, one promise. Package event says what that is.
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

// Store keeps the apps' documents, their revisions, and the announcements that are still
// to be sent.
type Store interface {
	httpapi.Resources
	AllApps(ctx context.Context) iter.Seq2[app.App, error]

	RecordDeploymentOnce(ctx context.Context, ref app.Ref, d hook.Delivery, now time.Time, rule func(app.App, deploy.Revision) (deploy.Revision, error)) (recorded deploy.Revision, fresh bool, err error)
	Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error)
	Deployments(ctx context.Context, ref app.Ref, page store.Page) ([]deploy.Revision, string, error)
	SetReady(ctx context.Context, ref app.Ref, revision int64, at time.Time) error
	UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error)

	Announcements(ctx context.Context, after event.Place, limit int) ([]event.Waiting, error)
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
	// Resolve gives the digest, or "" and a note that says why not.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Sink takes announcements. An answer that is not good is a [nudge.AnswerError].
type Sink interface {
	Send(ctx context.Context, n event.Announcement) error
}

// Service answers the function's requests and works on the apps.
type Service struct {
	cfg       Config
	store     Store
	cluster   Cluster
	registry  Registry
	api       *httpapi.API
	announcer *announcer
	queue     *reconcile.Queue[app.Ref]
	live      sync.Map // the revision that is known to be live, by app.Ref; it only saves reads
	gauges    *gauges
	log       *slog.Logger
	now       func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	Store    Store
	Cluster  Cluster
	Registry Registry
	Sink     Sink // nil announces nothing
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

// New makes a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, store: p.Store, cluster: p.Cluster, registry: p.Registry, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls),
		announcer: newAnnouncer(p.Store, p.Sink, cfg.LookEvery, p.Log), gauges: newGauges(),
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

// Handler serves the function's routes, and takes its events.
func (s *Service) Handler() http.Handler { return s.api }

// Receive takes an event. The work goes on when the sender hangs up: it has
// deadlines of its own.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.DeployRequested, s.pass, func(ctx context.Context, ref app.Ref) error {
		s.queue.Add(ctx, ref)
		return nil
	})
}

// Background sends announcements until ctx ends. Where none are made it does nothing.
func (s *Service) Background(ctx context.Context) error {
	if s.cfg.announces() || s.announcer.sink != nil {
		s.announcer.run(ctx)
	}
	return nil
}

// Close ends the rollouts that are being followed; the next pass goes on with them.
func (s *Service) Close(context.Context) error {
	s.queue.Close()
	return nil
}

// moment is the time of a change as the store keeps it, in microseconds.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
