// Package builds is the function that builds git apps with Tekton and deploys what
// comes out (promises D8 to D11).
//
// Its routes are those of package api with this name; Tekton's CloudEvents about
// PipelineRuns come to POST /events/{token}.
//
// CloudEvents come to "/":
//
//	dev.knative.sources.ping                every build that is not final (PingSource sends it)
//	dev.sluicegate.app.build_requested.v1   those of the app that is the event's subject
//
// # A build's way
//
// A build is recorded by whoever asks for it, with the app's git source as it was
// then. Here its PipelineRun is started, in the app's namespace and under a name that
// is the build's alone, so that starting it twice starts one run. Then it is moved on
// by Tekton's events and, with each tick, by a look at the run itself: events may
// come twice, late, in any order or never. Both go through the same rule
// ([deploy.Build.Observe]): an event that was seen before, or is about another run,
// or comes after the end, changes nothing.
//
// At most BUILDS_PER_APP builds of an app run at the same time. A build is started once fewer
// than that many earlier ones are not final, so no process needs to know what others start:
// earlier builds only become fewer. A build whose git source was detached or replaced before
// it was started is superseded.
//
// A run that was cancelled, has timed out or was deleted is a failed build with the
// reason in its message. So is a build that Tekton refuses, or that could not be
// started within BUILD_TIMEOUT. Of a run that has failed by itself the message is the
// step that has, and the last lines that it wrote: those are the result ERROR of its
// TaskRun, since pods' logs are not for the function to read. Without that result it is
// the step alone.
//
// # The newer build wins
//
// When a run has built an image, one commit makes the build final and records the
// image as the app's new revision, unless a build with a higher number was deployed
// before, the app was rolled back after the build had been asked for, or the git source
// has been detached meanwhile: then the build is superseded and deploys nothing. A
// promotion in between does not count as a newer build, and nothing brings an older one
// back into the race.
//
// # Whom it believes
//
// Tekton's events carry no signature. They are taken only on a path with the secret
// BUILDS_TOKEN, compared in constant time and never logged, and a network policy lets
// only Tekton there. The image comes from the run's results IMAGE_URL and
// IMAGE_DIGEST, as Tekton Chains names them; without a digest the registry is asked.
// The commit that is recorded is the run's result COMMIT. A run that was asked for
// another one, or for one whose hash does not begin with the digits that were given,
// or that does not say what it has built, is a failed build.
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
	// Resolve gives the digest, or "" and a note that says why not.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Nudge hurries another function up.
type Nudge interface {
	Notify(ctx context.Context, eventType string, ref app.Ref)
}

// Service answers the function's requests and works on the builds.
type Service struct {
	cfg      Config
	token    [sha256.Size]byte
	store    *store.Store
	cluster  Cluster
	registry Registry
	nudge    Nudge
	api      *httpapi.API
	queue    *reconcile.Queue[store.PendingBuild]
	gauges   *gauges
	log      *slog.Logger
	now      func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	Store    *store.Store
	Cluster  Cluster
	Registry Registry
	Nudge    Nudge
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

// New makes a service.
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
		registry: p.Registry, nudge: p.Nudge, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls), gauges: newGauges(), log: p.Log, now: time.Now,
	}
	s.queue = s.newQueue()
	httpapi.Serve(s.api, api.ListBuilds, s.listBuilds)
	httpapi.Serve(s.api, api.RequestBuild, s.requestBuild)
	httpapi.Serve(s.api, api.GetBuild, s.getBuild)
	s.api.Mount("POST /{$}", funcmain.Events(s.log, s.Receive))
	// What comes to /events/ goes past the access log, which would write the token down.
	s.api.Mount("/events/", s.withToken(funcmain.Events(s.log, s.receiveTekton)))
	return s, nil
}

// Handler serves the function's routes, and takes its events.
func (s *Service) Handler() http.Handler { return s.api }

// withToken lets only requests through that know the secret path.
func (s *Service) withToken(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events/{token}", func(w http.ResponseWriter, r *http.Request) {
		given := sha256.Sum256([]byte(r.PathValue("token")))
		if subtle.ConstantTimeCompare(given[:], s.token[:]) != 1 {
			httpapi.Fail(w, problem.Of(problem.InvalidToken))
			return
		}
		next.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { httpapi.Fail(w, problem.Of(problem.NotFound)) })
	return mux
}

// Receive takes the periodic event and the one that a build was asked for. The work
// goes on when the sender hangs up: it has deadlines of its own.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	return reconcile.Receive(ctx, s.log, e, app.BuildRequested, s.pass, s.requested)
}

// Close ends the work on the builds; the next pass goes on with it.
func (s *Service) Close() { s.queue.Close() }

// moment is the time of a change as the store keeps it, in microseconds.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
