// Package webhook is the function that CI pipelines and git providers call to
// deploy an app (promises W1 to W12).
//
// Its routes are those of package api with this name.
//
// The management API's apps function enables and disables webhooks and shows their
// tokens; this one only ever reads a token.
//
// # Tokens
//
// All tokens are held in memory and kept up to date by a watch. Whatever somebody
// makes up, names or tokens, is refused from memory and costs the API server nothing:
// a flood of it holds up nobody else. What memory proves is proven against the API
// server too, one call each, so a token that was replaced or taken away opens nothing
// from that moment on. One that was enabled in this moment, which the watch has not told
// of, is found by a question to the API server, of which there are a few a second for
// all calls that memory refuses. Until the first list is in, calls wait, ten seconds
// from the start at most, and are then 503; so is a proven call when the API server
// does not answer.
//
// # Pipelines without a secret
//
// A call may bring a token that a CI system has issued to the pipeline instead, if the app
// trusts it ([app.Trust]). Package issuers proves whose it is; whether the app trusts it is
// read from the store, and once more in the transaction that records what the call asks
// for. The same transaction keeps the token's id until the token ends, so that it counts for
// one call, on all replicas. The one exception is a delivery that comes again: it is
// answered as the first time, and adds nothing. To read an outcome uses no token up.
//
// Anybody has a pipeline somewhere, whose tokens are as good as any until the app has been
// read. So those reads are bounded: as many a minute for each repository as an address
// may be refused.
//
// # Order
//
//  1. Proof ([hook.Claim]) against the app's token as it is in memory: by the token
//     that the call carries before anything of its body is read, or by a signature of
//     the body. An app that is unknown or has no webhook is checked against a token that
//     nobody knows, so that a missing or wrong token, an unknown app and a disabled
//     webhook take the same way and get the same 401 invalid_token.
//  2. Rate limit: 60 proven calls in any minute per app, 429 with Retry-After from then
//     on.
//  3. Proof once more, against the app's Secret as the API server has it now.
//  4. Content type (415) and payload (400, 422), see package hook.
//  5. Where the call will deploy an image: its digest, if the registry tells it
//     within three seconds.
//  6. One transaction that looks for the delivery, decides on the app as it is
//     then ([hook.Decide]), records the revision or the build, and keeps the answer.
//  7. A nudge to the function that makes the cluster match, which would come by
//     itself a few seconds later.
//
// # Outcome
//
// A call is answered 202 as soon as the revision or the build is recorded, with the
// status_url at which the same token reads how it goes on: building, rolling_out, live,
// failed with the reason, or superseded. With "Prefer: wait=SECONDS" the answer waits for
// that, 300 s at most, and is 200 with deployed, failed or superseded; 202 if it is not
// over by then, when too many wait already, and when the process is told to stop. A wait
// holds no lock and ends when the client hangs up.
//
// # Deliveries
//
// A delivery is what X-GitHub-Delivery, X-Gitea-Delivery or Idempotency-Key names,
// for one app. Sent again with the same body within 24 hours it is answered as the
// first time, at once or after, and adds nothing; the answer then carries
// "Idempotent-Replayed: true". Since revision and answer are kept in one
// transaction, a call whose answer was lost can be sent again without deploying
// twice. With another body it is 409 conflict: one of the two senders would
// otherwise believe that its image is deployed. What was refused is not kept, so it
// can be sent again once the reason is gone. A call without an id is always a new
// one.
//
// # Receipts
//
// Of each proven call a receipt is kept for a week ([hook.Receipt]), which the management
// API lists as the webhook's deliveries. It is written once the answer is decided, and
// beside it: calls put receipts into a queue of bounded length, from which one goroutine
// writes them, as they come and many in a commit, and the last ones when the process is
// told to stop. So a store that is slow or away delays no answer and changes none; then
// receipts are lost, which is logged and counted (sluice_webhook_receipts_total).
//
// Who proves nothing must not make the store write at will, nor push real calls out of the
// list. So calls without proof share one receipt an hour for each app and process, and
// calls that were too many another: it says how many there were and is written again once
// a minute at most. Only apps whose token is in memory have one. To the caller
// all names are alike: each call without proof is counted in memory, in the same way,
// whatever it names, and the writing is the clock's doing and not the call's.
//
// # Limits
//
// They live in the memory of one process: with several replicas an app gets that
// many times the limit. Calls that are refused for it do not count, so a client
// that keeps trying gets its share. A call without proof counts against the address
// that it comes from (an IPv6 address by its /64 network) and never against the app;
// beyond 300 of them a minute the answer is 429, for every name alike.
//
// Bodies are read into buffers that grow with what has come, and all buffers together
// are bounded: those of calls that carry the token, by app, apart from those that only
// their signature can prove, by address. One that finds no room within three seconds is
// 429. A body that proves nothing until its end has five seconds for it.
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

// Tokens asks for webhooks' tokens; *cluster.Cluster implements it.
type Tokens interface {
	// WebhookToken reads the token of an app's webhook. Problem: not_found.
	WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error)
}

