package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
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

const (
	maxBusiest   = 10
	maxAttention = 100

	// expiryWindow is the time before and after an expiry in which a key needs attention.
	expiryWindow = apikey.LeakShown
)

type keyUse struct {
	apikey.Key

	Limits  plan.Limits // zero if the plan is deleted
	History usage.History
}

func named(k apikey.Key) wire.NamedKey {
	return wire.NamedKey{KeyID: string(k.ID()), Prefix: string(k.Prefix), Name: k.Name}
}

func (s *Service) getEnvironmentUsage(ctx context.Context, in httpapi.Scope, asked api.Window) (wire.EnvironmentUsage, error) {
	window, err := newWindow(asked, usage.DayOf(s.now()))
	if err != nil {
		return wire.EnvironmentUsage{}, err
	}
	e, err := s.environments.read(ctx, in.Environment.Namespace, s.now, func(ctx context.Context, at time.Time) (environment, error) {
		return s.readEnvironment(ctx, in.Environment, at)
	})
	if err != nil {
		return wire.EnvironmentUsage{}, fmt.Errorf("usage of %s: %w", in.Environment.Namespace, err)
	}
	proving, denying := e.checkers.Proving()
	return wire.EnvironmentUsage{
		Environment: in.Environment.Name, UsageReport: usagequery.Wire(usage.NewReport(window, e.total, usage.DayOf(e.at)), e.incomplete),
		Keys: e.counts, Busiest: busiest(e.busy, window), Attention: attention(e.watched, e.at),
		Checkers: wire.CheckerCounts{Proving: proving, Denying: denying}, LeakedTokens: leakedTokens(e.leaks, in.Project), AsOf: e.at.UTC(),
	}, nil
}

type environment struct {
	at       time.Time
	total    usage.History // of all keys
	counts   wire.KeyCounts
	busy     []keyUse // contains the busiest keys
	watched  []keyUse // contains the keys that need attention
	checkers checkers.List
	leaks    []audit.Record // leaks of the project's service tokens, within expiryWindow
	whole    bool           // busy contains all keys

	incomplete []usage.Day
}

func (e environment) size() int { return len(e.busy) }

func (s *Service) readEnvironment(ctx context.Context, e app.Environment, at time.Time) (environment, error) {
	read := environment{at: at}
	summarized, err := s.readSummary(ctx, e, &read)
	if problem.Is(err, problem.Conflict) { // the database lacks an index
		read, summarized, err = environment{at: at}, false, nil
	}
	if err == nil && !summarized {
		err = s.readKeys(ctx, e, &read)
	}
	if err != nil {
		return environment{}, err
	}
	if read.checkers, err = s.store.Members(ctx, store.CanaryKeys); err != nil {
		return environment{}, err
	}
	leaks := audit.Query{Project: e.Project, From: at.Add(-expiryWindow), Actions: []audit.Action{audit.LeakToken}}
	if read.leaks, _, err = s.store.Records(ctx, leaks, store.Page{Size: maxAttention}); err != nil {
		return environment{}, err
	}
	return read, nil
}

func (s *Service) readKeys(ctx context.Context, e app.Environment, read *environment) error {
	plans, err := s.store.EnvironmentPlans(ctx, e.Namespace)
	if err != nil {
		return err
	}
	var keys []apikey.Key
	var prefixes []apikey.Prefix
	for k, err := range s.store.EachKey(ctx, store.KeyFilter{Project: e.Project, Environment: e.Name}) {
		if err != nil {
			return err
		}
		keys, prefixes = append(keys, k), append(prefixes, k.Prefix)
	}
	counts, err := s.counted.Read(ctx, prefixes, s.now)
	if err != nil {
		return err
	}
	limits := map[plan.ID]plan.Limits{}
	for _, p := range plans {
		limits[p.ID] = p.Limits
	}
	all := make([]keyUse, len(keys))
	for i, k := range keys {
		all[i] = keyUse{Key: k, Limits: limits[k.Plan], History: counts.Histories[i]}
	}
	read.total, read.counts, read.incomplete = total(all), count(all, read.at), counts.Incomplete
	read.busy, read.watched, read.whole = all, all, true
	return nil
}

func total(keys []keyUse) usage.History {
	days := map[usage.Day]usage.Totals{}
	for _, k := range keys {
		for _, d := range k.History {
			days[d.Day] = days[d.Day].Plus(d.Totals)
		}
	}
	return historyOf(days)
}

