// Package keys is the function that manages usage plans and API keys (promises K1 to K9, L1 to L4,
// L7, P1 to P3, A12).
//
// Checkers receive changes through the store. With "Prefer: wait", a response waits until all
// checkers confirm the change (package checkers), or until the process shuts down.
//
// # Plans and keys
//
// A full key is only in the response to its creation or rotation; it is neither stored nor logged.
// A call with an Idempotency-Key issues at most one key in 24 hours. An environment has at most
// MAX_KEYS_PER_ENVIRONMENT keys, since each occupies memory in every checker. Revoked keys do not
// count, and are listed until rollup deletes them; expired keys count, since they can be extended.
//
// An ETag covers all stored fields, including the hashes of secrets, but no observed values such as
// last_seen. A scope can name only existing apps. If all apps of a scope are deleted, the key has
// scope none; an empty list in a PATCH means all apps.
//
// # Lists
//
// unused_for selects by the UTC day of the last use. A key that was used on the first day of the
// duration is not selected, since it may have been used within the duration. Requests that only the
// memory of a checker contains are unknown if the checker does not respond within a second.
//
// A list that is filtered only by plan reads the keys. Other lists read the list of keys (package
// store) and then the keys of the page. A page reads at most 200 entries, so it can have fewer
// keys than requested although a next page exists. It costs at most 200 document reads for 50 keys, plus
// one for each plan. While the list of keys is not ready (before rollup's first comparison, or
// after 15 minutes without a run), the keys are scanned instead.
//
// # Bulk changes
//
// A bulk change makes one change to up to 500 keys. Each key is a transaction with its own audit
// record, eight at a time, so a failure does not affect the other keys. A repeated call reports the
// keys that it finds changed as unchanged. A dry run applies the same rules to the stored keys and
// saves nothing. A process has at most four bulk changes at a time, and one of each project; others
// wait. Six seconds after the call, no further transaction starts, and the remaining keys fail as
// unavailable.
//
// # Denied requests
//
// Only the checker that denied a request knows the reason, so all checkers are queried. The
// response must not reveal that a key of another project exists.
//
// # Leaked keys
//
// Secret-scanning programs use the protocol of GitHub's secret scanning partners; any user can
// report a key of any project. Both get the same response for every well-formed secret, and users
// get it after a fixed minimum time. Only a store that rejects writes reveals that a key exists: the
// response is then 503. The project's policy decides what happens to the key (package apikey).
package keys

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
)

// Store stores plans, keys and usage. *store.Store implements it.
type Store interface {
	httpapi.Resources
	CreatePlan(ctx context.Context, p plan.Plan) (checkers.Change, error)
	Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error)
	Plans(ctx context.Context, namespace string, page store.Page) ([]plan.Plan, string, error)
	UpdatePlan(ctx context.Context, namespace string, id plan.ID, change func(plan.Plan) (plan.Plan, error)) (plan.Plan, checkers.Change, error)
	DeletePlan(ctx context.Context, namespace string, id plan.ID, may func(plan.Plan) error) error
	IssueKey(ctx context.Context, k apikey.Key, r apikey.Request, most int) (checkers.Change, error)
	Key(ctx context.Context, id apikey.ID) (apikey.Key, error)
	Keys(ctx context.Context, f store.KeyFilter, page store.Page) ([]apikey.Key, string, error)
	ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (apikey.Key, checkers.Change, error)
	ReportLeak(ctx context.Context, id apikey.ID, l apikey.Leak) (store.LeakResult, checkers.Change, error)
	ReportTokenLeak(ctx context.Context, id servicetoken.ID, l apikey.Leak) (store.LeakResult, error)
	Change(ctx context.Context, project, id string) (checkers.Change, error)
	Members(ctx context.Context, t store.CanaryType) (checkers.List, error)
	Environments(ctx context.Context, project string, page store.Page) ([]app.Environment, string, error)
	Record(ctx context.Context, c audit.Change) (string, error)
	KeyListReady(ctx context.Context) (bool, error)
	FindKeys(ctx context.Context, q store.KeySearch, after store.KeyPlace, limit int) ([]store.Candidate, error)
	CountListed(ctx context.Context, f store.KeyFilter) (n int, ok bool, err error)
	EachListed(ctx context.Context, f store.KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error]
	KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) // in the order of prefixes, without deleted keys
	ReleaseLeases(ctx context.Context, k apikey.Key, t usage.QuotaPeriod, used int64) (store.Released, error)
	PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error) // in the order of keys; zero for deleted plans
	usagequery.Store
}

// Service answers the function's requests.
type Service struct {
	cfg      Config
	store    Store
	api      *httpapi.API
	checkers *checkerSet
	explains *callerLimiter
	leaks    *leakReporter
	counted  *usagequery.Reader
	scans    scans
	bulks    *bulkQueue
	log      *slog.Logger
	random   io.Reader // for prefixes and secrets
	now      func() time.Time
}

// New returns a service. It ends all waits when ending is closed.
func New(cfg Config, st Store, sessions httpapi.Sessions, log *slog.Logger, ending <-chan struct{}) *Service {
	s := &Service{cfg: cfg, store: st, api: httpapi.NewAPI(log, sessions, st).Within(cfg.Calls), log: log, random: apikey.Random(), now: time.Now}
	s.checkers = newCheckers(checkers.NewClient(cfg.Settings), st, log, ending)
	s.counted = usagequery.NewReader(st, &usagequery.Checkers{Client: s.checkers.client, Members: st.Members, Log: log}, cfg.Recent)
	s.scans, s.bulks = make(scans, scansAtOnce), newBulkQueue()
	s.explains = newCallerLimiter(explainBurst, explainEvery, "explanations of denied requests")
	s.leaks = newLeakReporter(cfg, s)
	httpapi.Serve(s.api, api.ListPlans, s.listPlans)
	httpapi.ServeChange(s.api, api.CreatePlan, s.checkers, s.createPlan)
	httpapi.Serve(s.api, api.GetPlan, s.getPlan)
	httpapi.ServeChange(s.api, api.UpdatePlan, s.checkers, s.updatePlan)
	httpapi.Serve(s.api, api.DeletePlan, s.deletePlan)
	httpapi.Serve(s.api, api.ListKeys, s.listKeys)
	httpapi.ServeChange(s.api, api.CreateKey, s.checkers, s.createKey)
	httpapi.ServeChange(s.api, api.BulkKeys, s.checkers, s.bulkKeys)
	httpapi.Serve(s.api, api.ListProjectKeys, s.listProjectKeys)
	httpapi.Serve(s.api, api.FindKey, s.findKey)
	httpapi.Serve(s.api, api.GetKey, s.getKey)
	httpapi.ServeChange(s.api, api.UpdateKey, s.checkers, s.updateKey)
	httpapi.ServeChange(s.api, api.RevokeKey, s.checkers, s.revokeKey)
	httpapi.ServeChange(s.api, api.RotateKey, s.checkers, s.rotateKey)
	httpapi.Serve(s.api, api.ReleaseQuota, s.releaseQuota)
	httpapi.ServeChange(s.api, api.GetChange, s.checkers, s.getChange)
	httpapi.ServeRaw(s.api, api.ReportLeaks.Row, s.reportLeaks)
	httpapi.Serve(s.api, api.ReportLeak, s.reportLeak)
	httpapi.Serve(s.api, api.ExplainRequest, s.explainRequest)
	return s
}

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// changeTime returns the current time in microseconds, the precision of the store.
func (s *Service) changeTime() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
