// Package usage is the function that reports a key's usage (promises U4, U5).
//
// Viewers read. A key of another project, and an id that cannot be one, read as
// not_found; a key that is disabled or revoked has its usage still. A date that is
// given but empty is refused rather than guessed.
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
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// Store keeps keys and what was counted; *store.Store implements it.
type Store interface {
	httpapi.Resources
	// Key reads one key. Problem: not_found.
	Key(ctx context.Context, id apikey.ID) (apikey.Key, error)
	// SettledDay gives the last day that is whole in the rollups, like all before
	// it. Problem: not_found before the first.
	SettledDay(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
}

// Service answers the function's requests.
type Service struct {
	store  Store
	api    *httpapi.API
	recent *recent
	now    func() time.Time
}

// New makes a service.
func New(cfg Config, st Store, sessions httpapi.Sessions, log *slog.Logger) *Service {
	s := &Service{store: st, api: httpapi.NewAPI(log, sessions, st), recent: newRecent(st, cfg.recent()), now: time.Now}
	httpapi.Serve(s.api, api.GetUsage, s.getUsage)
	return s
}

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// getUsage reports a key's usage in a window.
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
	h, err := s.history(ctx, k.Prefix)
	if err != nil {
		return wire.Usage{}, fmt.Errorf("usage of %s: %w", k.ID(), err)
	}
	return wireUsage(k.ID(), usage.NewReport(window, h, today)), nil
}

// key reads a key of a project. Problem: not_found.
func (s *Service) key(ctx context.Context, project string, id apikey.ID) (apikey.Key, error) {
	if _, ok := id.Prefix(); !ok {
		return apikey.Key{}, noKey()
	}
	k, err := s.store.Key(ctx, id)
	if err == nil && k.Project != project {
		err = noKey()
	}
	return k, err
}

func noKey() error { return problem.New(problem.NotFound, "There is no such key.") }

// newWindow is the window that was asked for. Problems: those of [usage.NewWindow], invalid_date.
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

// optional is a day that may have been asked for; nil was not.
type optional struct{ day *usage.Day }

func parseDay(text *string) (optional, error) {
	if text == nil {
		return optional{}, nil
	}
	day, err := usage.ParseDay(*text)
	return optional{&day}, err
}

// history is all that is known of a key: see the package's word on the order.
func (s *Service) history(ctx context.Context, prefix apikey.Prefix) (usage.History, error) {
	recent, err := s.recent.read(ctx, s.now)
	if err != nil {
		return nil, err
	}
	histories, err := s.store.Rollups(ctx, []apikey.Prefix{prefix})
	if err != nil {
		return nil, err
	}
	h := histories[0]
	for day, sums := range recent {
		h = h.Raise(day, sums[prefix])
	}
	return h, nil
}

func wireUsage(id apikey.ID, r usage.Report) wire.Usage {
	out := wire.Usage{
		KeyID: string(id), From: r.Window.From.String(), To: r.Window.To.String(),
		RetentionDays: usage.RetentionDays, Totals: wireTotals(r.Totals), Days: make([]wire.UsageDay, len(r.Days)),
	}
	for i, d := range r.Days {
		out.Days[i] = wire.UsageDay{Date: d.Day.String(), UsageTotals: wireTotals(d.Totals)}
	}
	if r.Seen {
		last := r.LastSeen.String()
		out.LastSeen = &last
	}
	return out
}

func wireTotals(t usage.Totals) wire.UsageTotals {
	return wire.UsageTotals{Allowed: t.Allowed, RateDenied: t.RateDenied, QuotaDenied: t.QuotaDenied}
}
