// Package webhook is the function that CI pipelines and git providers call to
// deploy an app (specification sections 2.6, 4.2, 5, 7 and 8; decisions section 6).
//
//	POST /api/v1/webhook/{namespace}/{app}
//
// The management API's apps function enables and disables webhooks and shows their
// tokens; this one only ever reads a token.
//
// # Order
//
//  1. Rate limit: 60 attempts in any minute per app, whoever makes them, 429 with
//     Retry-After from then on.
//  2. The raw body, 1 MiB at most.
//  3. Proof ([hook.Proven]) against the token in the app's Secret. An app that is
//     unknown or has no webhook is checked against a token that nobody knows, so
//     that a missing or wrong token, an unknown app and a disabled webhook take the
//     same way and get the same 401 invalid_token.
//  4. Content type (415) and payload (400, 422), see package hook.
//  5. Where the call will deploy an image: its digest, if the registry tells it
//     within three seconds.
//  6. One transaction that looks for the delivery, decides on the app as it is
//     then ([hook.Decide]), records the revision or the build, and keeps the answer.
//  7. A nudge to the function that makes the cluster match, which would come by
//     itself a few seconds later.
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
// # Rate limit
//
// It lives in the memory of one process: with several replicas an app gets that
// many times the limit. Attempts that are refused for it do not count, so a client
// that keeps trying gets its share. Whoever knows an app's address can use its
// limit up; the ingress is the place to stop that by address.
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

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
)

// Tokens knows the webhooks' tokens; *cluster.Cluster implements it.
type Tokens interface {
	// WebhookToken reads the token of an app's webhook. Problem: not_found.
	WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error)
}

// Apps keeps apps, their revisions and builds; *store.Store implements it.
type Apps interface {
	// App reads one app. Problem: not_found.
	App(ctx context.Context, namespace, name string) (app.App, error)
	// Receive records what a call asks for, once for each delivery.
	Receive(ctx context.Context, ref app.Ref, d hook.Delivery, now time.Time, rule func(a app.App) (hook.Outcome, error)) (answer hook.Answer, fresh bool, err error)
}

// Registry says which bytes a tag is; *registry.Resolver implements it.
type Registry interface {
	// Resolve never fails: without a digest the note says why.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Nudge hurries another function up; *nudge.Sender implements it.
type Nudge interface {
	Tell(ctx context.Context, eventType string, ref app.Ref)
}

// Parts are what a Service is put together from.
type Parts struct {
	Tokens   Tokens
	Apps     Apps
	Registry Registry
	Deploys  Nudge // the deploys function
	Builds   Nudge // the builds function
	Random   io.Reader
	Log      *slog.Logger
}

// Service answers the function's requests.
type Service struct {
	tokens   Tokens
	apps     Apps
	registry Registry
	deploys  Nudge
	builds   Nudge
	nobodys  hook.Token // stands in where there is no token
	limit    *limit
	turns    *turns
	calls    *prometheus.CounterVec
	log      *slog.Logger
	now      func() time.Time
}

// New makes a service. Random is crypto/rand's reader.
func New(cfg Config, p Parts) (*Service, error) {
	if cfg.AttemptsPerMinute < 1 {
		return nil, errors.New("ATTEMPTS_PER_MINUTE must be positive")
	}
	nobodys, err := hook.NewToken(p.Random)
	if err != nil {
		return nil, fmt.Errorf("start webhook: %w", err)
	}
	return &Service{
		tokens: p.Tokens, apps: p.Apps, registry: p.Registry, deploys: p.Deploys, builds: p.Builds,
		nobodys: nobodys, limit: newLimit(cfg.AttemptsPerMinute, time.Now()), turns: newTurns(), calls: newCalls(), log: p.Log, now: time.Now,
	}, nil
}

// Handler routes the function's requests.
func (s *Service) Handler() http.Handler {
	m := httpapi.New(s.log)
	m.Handle("POST /api/v1/webhook/{namespace}/{app}", s.receive)
	return m
}

// moment is the time of a change as the store keeps it, in microseconds.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
