// Package webhook is the function that CI pipelines and git providers call to deploy an app
// (promises W1 to W13). Package api lists its routes. The apps function manages webhook tokens;
// this function only reads them. A call takes these steps:
//
//  1. Verify the call's token or signature ([hook.Claim]) against the app's token in memory, which
//     a watch keeps up to date. If there is none, check against a random decoy token. Wrong
//     tokens and unknown apps therefore get the same 401.
//  2. Apply the rate limit: 60 verified calls in any minute for each app, then 429.
//  3. Verify the call against the Secret in the Kubernetes API server, so that a replaced token is
//     invalid immediately. Of the calls that step 1 rejects, about 5 per second are checked too:
//     their token may be newer than the watch. If the API server does not respond, respond with 503.
//  4. Check the content type (415) and the payload (400, 422).
//  5. Resolve the digest of an image, for at most 3 seconds.
//  6. In one transaction, look up the delivery ([hook.CallID]), decide ([hook.Decide]), and
//     store the response and the new revision or build.
//  7. Notify the deploys or builds function. Without the notification, it starts a few seconds
//     later.
//
// Instead of the app's token, a call may carry a token that a CI system issued to the pipeline
// (package issuers). The app must have a matching [app.Trust]. The transaction checks the trust
// again and stores the token's ID until it expires. The token is therefore valid for only one
// call across all replicas, and for repeats of its delivery.
//
// # Receipts
//
// Verified calls leave a receipt ([hook.Receipt]). One goroutine writes receipts from a bounded
// queue: the store cannot delay responses, but receipts can be lost. Unverified calls share one
// receipt per hour, app and process; rate-limited calls share another. Unverified calls for
// unknown apps are counted in memory too, so the timing does not reveal whether an app exists.
//
// # Limits
//
// Each process has its own limits. An unverified call counts against its client address (for
// IPv6, the /64 network), never against the app.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
)

// Tokens reads webhook tokens from the Kubernetes API server; *cluster.Cluster implements it.
type Tokens interface {
	// WebhookToken returns a not_found problem if the app has no webhook.
	WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error)
}

// Watched holds the webhook tokens in memory; *cluster.WatchedTokens implements it.
type Watched interface {
	// Synced is closed once all tokens are loaded.
	Synced() <-chan struct{}
	Token(ref app.Ref) (token hook.Token, ok bool)
}

// Apps stores apps, revisions and builds; *store.Store implements it.
type Apps interface {
	Project(ctx context.Context, name string) (app.Project, error)
	App(ctx context.Context, namespace, name string) (app.App, error)
	Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error)
	Build(ctx context.Context, ref app.Ref, n int64) (deploy.Build, error)
	// Receive records the work that rule returns, once for each delivery. fresh is false if the
	// delivery was already recorded.
	Receive(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(a app.App) (hook.RecordedWork, error)) (answer hook.StoredResponse, fresh bool, err error)
	// KeepReceipts replaces receipts with the same ID.
	KeepReceipts(ctx context.Context, receipts []hook.Receipt) error
}

// Issuers verifies pipeline tokens; *issuers.Issuers implements it.
type Issuers interface {
	Verify(ctx context.Context, token string) (app.Pipeline, error)
}

// Registry resolves tags; *registry.Resolver implements it.
type Registry interface {
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Notifier sends notifications to another function; *notify.Sender implements it.
type Notifier interface {
	Notify(ctx context.Context, eventType string, ref app.Ref)
}

// Parts holds the dependencies of a Service.
type Parts struct {
	Tokens   Tokens
	Watched  Watched
	Issuers  Issuers
	Apps     Apps
	Registry Registry
	Deploys  Notifier
	Builds   Notifier
	Random   io.Reader
	Log      *slog.Logger

	// Ending is closed when the process shuts down. Waiting calls then get a response.
	Ending <-chan struct{}
}

// Service implements the function's API.
type Service struct {
	api      *httpapi.API
	tokens   Tokens
	watched  Watched
	issuers  Issuers
	apps     Apps
	registry Registry
	deploys  Notifier
	builds   Notifier
	decoy    hook.Token // for apps without a token

	calls        *limit // verified, by app
	reads        *limit // verified, by app
	refusals     *limit // unverified, by address
	identified   *limit // verified by an issuer, by owner of the pipeline
	lookups      *rate.Limiter
	tokenBodies  *httpapi.Bodies // of calls with a token
	signedBodies *httpapi.Bodies // of calls with a signature
	waiting      chan struct{}   // semaphore of the waiting calls

	baseURL string
	maxWait time.Duration
	poll    time.Duration // interval of status checks
	ending  <-chan struct{}

	receipts *receipts
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	started  time.Time
	now      func() time.Time // for records and limits
	clock    func() time.Time // for connection deadlines
}

// New returns a service.
func New(cfg Config, p Parts) (*Service, error) {
	if cfg.CallsPerMinute < 1 || cfg.RefusalsPerMinute < 1 {
		return nil, errors.New("CALLS_PER_MINUTE and REFUSALS_PER_MINUTE must be positive")
	}
	decoy, err := hook.NewToken(p.Random)
	if err != nil {
		return nil, fmt.Errorf("start webhook: %w", err)
	}
	now := time.Now
	start := now()
	s := &Service{
		api:    httpapi.NewAPI(p.Log, nil, nil),
		tokens: p.Tokens, watched: p.Watched, issuers: p.Issuers, apps: p.Apps, registry: p.Registry, deploys: p.Deploys, builds: p.Builds,
		decoy: decoy,
		calls: newLimit(cfg.CallsPerMinute, start), reads: newLimit(cfg.CallsPerMinute, start), refusals: newLimit(cfg.RefusalsPerMinute, start),
		identified:  newLimit(cfg.RefusalsPerMinute, start),
		lookups:     rate.NewLimiter(lookupsPerSecond, lookupBurst),
		tokenBodies: newBodies(), signedBodies: newBodies(),
		waiting: make(chan struct{}, waiters), baseURL: cfg.BaseURL, maxWait: cfg.MaxWait, poll: time.Second, ending: p.Ending,
		receipts: newReceipts(p.Apps, p.Log, now), outcomes: newOutcomes(), log: p.Log, started: start, now: now, clock: now,
	}
	httpapi.ServeRaw(s.api, api.CallWebhook.Row, s.receive)
	httpapi.ServeRaw(s.api, api.GetWebhookDeployment.Row, s.showStatus)
	httpapi.ServeRaw(s.api, api.GetWebhookBuild.Row, s.showStatus)
	return s, nil
}

// Handler returns the handler of the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// Run writes receipts until ctx ends, and then the remaining ones.
func (s *Service) Run(ctx context.Context) error { return s.receipts.run(ctx) }

func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
