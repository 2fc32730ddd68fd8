// Package builds is the function that builds git apps with Tekton and deploys the images
// (promises D8 to D11). Package api lists its routes. Tekton's CloudEvents about PipelineRuns
// arrive at POST /events/{token}. The function receives these CloudEvents at "/":
//
//	dev.knative.sources.ping                reconcile every pending build (the periodic tick)
//	dev.sluicegate.app.build_requested.v1   reconcile the pending builds of the app in the subject
//
// # Builds
//
// A build is stored with the app's current git source. The name of its PipelineRun is derived from
// the build, so only one run exists. Tekton's events and the tick, which reads the run, update the
// build with the same rule ([deploy.Build.Observe]).
//
// A build starts once fewer than BUILDS_PER_APP earlier builds of its app are pending. This needs
// no coordination: the number of earlier builds only decreases. If the git source changed before
// the start, the build is superseded.
//
// A build fails if its run fails, is canceled, times out or is deleted. It also fails if the
// cluster rejects the run, or if the run cannot be started within BUILD_TIMEOUT. The message
// names the failed step and its last output, from the TaskRun's result ERROR.
//
// # The newer build wins
//
// One transaction marks a build as successful and stores its image as the app's new revision. If a
// newer build is already deployed, the build is superseded instead ([deploy.Build.Deploys]).
//
// # Trust
//
// Tekton's events are not signed. They are accepted only on the path with the secret
// BUILDS_TOKEN, which is compared in constant time and never logged. The image comes from the
// run's results IMAGE_URL and IMAGE_DIGEST, as in Tekton Chains; without a digest, the registry
// is queried. If the result COMMIT does not match the requested commit, the build fails.
package builds

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/store"
)

// Cluster runs the builds.
type Cluster interface {
	StartRun(ctx context.Context, r cluster.PipelineRun) (deploy.Run, error)
	Run(ctx context.Context, namespace, name string) (deploy.Run, error)
	Failure(ctx context.Context, namespace, name string) (string, error)
}

// Registry resolves tags.
type Registry interface {
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Notifier sends notifications to another function.
type Notifier interface {
	Notify(ctx context.Context, eventType string, ref app.Ref)
}

// Service implements the function's API.
type Service struct {
	cfg      Config
	token    [sha256.Size]byte
	store    *store.Store
	cluster  Cluster
	registry Registry
	notifier Notifier
	api      *httpapi.API
	queue    *reconcile.Queue[store.PendingBuild]
	gauges   *gauges
	log      *slog.Logger
	now      func() time.Time
}

// Parts holds the dependencies of a Service.
type Parts struct {
	Store    *store.Store
	Cluster  Cluster
	Registry Registry
	Notifier Notifier
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

// New returns a service.
func New(cfg Config, p Parts) (*Service, error) {
	cfg, err := cfg.withToken()
	if err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)), store: p.Store, cluster: p.Cluster,
		registry: p.Registry, notifier: p.Notifier, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls), gauges: newGauges(), log: p.Log, now: time.Now,
	}
	s.queue = s.newQueue()
	httpapi.Serve(s.api, api.ListBuilds, s.listBuilds)
	httpapi.Serve(s.api, api.RequestBuild, s.requestBuild)
	httpapi.Serve(s.api, api.GetBuild, s.getBuild)
	s.api.Mount("POST /{$}", funcmain.Events(s.log, s.Receive))
	// Mounted outside the access log, which would otherwise contain the token.
	s.api.Mount("/events/", s.withToken(funcmain.Events(s.log, s.receiveTekton)))
	return s, nil
}

// Handler returns the handler of routes and events.
func (s *Service) Handler() http.Handler { return s.api }

func (s *Service) withToken(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events/{token}", func(w http.ResponseWriter, r *http.Request) {
		given := sha256.Sum256([]byte(r.PathValue("token")))
		if subtle.ConstantTimeCompare(given[:], s.token[:]) != 1 {
			httpapi.WriteProblem(w, problem.FromCode(problem.InvalidToken))
			return
		}
		next.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		httpapi.WriteProblem(w, problem.FromCode(problem.NotFound))
	})
	return mux
}

// Receive handles ticks and requests for builds. The work continues after the sender disconnects.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.BuildRequested, s.pass, s.requested)
}

// Close stops the work on builds; the next resync continues it.
func (s *Service) Close() { s.queue.Close() }

func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
