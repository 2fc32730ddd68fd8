package usage

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// getUsage reports a key's usage in a window. Problems: not_found, invalid_date,
// invalid_parameter, invalid_window, window_expired.
func (s *Service) getUsage(w http.ResponseWriter, r *http.Request) error {
	project := r.PathValue("project")
	if _, err := s.guard.Require(r, project, app.Viewer); err != nil {
		return err
	}
	k, err := s.key(r.Context(), project, apikey.ID(r.PathValue("key_id")))
	if err != nil {
		return err
	}
	today := usage.DayOf(s.now())
	window, err := readWindow(r, today)
	if err != nil {
		return err
	}
	h, err := s.history(r.Context(), k.Prefix)
	if err != nil {
		return fmt.Errorf("usage of %s: %w", k.ID(), err)
	}
	return httpapi.JSON(w, http.StatusOK, wireUsage(k.ID(), usage.NewReport(window, h, today)))
}

// key reads a key of a project. Problem: not_found.
func (s *Service) key(ctx context.Context, project string, id apikey.ID) (apikey.Key, error) {
	if _, ok := id.Prefix(); !ok {
		return apikey.Key{}, noKey()
	}
	k, err := s.keys.Key(ctx, id)
	if err == nil && k.Project != project {
		err = noKey()
	}
	return k, err
}

func noKey() error { return problem.New(problem.NotFound, "There is no such key.") }

// readWindow reads ?from= and ?to=. A query that cannot be read is refused: part
// of it would be lost, and another window than the one asked for be reported.
func readWindow(r *http.Request, today usage.Day) (usage.Window, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return usage.Window{}, problem.Of(problem.InvalidParameter).Because(err)
	}
	from, err := readDay(query, "from")
	if err != nil {
		return usage.Window{}, err
	}
	to, err := readDay(query, "to")
	if err != nil {
		return usage.Window{}, err
	}
	return usage.NewWindow(from.day, to.day, today)
}

// asked is a day that may have been asked for; nil was not.
type asked struct{ day *usage.Day }

func readDay(query url.Values, name string) (asked, error) {
	values, ok := query[name]
	switch {
	case !ok:
		return asked{}, nil
	case len(values) > 1:
		return asked{}, problem.New(problem.InvalidParameter, "%s can be given once.", name)
	}
	day, err := usage.ParseDay(values[0])
	return asked{&day}, err
}

// history is all that is known of a key: see the package's word on the order.
func (s *Service) history(ctx context.Context, prefix apikey.Prefix) (usage.History, error) {
	recent, err := s.recent.read(ctx, s.now)
	if err != nil {
		return nil, err
	}
	histories, err := s.counts.Rollups(ctx, []apikey.Prefix{prefix})
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
