// Package webhook is the function that CI pipelines and git providers call to deploy an app
// (promises W1 to W12). Package api lists its routes. The apps function enables and disables
// webhooks and shows their tokens; this function only reads tokens.
//
// # Tokens
//
// A watch keeps all tokens in memory. A call with an unknown app or a wrong token is rejected
// from memory, so a flood of such calls does not reach the API server. A call that memory
// verifies is verified once more against the API server, so a token that was replaced or deleted
// is invalid at once. A token may be so new that the watch has not delivered it; a few lookups
// a second are made for calls that memory rejects. Until the first list is complete, calls wait,
// at most 10 seconds after the start, and then get 503. So does a verified call while the API
// server does not respond.
//
// # Pipelines without a secret
//
// A call may carry a token that a CI system issued to the pipeline, if the app trusts that
// pipeline ([app.Trust]). Package issuers verifies the token. The app's trusts are read from the
// store, and again in the transaction that records the call. The same transaction stores the
// token's id until the token expires, so that a token is valid for one call over all replicas.
// The exception is a repeated delivery: it gets the first response and records nothing. Reading
// an outcome does not use up a token.
//
// Everybody has pipelines somewhere, and their tokens are valid until the app has been read. So
// these reads are limited for each repository, to as many a minute as an address may be
// rejected.
//
// # Order
//
//  1. Verify the call ([hook.Claim]) against the app's token in memory: by the token that it
//     carries, before the body is read, or by the signature of the body. An app that does not
//     exist or has no webhook is verified against a random token. So a missing or wrong token,
//     an unknown app and a disabled webhook take the same path and get the same 401
//     invalid_token.
//  2. Apply the rate limit: 60 verified calls in any minute for each app, then 429.
//  3. Verify the call against the app's Secret in the API server.
//  4. Check the content type (415) and the payload (400, 422); see package hook.
//  5. If the call will deploy an image, resolve its digest, for at most 3 seconds.
//  6. In one transaction, look for the delivery, decide ([hook.Decide]), record the revision or
//     the build, and store the response.
//  7. Notify the function that continues. Without the notification it continues a few seconds
//     later.
//
// # Outcome
//
// A call gets 202 once its revision or build is recorded, with the status_url at which the same
// token reads its progress: building, rolling_out, live, failed with a message, or superseded.
// With "Prefer: wait=SECONDS" the response waits for the end, at most 300 s, and is 200 with
// deployed, failed or superseded. It is 202 if the time is over, if too many calls wait, or if
// the process stops. A wait holds no lock and ends when the client disconnects.
//
// # Deliveries
//
// X-GitHub-Delivery, X-Gitea-Delivery or Idempotency-Key names a delivery to an app. The same
// delivery with the same body gets the first response again for 24 hours, with
// "Idempotent-Replayed: true", and records nothing. With another body it gets 409 conflict:
// otherwise one of two senders would believe that its image is deployed. The revision and the
// response are stored in one transaction, so a call whose response was lost can be repeated.
// Rejected calls are not stored. A call without an id is always new.
//
// # Receipts
//
// A receipt of each verified call is kept for a week ([hook.Receipt]); the management API lists
// receipts as the webhook's deliveries. Calls put receipts into a bounded queue, from which one
// goroutine writes them in batches. So a slow or unavailable store delays and changes no
// response. Receipts are lost then, which is logged and counted (sluice_webhook_receipts_total).
//
// Unverified calls must not cause writes at will, nor displace verified calls from the list. So
// they share one receipt an hour for each app and process, and rate-limited calls share another.
// Such a receipt has a count and is written at most once a minute. Only apps whose token is in
// memory have one. Every unverified call is counted in memory in the same way, so that its
// timing does not reveal whether the app exists.
//
// # Limits
//
// Limits are kept by each process, so several replicas multiply them. A call that a limit
// rejects does not count. An unverified call counts against the address that it comes from (an
// IPv6 address by its /64 network), never against the app; above 300 a minute the address gets
// 429, whatever the app.
//
// The buffers of bodies are bounded ([httpapi.Bodies]): those of calls with a token by app, and
// separately those of calls with a signature by address. A call that finds no room within 3
// seconds gets 429. A body that is verified only by its signature must arrive within 5 seconds.
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
	pipelines  *httpapi.Bodies // of calls with a token
	strangers  *httpapi.Bodies // of calls with a signature
	waiting    chan struct{}   // has room for those who may wait

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
