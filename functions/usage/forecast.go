package usage

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/plan/planwire"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	maxExceeding = 100
	maxUsedKeys  = 20_000 // in a forecast: each key uses up to 2 kB
)

const notObserved = "Sluice sees requests only at a gate, so the number of requests that this gate will deny is unknown."

func (s *Service) forecastPlan(ctx context.Context, in httpapi.Scope, body wire.ForecastPlan) (wire.PlanForecast, error) {
	id, err := plan.ParseID(in.Param("plan_id"))
	if err != nil {
		return wire.PlanForecast{}, err
	}
	p, err := s.store.Plan(ctx, in.Environment.Namespace, id)
	if err != nil {
		return wire.PlanForecast{}, err
	}
	if p, err = planwire.Change(p, body.Update(), s.now()); err != nil {
		return wire.PlanForecast{}, err
	}
	keys, err := s.readUsedKeys(ctx, in.Environment, id)
	if err != nil {
		return wire.PlanForecast{}, fmt.Errorf("forecast of %s: %w", id, err)
	}
	return planForecast(p, keys, s.now()), nil
}

func (s *Service) forecastGate(ctx context.Context, in httpapi.Scope, _ api.None) (wire.GateForecast, error) {
	keys, err := s.readUsedKeys(ctx, in.Environment, "")
	if err != nil {
		return wire.GateForecast{}, fmt.Errorf("forecast of the gate of %s: %w", in.App.Name, err)
	}
	return gateForecast(in.App.Name, keys, s.now()), nil
}

// planForecast compares the keys of p that clients can use with its quota.
func planForecast(p plan.Plan, keys usedKeys, now time.Time) wire.PlanForecast {
	today, with := usage.DayOf(keys.at), planwire.Wire(p)
	out := wire.PlanForecast{
		Quota: with.Quota, QuotaPeriod: with.QuotaPeriod, From: usage.EarliestKept(today).String(),
		WouldExceed: []wire.QuotaExcess{}, Rate: wire.Unknown, Incomplete: []string{}, ReadTime: keys.readTime(now),
	}
	for _, day := range keys.incomplete {
		if day >= usage.EarliestKept(today) {
			out.Incomplete = append(out.Incomplete, day.String())
		}
	}
	for k, h := range keys.each {
		if k.Plan != p.ID || k.Status != apikey.Active || k.Expired(now) {
			continue
		}
		out.Keys++
		if e := h.Excess(p.Limits, today); e.Periods > 0 {
			out.WouldExceed = append(out.WouldExceed, wire.QuotaExcess{
				NamedKey: named(k), PeriodStart: e.First.String(), Used: e.Used, Quota: p.Quota, Periods: e.Periods,
			})
		}
	}
	out.Exceeding = len(out.WouldExceed)
	slices.SortFunc(out.WouldExceed, func(a, b wire.QuotaExcess) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.KeyID, b.KeyID))
	})
	out.WouldExceed = out.WouldExceed[:min(out.Exceeding, maxExceeding)]
	return out
}

// gateForecast counts the keys whose scope includes an app.
func gateForecast(name string, keys usedKeys, now time.Time) wire.GateForecast {
	out := wire.GateForecast{Observed: wire.Observed{State: wire.NotObserved, Message: notObserved}, ReadTime: keys.readTime(now)}
	for k, h := range keys.each {
		_, seen := h.LastSeen(usage.DayOf(keys.at))
		switch {
		case !k.Covers(name):
		case k.Status == apikey.Disabled:
			out.Keys.Disabled++
		case k.Expired(now):
			out.Keys.Expired++
		default:
			out.Keys.Usable++
			if !seen {
				out.Keys.NeverSeen++
			}
		}
	}
	return out
}

// usedKeys are keys with their usage, without revoked keys.
type usedKeys struct {
	at         time.Time
	each       iter.Seq2[apikey.Key, usage.History]
	keys       int
	incomplete []usage.Day
}

func (u usedKeys) size() int { return u.keys }

func (u usedKeys) readTime(now time.Time) wire.ReadTime {
	return wire.ReadTime{AsOf: u.at.UTC(), Age: max(0, int(now.Sub(u.at)/time.Second))}
}

// readUsedKeys returns the keys of an environment, or at least those of one plan. It shares the
// reads of the environment's report and of other forecasts. If the environment is being read for
// another forecast, it returns rate_limited.
func (s *Service) readUsedKeys(ctx context.Context, e app.Environment, of plan.ID) (usedKeys, error) {
	now, name := s.now(), e.Namespace+"/"+string(of)
	if report, ok := s.environments.get(e.Namespace, now); ok && report.whole {
		return report.usedKeys(), nil
	}
	for _, cached := range []string{e.Namespace + "/", name} {
		if keys, ok := s.used.get(cached, now); ok {
			return keys, nil
		}
	}
	leave, err := s.forecasts.enter(e.Namespace)
	if err != nil {
		return usedKeys{}, err
	}
	defer leave()
	return s.used.read(ctx, name, s.now, func(ctx context.Context, at time.Time) (usedKeys, error) {
		return s.loadUsedKeys(ctx, e, of, at)
	})
}

func (e environment) usedKeys() usedKeys {
	return usedKeys{at: e.at, incomplete: e.incomplete, each: func(yield func(apikey.Key, usage.History) bool) {
		for _, k := range e.busy {
			if k.Status != apikey.Revoked && !yield(k.Key, k.History) {
				return
			}
		}
	}}
}

// loadUsedKeys packs the histories: ten thousand take 10 MB instead of 40.
func (s *Service) loadUsedKeys(ctx context.Context, e app.Environment, of plan.ID, at time.Time) (usedKeys, error) {
	var keys []apikey.Key
	var prefixes []apikey.Prefix
	in := store.KeyFilter{Project: e.Project, Environment: e.Name, Plan: of, Usable: true}
	for k, err := range s.store.EachListed(ctx, in, "") {
		if err != nil {
			return usedKeys{}, err
		}
		if len(keys) == maxUsedKeys {
			return usedKeys{}, problem.New(problem.TooManyKeys, "There is no forecast for more than %d keys.", maxUsedKeys)
		}
		keys, prefixes = append(keys, k), append(prefixes, k.Prefix)
	}
	packed := make([][]byte, 0, len(keys))
	incomplete, err := s.counted.Each(ctx, prefixes, s.now, func(h usage.History) { packed = append(packed, h.Pack()) })
	return usedKeys{at: at, incomplete: incomplete, keys: len(keys), each: func(yield func(apikey.Key, usage.History) bool) {
		for i, k := range keys {
			if h, _ := usage.UnpackHistory(packed[i]); !yield(k, h) { // Pack cannot produce damaged data
				return
			}
		}
	}}, err
}
