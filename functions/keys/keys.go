// Package keys is the function that manages usage plans and API keys
// (specification sections 2.1, 2.2, 3.1 and 4.4; decisions sections 2 and 3).
//
//	GET    /api/v1/projects/{project}/environments/{environment}/plans
//	POST   /api/v1/projects/{project}/environments/{environment}/plans
//	GET    /api/v1/projects/{project}/environments/{environment}/plans/{plan_id}
//	PATCH  /api/v1/projects/{project}/environments/{environment}/plans/{plan_id}
//	DELETE /api/v1/projects/{project}/environments/{environment}/plans/{plan_id}
//	GET    /api/v1/projects/{project}/environments/{environment}/api-keys?plan=
//	POST   /api/v1/projects/{project}/environments/{environment}/api-keys
//	GET    /api/v1/projects/{project}/api-keys?environment=&plan=
//	GET    /api/v1/projects/{project}/api-keys/{key_id}
//	PATCH  /api/v1/projects/{project}/api-keys/{key_id}
//	POST   /api/v1/projects/{project}/api-keys/{key_id}/revoke
//	POST   /api/v1/projects/{project}/api-keys/{key_id}/rotate
//
// A call that issues a full key may carry an Idempotency-Key. The same caller's
// second call with it in the project, within 24 hours, is refused as already_issued:
// a lost answer can be asked for again, and a page be reloaded, without a second
// key or rotation that nobody asked for.
//
// Viewers read, developers write. A plan or key of another project, and an id
// that cannot be one, read as not_found. Nothing here reaches a checker: it
// listens to the documents that this function writes.
//
// # Plans
//
// A plan's id comes from its first name and stays when the name changes, since
// keys refer to it; two plans may therefore come to bear the same name. A change
// is checked as a whole: quota and quota_period come together or not at all, and
// null in either one takes both away.
//
// # Keys
//
// The full key leaves in the answers to creation and rotation and is neither
// stored nor logged. status is "expired" for an active key whose expiry has
// passed; disabled and revoked keys keep saying what they are. In a PATCH, null
// takes away what is optional: the name, the scope (the key is then good for
// every app of its environment) and the expiry. A PATCH that says nothing changes
// nothing and is answered like a GET, for revoked keys too; every other PATCH of a
// revoked key is key_revoked. Revoking twice is no error: the key is what was
// asked for.
//
// An environment has at most MAX_KEYS_PER_ENVIRONMENT keys, since each takes memory in
// every checker: one more is too_many_keys. Revoked keys do not count. They are out of
// the checkers at once, and stay listed, with their usage, until rollup deletes them
// when the last day on which they were good leaves the retention of 92 days. Expired
// keys count and stay, since they can be extended.
//
// last_seen is the last kept day on which the key saw any traffic, denied or
// allowed, as the rollups have it: within a minute of a day's first request. It is
// null for a key without traffic in the last 92 days.
//
// An app that is deleted stays in the scopes that name it and counts again when
// an app of that name comes back; whoever sets a scope can only name apps that
// are there.
package keys

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Plans keeps usage plans; *store.Store implements it.
type Plans interface {
	CreatePlan(ctx context.Context, p plan.Plan) error
	Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error)
	Plans(ctx context.Context, namespace string, page store.Page) ([]plan.Plan, string, error)
	UpdatePlan(ctx context.Context, namespace string, id plan.ID, change func(plan.Plan) (plan.Plan, error)) (plan.Plan, error)
	DeletePlan(ctx context.Context, namespace string, id plan.ID) error
}

// Keys keeps API keys; *store.Store implements it.
type Keys interface {
	IssueKey(ctx context.Context, k apikey.Key, r apikey.Request, most int) error
	Key(ctx context.Context, id apikey.ID) (apikey.Key, error)
	Keys(ctx context.Context, f store.KeyFilter, page store.Page) ([]apikey.Key, string, error)
	ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (apikey.Key, error)
}

// Environments tells which environments there are; *store.Store implements it.
type Environments interface {
	// Environment reads one environment. Problem: not_found.
	Environment(ctx context.Context, project, name string) (app.Environment, error)
}

// Usage tells on which days keys were used; *store.Store implements it.
type Usage interface {
	// Rollups reads the histories of keys, in the order of prefixes.
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
}

// Guard says who asks and whether they may; *identity.Guard implements it.
type Guard interface {
	Require(r *http.Request, project string, need app.Role) (identity.Caller, error)
}

// Service answers the function's requests.
type Service struct {
	plans        Plans
	keys         Keys
	environments Environments
	usage        Usage
	guard        Guard
	log          *slog.Logger
	maxKeys      int       // of an environment
	random       io.Reader // of prefixes and secrets
	now          func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	MaxKeys      int // [Config.MaxKeys]
	Plans        Plans
	Keys         Keys
	Environments Environments
	Usage        Usage
	Guard        Guard
	Log          *slog.Logger
}

// New makes a service.
func New(p Parts) *Service {
	return &Service{
		plans: p.Plans, keys: p.Keys, environments: p.Environments, usage: p.Usage, guard: p.Guard,
		log: p.Log, maxKeys: p.MaxKeys, random: apikey.Random(), now: time.Now,
	}
}

// Handler routes the function's requests.
func (s *Service) Handler() http.Handler {
	const (
		project     = " /api/v1/projects/{project}"
		environment = project + "/environments/{environment}"
	)
	m := httpapi.New(s.log)
	m.Handle("GET"+environment+"/plans", s.listPlans)
	m.Handle("POST"+environment+"/plans", s.createPlan)
	m.Handle("GET"+environment+"/plans/{plan_id}", s.getPlan)
	m.Handle("PATCH"+environment+"/plans/{plan_id}", s.updatePlan)
	m.Handle("DELETE"+environment+"/plans/{plan_id}", s.deletePlan)
	m.Handle("GET"+environment+"/api-keys", s.listKeysOfEnvironment)
	m.Handle("POST"+environment+"/api-keys", s.createKey)
	m.Handle("GET"+project+"/api-keys", s.listKeysOfProject)
	m.Handle("GET"+project+"/api-keys/{key_id}", s.getKey)
	m.Handle("PATCH"+project+"/api-keys/{key_id}", s.updateKey)
	m.Handle("POST"+project+"/api-keys/{key_id}/revoke", s.revokeKey)
	m.Handle("POST"+project+"/api-keys/{key_id}/rotate", s.rotateKey)
	return m
}

// moment is the time of a change as the store keeps it, in microseconds, so that
// the answer to a change and every later answer show the same time.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
