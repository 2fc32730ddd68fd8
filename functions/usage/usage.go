// Package usage is the function that reports the usage of keys and environments (promises U4, U5).
// Package usagequery describes the sources of the counts. A key of another project returns not_found;
// a disabled or revoked key has a report.
//
// # Cost
//
// A report of a key reads the key, its rollup, and the counters of days that are not finalized,
// which concurrent requests share.
//
// A report of an environment with more than 60 keys reads the summary that rollup writes. It
// counts the keys by status, and reads only those that may be the busiest or need attention. This
// costs at most 200 documents for 100,000 keys. With fewer keys, or before rollup's first pass
// over all keys, it reads all plans, keys and rollups. A process reads two environments at a time,
// and caches environments with together 20,000 keys. A report is reused for RECENT_SECONDS, plus
// one second for each hundred keys read.
//
// A forecast reads two documents for each key of the plan, or of the environment for a gate. It
// reuses the reads of a report of all keys and of other forecasts for the same time. A process
// reads for one forecast at a time, independently of reports. A second forecast of an environment
// returns rate_limited; those of other environments wait.
//
// An export reads the counters once, then the keys, then the rollups, 500 at a time. A process
// runs one export of a project, one of a caller and four in all; further ones are rejected as
// rate_limited. An export takes at most five minutes, including the time that the client needs to
// receive it.
package usage

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
)

// Store stores keys and counts. *store.Store implements it.
type Store interface {
	httpapi.Resources
	Key(ctx context.Context, id apikey.ID) (apikey.Key, error)
	usagequery.Store
	EachKey(ctx context.Context, f store.KeyFilter) iter.Seq2[apikey.Key, error]
	EachListed(ctx context.Context, f store.KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error]
	Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error)
	Summary(ctx context.Context, namespace string) (sum store.Summary, ok bool, err error)
	CountKeys(ctx context.Context, q store.KeySearch) (int, error)
	FindKeys(ctx context.Context, q store.KeySearch, after store.KeyPlace, limit int) ([]store.Candidate, error)
	KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) // in the order of prefixes, without deleted keys
	PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error)        // in the order of keys; zero for deleted plans
	Members(ctx context.Context, t store.CanaryType) (checkers.List, error)
	EnvironmentPlans(ctx context.Context, namespace string) ([]plan.Plan, error)
	Records(ctx context.Context, q audit.Query, page store.Page) ([]audit.Record, string, error)
}

// Service answers the function's requests.
type Service struct {
	store        Store
	api          *httpapi.API
	counted      *usagequery.Reader
	environments *readings[environment]
	used         *readings[usedKeys] // for forecasts
	forecasts    running
	exports      running
	now          func() time.Time
}

// New returns a service.
func New(cfg Config, st Store, sessions httpapi.Sessions, log *slog.Logger) *Service {
	checkers := &usagequery.Checkers{Client: checkers.NewClient(cfg.Settings), Members: st.Members, Log: log}
	s := &Service{
		store: st, api: httpapi.NewAPI(log, sessions, st).Within(cfg.Calls), counted: usagequery.NewReader(st, checkers, cfg.Recent),
		environments: newReadings[environment](cfg.Life(), reportsAtOnce), used: newReadings[usedKeys](cfg.Life(), forecastsAtOnce),
		forecasts: running{what: "forecast", retry: time.Second},
		exports:   running{what: "export", most: exportsAtOnce, retry: exportRetry}, now: time.Now,
	}
	httpapi.Serve(s.api, api.GetUsage, s.getUsage)
	httpapi.Serve(s.api, api.GetEnvironmentUsage, s.getEnvironmentUsage)
	httpapi.Serve(s.api, api.ForecastPlan, s.forecastPlan)
	httpapi.Serve(s.api, api.ForecastGate, s.forecastGate)
	httpapi.ServeStream(s.api, api.ExportUsage, s.exportUsage)
	return s
}

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

func (s *Service) getUsage(ctx context.Context, in httpapi.Scope, asked api.Window) (wire.Usage, error) {
	k, err := s.key(ctx, in.Project.Name, apikey.ID(in.Param("key_id")))
	if err != nil {
		return wire.Usage{}, err
	}
	today := usage.DayOf(s.now())
	window, err := newWindow(asked, today)
	if err != nil {
		return wire.Usage{}, err
	}
	read, err := s.counted.Read(ctx, []apikey.Prefix{k.Prefix}, s.now)
	if err != nil {
		return wire.Usage{}, fmt.Errorf("usage of %s: %w", k.ID(), err)
	}
	r := usage.NewReport(window, read.Histories[0], today)
	out := wire.Usage{KeyID: string(k.ID()), UsageReport: usagequery.Wire(r, read.Incomplete), AsOf: read.AsOf}
	if r.Seen {
		last := r.LastSeen.String()
		out.LastSeen = &last
	}
	return out, nil
}

func (s *Service) key(ctx context.Context, project string, id apikey.ID) (apikey.Key, error) {
	if _, ok := id.Prefix(); !ok {
		return apikey.Key{}, errKeyNotFound()
	}
	k, err := s.store.Key(ctx, id)
	if err == nil && k.Project != project {
		err = errKeyNotFound()
	}
	return k, err
}

func errKeyNotFound() error { return problem.New(problem.NotFound, "The key does not exist.") }

func newWindow(asked api.Window, today usage.Day) (usage.Window, error) {
	from, err := parseDay(asked.From)
	if err != nil {
		return usage.Window{}, err
	}
	to, err := parseDay(asked.To)
	if err != nil {
		return usage.Window{}, err
	}
	return usage.NewWindow(from.day, to.day, today)
}

type optional struct{ day *usage.Day }

func parseDay(text *string) (optional, error) {
	if text == nil {
		return optional{}, nil
	}
	day, err := usage.ParseDay(*text)
	return optional{&day}, err
}
