package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// summaryKeys is the maximum number of busiest keys, and of keys near their limits, in a summary.
const summaryKeys = 30

type summing struct {
	days    map[usage.Day]usage.Totals
	busiest []ranked // at most summaryKeys
}

// ranked is a key with its sort value, highest first.
type ranked struct {
	prefix apikey.Prefix
	by     float64
}

func byRank(a, b ranked) int { return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(a.prefix, b.prefix)) }

func (p *pass) add(earliest usage.Day) func(apikey.Key, usage.History) {
	return func(k apikey.Key, h usage.History) {
		sum := p.sums[k.Namespace]
		if sum == nil {
			sum = &summing{days: map[usage.Day]usage.Totals{}}
			p.sums[k.Namespace] = sum
		}
		requests := uint64(0)
		for _, d := range h.Since(earliest) {
			if d.Day <= p.settled {
				sum.days[d.Day] = sum.days[d.Day].Plus(d.Totals)
				requests += d.Totals.Allowed + d.Totals.RateDenied + d.Totals.QuotaDenied
			}
		}
		if requests > 0 {
			sum.busiest = first(append(sum.busiest, ranked{k.Prefix, float64(requests)}))
		}
	}
}

func first(keys []ranked) []ranked {
	slices.SortFunc(keys, byRank)
	return keys[:min(len(keys), summaryKeys)]
}

func prefixes(keys []ranked) []apikey.Prefix {
	all := make([]apikey.Prefix, len(keys))
	for i, k := range keys {
		all[i] = k.prefix
	}
	return all
}

func (p *pass) summaries() map[string]store.Summary {
	all := map[string]store.Summary{}
	for namespace, sum := range p.sums {
		var days usage.History
		for _, day := range slices.Sorted(maps.Keys(sum.days)) {
			days = append(days, usage.Dated{Day: day, Totals: sum.days[day]})
		}
		all[namespace] = store.Summary{Days: days, Busiest: prefixes(sum.busiest)}
	}
	return all
}

type current struct{ used, attention []apikey.Prefix }

// summarize stores the keys of each environment with requests on open days or near their limits. A
// new process starts with the stored keys, since it has not read all keys yet. No key is removed
// during a pass, because a newly finalized day is added to the summaries at its end.
func (r *run) summarize(ctx context.Context) error {
	used, near := map[string][]apikey.Prefix{}, map[string][]ranked{}
	for p, s := range r.quotaUsers {
		if namespace := s.key.Namespace; namespace != "" {
			used[namespace] = append(used[namespace], p)
			if share := r.nearness(s); share > 0 {
				near[namespace] = append(near[namespace], ranked{p, share})
			}
		}
	}
	var errs error
	for namespace, keys := range used {
		errs = errors.Join(errs, r.summarizeOne(ctx, namespace, keys, prefixes(first(near[namespace]))))
	}
	if errs != nil {
		return fmt.Errorf("summarize: %w", errs)
	}
	return nil
}

func (r *run) summarizeOne(ctx context.Context, namespace string, used, attention []apikey.Prefix) error {
	was, known := r.summarized[namespace]
	if !known {
		stored, err := r.store.Used(ctx, namespace)
		if err != nil {
			return err
		}
		was.used = stored
	}
	for _, p := range was.used {
		if _, read := r.quotaUsers[p]; !read && (r.pass != nil || r.counted(p)) {
			used = append(used, p)
		}
	}
	slices.Sort(used)
	if known && slices.Equal(was.used, used) && slices.Equal(was.attention, attention) {
		return nil
	}
	if err := r.store.SetUsed(ctx, namespace, used, attention); err != nil {
		return err
	}
	r.summarized[namespace] = current{used, attention}
	return nil
}

func (r *run) counted(p apikey.Prefix) bool {
	for _, sums := range r.open {
		if !sums[p].Zero() {
			return true
		}
	}
	return false
}

// nearness returns a sort value for an active key near its limits, otherwise 0: 1 plus the used
// share of its quota, or the share of today's requests over the rate.
func (r *run) nearness(s quotaUser) float64 {
	if s.key.Status != apikey.Active {
		return 0
	}
	if share := float64(r.used(s)) / float64(max(s.limits.Quota, 1)); s.limits.Quota > 0 && share >= wire.HighShare {
		return 1 + share
	}
	today := r.open[r.today][s.key.Prefix]
	if late := float64(today.RateDenied) / float64(max(today.Allowed+today.RateDenied+today.QuotaDenied, 1)); late >= wire.LateShare {
		return late
	}
	return 0
}
