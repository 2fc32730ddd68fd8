// Package keys is the function that manages usage plans and API keys
// (promises K1 to K9, L1 to L4, L7, P1 to P3, A12).
//
// Its routes are those of package api with this name.
//
// A call that issues a full key may carry an Idempotency-Key. The same caller's
// second call with it in the project, within 24 hours, is refused as already_issued (or, if it asks for something else, as idempotency_key_reused):
// a lost answer can be asked for again, and a page be reloaded, without a second
// key or rotation that nobody asked for.
//
// Viewers read, developers write. A plan or key of another project, and an id
// that cannot be one, read as not_found. What is changed here reaches the checkers
// through the store alone: they listen to the documents that this function writes. With
// "Prefer: wait" the answer waits until they have (promise F7, package inforce): the
// function reads who they are from the store, and asks each. A wait ends with what is known
// when the process is told to stop.
//
// # Plans
//
// A plan's id comes from its first name and stays when the name changes, since
// keys refer to it; two plans may therefore come to bear the same name. A change
// is checked as a whole: quota and quota_period come together or not at all, and
// null in either one takes both away. A quota has a quota_mode, soft unless hard is
// asked for; it goes when the quota goes, and null in it is soft again.
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
// # ETag and If-Match
//
// The tag is of all that is stored of a plan or a key, its secrets' hashes among it, so
// that a rotation makes another one. What is observed, such as last_seen, or follows
// from the time, such as "expired", makes none.
//
// last_seen is the last kept day on which the key saw any traffic, denied or
// allowed; it is null for a key without traffic in the last 92 days. It and usage are
// what a report of the key says (package counted), with the counts that checkers hold in
// memory; as_of is their time. The order sort=last_seen uses stored days only.
//
// # Lists
//
// A list that is narrowed only by plan reads the keys. Any other reads the list of keys
// (package store), which has an index for each filter and order, and then the keys of its page.
// A page reads at most 200 entries of the list of keys. It may have fewer keys than requested,
// and still a token. A page of 50 keys costs at most 200 document reads, and one more for each
// plan. A key that is no longer as the list of keys has it is left out.
//
// The list of keys is not ready before rollup has compared all keys with it, and while rollup
// has not run for 15 minutes. Until then such a list reads keys with the right plan and stored
// status, one after the other, until its page is full; with sort=last_seen it reads all of them,
// and their usage. A process reads for four such calls at a time and keeps no key that is not on
// the page, so its memory is bounded. Further calls wait, for 10 s at most.
//
// # Refused requests
//
// Why the gate refused a request is known to the checker that did, among its last 4096
// denials: each is asked (package explain), and the answer says how many were, and how many
// have answered. A developer is told of the project's own apps. A key of another project that
// was sent to one of them is not named, and one with a wrong secret is unknown, so that nobody
// learns here which keys others have. Who has asked for which request is in the audit log. A
// caller asks 30 times at once, and then once a second, of each process of the function. A
// request to no app, or refused by the checkers' stand-in, is not found.
//
// # Leaked keys
//
// Secrets that were found where strangers can read them are reported by programs, in the
// protocol of GitHub's secret scanning partners, and by whoever is signed in, of whatever
// project. Both name secrets by themselves alone, and learn nothing: the answer is the same
// whatever has become of one, and to a person it comes after a fixed time at the earliest,
// which is longer than the work takes. What is no key by its checksum is told to a person,
// since anybody can see it. The one difference that is left shows in an outage of the store
// that lets reads through and no writes: then a key is 503 and none is not.
//
// What a report does is package apikey's to say, and the project's policy: it is a change of
// a key as any other, with a record of its own, by which the project can ask when it is in
// force. A report names one key at a time to the store, which reads once for what is no key
// that it knows, or known to have leaked, and no more. A service token that is reported is
// revoked, whatever the policy.
//
// A program is known by the signature over its body, which has to be read before that can be
// checked. Bodies are bounded in size and time, and all their buffers in memory; each network
// has a share of that memory. Only calls without a good signature count against the network that they come from.
// All limits live in the memory of one process. A list is done in parts, and answered once
// all are done; a program that gets another answer sends it again.
//
// # Scopes
//
// A scope can only name existing apps. The deletion of an app (package apps) removes it from
// all scopes. A scope that named no other app then covers no app, which the field scope
// shows as none; an empty list in a PATCH still means every app.
//
// # Hard quotas
//
// An owner can release what lost checkers hold of a key's hard quota. The store decides which
// checkers are lost, and how much of it counts as spent. While every holder may still allow
// requests, the call is quota_held. An owner could raise the quota of the plan by as much.
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
	"github.com/sluicegate/sluice/shared/usage/counted"
)

// Store keeps plans, keys and what keys were used for; *store.Store implements it.
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
	EachListed(ctx context.Context, f store.KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error]
	KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) // in the order of prefixes, without those that are gone
	ReleaseLeases(ctx context.Context, k apikey.Key, t usage.Term, used int64) (store.Released, error)
	PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error) // in the order of keys; zero where one is gone
	counted.Store
}

// Service answers the function's requests.
type Service struct {
	cfg      Config
	store    Store
	api      *httpapi.API
	checkers *checkerSet
	explains *callers
	leaks    *leaks
	counted  *counted.Reader
	scans    scans
	log      *slog.Logger
	random   io.Reader // of prefixes and secrets
	now      func() time.Time
}

// New makes a service. Once ending is closed nobody waits any more.
func New(cfg Config, st Store, sessions httpapi.Sessions, log *slog.Logger, ending <-chan struct{}) *Service {
	s := &Service{cfg: cfg, store: st, api: httpapi.NewAPI(log, sessions, st).Within(cfg.Calls), log: log, random: apikey.Random(), now: time.Now}
	s.checkers = newCheckers(checkers.NewClient(cfg.Settings), st, log, ending)
	s.counted = counted.NewReader(st, &counted.Checkers{Client: s.checkers.client, Members: st.Members, Log: log}, cfg.Recent)
	s.scans = make(scans, scansAtOnce)
	s.explains = newCallers(explainBurst, explainEvery, "questions about refused requests")
	s.leaks = newLeaks(cfg, s)
	httpapi.Serve(s.api, api.ListPlans, s.listPlans)
	httpapi.ServeChange(s.api, api.CreatePlan, s.checkers, s.createPlan)
	httpapi.Serve(s.api, api.GetPlan, s.getPlan)
	httpapi.ServeChange(s.api, api.UpdatePlan, s.checkers, s.updatePlan)
	httpapi.Serve(s.api, api.DeletePlan, s.deletePlan)
	httpapi.Serve(s.api, api.ListKeys, s.listKeys)
	httpapi.ServeChange(s.api, api.CreateKey, s.checkers, s.createKey)
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

// moment is the time of a change as the store keeps it, in microseconds, so that
// the answer to a change and every later answer show the same time.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