// Watched holds webhooks' tokens in memory; *cluster.WatchedTokens implements it.
type Watched interface {
	// Synced is closed once all of them are known.
	Synced() <-chan struct{}
	// Token gives the token of an app's webhook as far as the watch has told.
	Token(ref app.Ref) (token hook.Token, ok bool)
}

// Apps keeps apps, their revisions and builds; *store.Store implements it.
type Apps interface {
	// Project, App, Deployment and Build read one. Problem: not_found.
	Project(ctx context.Context, name string) (app.Project, error)
	App(ctx context.Context, namespace, name string) (app.App, error)
	Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error)
	Build(ctx context.Context, ref app.Ref, n int64) (deploy.Build, error)
	// Receive records what a call asks for, once for each delivery.
	Receive(ctx context.Context, ref app.Ref, d hook.Delivery, now time.Time, rule func(a app.App) (hook.Outcome, error)) (answer hook.Answer, fresh bool, err error)
	// KeepReceipts keeps receipts of calls, in the place of those with their ids.
	KeepReceipts(ctx context.Context, receipts []hook.Receipt) error
}

// Issuers vouch for pipelines; *issuers.Issuers implements it.
type Issuers interface {
	// Verify tells which pipeline a token is about. Problems: invalid_token; unavailable.
	Verify(ctx context.Context, token string) (app.Pipeline, error)
}

// Registry says which bytes a tag is; *registry.Resolver implements it.
type Registry interface {
	// Resolve never fails: without a digest the note says why.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Nudge hurries another function up; *nudge.Sender implements it.
type Nudge interface {
	Notify(ctx context.Context, eventType string, ref app.Ref)
}

// Parts are what a Service is put together from.
type Parts struct {
	Tokens   Tokens
	Watched  Watched
	Issuers  Issuers
	Apps     Apps
	Registry Registry
	Deploys  Nudge // the deploys function
	Builds   Nudge // the builds function
	Random   io.Reader
	Log      *slog.Logger

	// Ending is closed when the process is told to stop; who waits is answered then.
	Ending <-chan struct{}
}

// Service answers the function's requests.
type Service struct {
	api      *httpapi.API
	tokens   Tokens
	watched  Watched
	issuers  Issuers
	apps     Apps
	registry Registry
	deploys  Nudge
	builds   Nudge
	nobodys  hook.Token // stands in where there is no token

	calls      *limit // proven ones, by app
	reads      *limit // of outcomes, proven, by app
	refusals   *limit // of those without proof, by address
	identified *limit // those that an issuer vouches for, by whose pipelines they are
	looks      *rate.Limiter
	pipelines  *bodies       // of calls that carry the token
	strangers  *bodies       // of those that only their signature can prove
	waiting    chan struct{} // has room for those who may wait

	baseURL string
	maxWait time.Duration
	poll    time.Duration // from one look at what is waited for to the next
	ending  <-chan struct{}

	receipts *receipts
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	started  time.Time
	now      func() time.Time // of what is recorded and counted
	clock    func() time.Time // of connections, which have no other
}

// New makes a service. Random is crypto/rand's reader.
func New(cfg Config, p Parts) (*Service, error) {
	if cfg.CallsPerMinute < 1 || cfg.RefusalsPerMinute < 1 {
		return nil, errors.New("CALLS_PER_MINUTE and REFUSALS_PER_MINUTE must be positive")
	}
	nobodys, err := hook.NewToken(p.Random)
	if err != nil {
		return nil, fmt.Errorf("start webhook: %w", err)
	}
	now := time.Now // the clock in production
	start := now()
	s := &Service{
		api:    httpapi.NewAPI(p.Log, nil, nil),
		tokens: p.Tokens, watched: p.Watched, issuers: p.Issuers, apps: p.Apps, registry: p.Registry, deploys: p.Deploys, builds: p.Builds,
		nobodys: nobodys,
		calls:   newLimit(cfg.CallsPerMinute, start), reads: newLimit(cfg.CallsPerMinute, start), refusals: newLimit(cfg.RefusalsPerMinute, start),
		identified: newLimit(cfg.RefusalsPerMinute, start),
		looks:      rate.NewLimiter(looksPerSecond, looksAtOnce),
		pipelines:  newBodies(), strangers: newBodies(),
		waiting: make(chan struct{}, waiters), baseURL: cfg.BaseURL, maxWait: cfg.MaxWait, poll: time.Second, ending: p.Ending,
		receipts: newReceipts(p.Apps, p.Log, now), outcomes: newOutcomes(), log: p.Log, started: start, now: now, clock: now,
	}
	httpapi.ServeRaw(s.api, api.CallWebhook.Row, s.receive)
	httpapi.ServeRaw(s.api, api.GetWebhookDeployment.Row, s.showStatus)
	httpapi.ServeRaw(s.api, api.GetWebhookBuild.Row, s.showStatus)
	return s, nil
}

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// Run keeps receipts until ctx ends, and then those that are left.
func (s *Service) Run(ctx context.Context) error { return s.receipts.run(ctx) }

// moment is the time of a change as the store keeps it, in microseconds.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
