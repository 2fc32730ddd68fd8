// Package usage is the function that reports a key's usage (specification
// sections 2.3 and 4.3; decisions section 5).
//
//	GET /api/v1/projects/{project}/api-keys/{key_id}/usage?from=&to=
//
// Viewers read. A key of another project, and an id that cannot be one, read as
// not_found; a key that is disabled or revoked has its usage still. A date that is
// given but empty, or given twice, is refused rather than guessed.
//
// # Where the numbers come from
//
// Days that are settled come from the key's rollup alone. Of the days that are
// not, usually today and the two before it, the counters are read too, and the
// larger of rollup and counters holds, total by total: both are sums that only
// grow. So a report is exact as soon as the checkers have flushed, and stays right
// however late the rollup is. The order of reading matters: first how far days are
// settled, then the counters, last the rollup. A day that is settled meanwhile,
// and whose counters may then be gone, is whole in the rollup that is read last.
//
// # Cost
//
// A report reads the key, its rollup, the mark, and the counters of the days that
// are not settled: a document for each source and shard (a shard holds a thousand
// keys), however many keys and requests there were. The counters are of all keys,
// so they are kept for RECENT_SECONDS and shared by the requests of that time: a
// page that shows a hundred keys reads them once.
package usage

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/usage"
)

// Keys tells which keys there are; *store.Store implements it.
type Keys interface {
	// Key reads one key. Problem: not_found.
	Key(ctx context.Context, id apikey.ID) (apikey.Key, error)
}

// Counts are what was counted; *store.Store implements it.
type Counts interface {
	// SettledDay gives the last day that is whole in the rollups, like all before
	// it. Problem: not_found before the first.
	SettledDay(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
}

// Guard says who asks and whether they may; *identity.Guard implements it.
type Guard interface {
	Require(r *http.Request, project string, need app.Role) (identity.Caller, error)
}

// Parts are what a Service is put together from.
type Parts struct {
	Config Config
	Keys   Keys
	Counts Counts
	Guard  Guard
	Log    *slog.Logger
}

// Service answers the function's requests.
type Service struct {
	keys   Keys
	counts Counts
	guard  Guard
	log    *slog.Logger
	recent *recent
	now    func() time.Time
}

// New makes a service.
func New(p Parts) *Service {
	return &Service{
		keys: p.Keys, counts: p.Counts, guard: p.Guard, log: p.Log,
		recent: newRecent(p.Counts, p.Config.recent()), now: time.Now,
	}
}

// Handler routes the function's requests.
func (s *Service) Handler() http.Handler {
	m := httpapi.New(s.log)
	m.Handle("GET /api/v1/projects/{project}/api-keys/{key_id}/usage", s.getUsage)
	return m
}