func historyOf(days map[usage.Day]usage.Totals) (h usage.History) {
	for _, day := range slices.Sorted(maps.Keys(days)) {
		h = append(h, usage.Dated{Day: day, Totals: days[day]})
	}
	return h
}

func count(keys []keyUse, now time.Time) (n wire.KeyCounts) {
	for _, k := range keys {
		switch {
		case k.Status == apikey.Revoked:
			n.Revoked++
		case k.Status == apikey.Disabled:
			n.Disabled++
		case k.Expired(now):
			n.Expired++
		default:
			n.Active++
		}
	}
	return n
}

// busiest returns the keys with the most requests in a window, including denied ones.
func busiest(keys []keyUse, w usage.Window) []wire.KeyTotals {
	all := []wire.KeyTotals{}
	for _, k := range keys {
		if t := k.History.Total(w); !t.Zero() {
			all = append(all, wire.KeyTotals{NamedKey: named(k.Key), Totals: usagequery.WireTotals(t)})
		}
	}
	slices.SortFunc(all, func(a, b wire.KeyTotals) int {
		return cmp.Or(cmp.Compare(b.Totals.Requests(), a.Totals.Requests()), cmp.Compare(a.KeyID, b.KeyID))
	})
	return all[:min(len(all), maxBusiest)]
}

// attention returns the keys that need attention, most urgent first. Disabled and revoked keys need
// attention only if they have leaked.
func attention(keys []keyUse, now time.Time) []wire.KeyAttention {
	all := []wire.KeyAttention{}
	for _, k := range keys {
		if k.leaked(now) {
			all = append(all, wire.KeyAttention{NamedKey: named(k.Key), Reason: wire.KeyLeaked, At: k.Leak.At.UTC()})
			continue
		}
		if k.Status != apikey.Active {
			continue
		}
		if a, ok := k.attention(now); ok {
			all = append(all, a)
		}
	}
	reasons := wire.Attentions()
	slices.SortFunc(all, func(a, b wire.KeyAttention) int {
		return cmp.Or(
			cmp.Compare(slices.Index(reasons, a.Reason), slices.Index(reasons, b.Reason)),
			a.At.Compare(b.At), cmp.Compare(a.KeyID, b.KeyID))
	})
	return all[:min(len(all), maxAttention)]
}

// leakedTokens returns the leaked service tokens of a project, without those of an earlier project
// with the same name.
func leakedTokens(leaks []audit.Record, of app.Project) []wire.LeakedToken {
	tokens := []wire.LeakedToken{}
	text := func(v any) string { s, _ := v.(string); return s } // as package store writes it
	for _, r := range leaks {
		if !r.At.Before(of.CreatedAt) {
			tokens = append(tokens, wire.LeakedToken{
				TokenID: path.Base(r.Resource), Name: text(r.Old["name"]), At: r.At, By: r.Actor.Name,
				FoundAt: text(r.New["found_at"]), FoundIn: text(r.New["found_in"]),
			})
		}
	}
	return tokens
}

func (k keyUse) leaked(now time.Time) bool { return now.Before(k.LeakShownUntil()) }

// attention returns the most urgent reason why an active key needs attention.
func (k keyUse) attention(now time.Time) (wire.KeyAttention, bool) {
	a := wire.KeyAttention{NamedKey: named(k.Key)}
	because := func(reason wire.Attention, at time.Time, share *float64) (wire.KeyAttention, bool) {
		a.Reason, a.At, a.Share = reason, at.UTC(), share
		return a, true
	}
	if k.Expired(now) {
		if now.Sub(k.ExpiresAt) >= expiryWindow {
			return a, false
		}
		return because(wire.KeyExpired, k.ExpiresAt, nil)
	}
	quota := usagequery.QuotaUse(k.History, k.Limits, now)
	share := 0.0
	if quota != nil {
		share = float64(quota.Used) / float64(quota.Quota)
	}
	today := k.History.Totals(usage.DayOf(now))
	late := float64(today.RateDenied) / float64(max(today.Allowed+today.RateDenied+today.QuotaDenied, 1))
	switch {
	case share >= 1:
		return because(wire.QuotaUsedUp, quota.ResetsAt, &share)
	case share >= wire.HighShare:
		return because(wire.QuotaHigh, quota.ResetsAt, &share)
	case !k.ExpiresAt.IsZero() && k.ExpiresAt.Sub(now) < expiryWindow:
		return because(wire.KeyExpiring, k.ExpiresAt, nil)
	case late >= wire.LateShare:
		return because(wire.RateExceeded, usage.DayOf(now).End(), &late)
	}
	return a, false
}
