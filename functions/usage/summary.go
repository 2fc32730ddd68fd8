package usage

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// The limits of document reads for a report. For 100,000 keys, counting costs 100 reads, a busy key
// one or two, and a watched key up to four.
const (
	fewKeys    = 60 // keys of an environment that is read completely
	maxBusy    = 12 // busy keys on finalized days
	maxNew     = 4  // busy keys on later days
	maxWatched = 12
)

// readSummary reads the summary of an environment and adds the counters of later days. It returns
// false if the environment has few keys or no summary.
func (s *Service) readSummary(ctx context.Context, e app.Environment, read *environment) (summarized bool, err error) {
	sum, ok, err := s.store.Summary(ctx, e.Namespace)
	if err != nil || !ok {
		return false, err
	}
	if read.counts, err = s.countKeys(ctx, e); err != nil {
		return false, err
	}
	if n := read.counts; n.Active+n.Disabled+n.Expired+n.Revoked <= fewKeys {
		return false, nil
	}
	open, err := s.counted.Open(ctx, sum.Settled, s.now)
	if err != nil {
		return false, err
	}
	read.incomplete = open.Incomplete
	days, requests := map[usage.Day]usage.Totals{}, map[apikey.Prefix]uint64{}
	for _, d := range sum.Days {
		days[d.Day] = d.Totals
	}
	for day, sums := range open.Sums {
		for _, p := range sum.Used {
			if t := sums[p]; !t.Zero() {
				days[day] = days[day].Plus(t)
				requests[p] += t.Allowed + t.RateDenied + t.QuotaDenied
			}
		}
	}
	read.total = historyOf(days)
	watched, err := s.watched(ctx, e, sum.Attention)
	if err != nil {
		return false, err
	}
	return true, s.readSome(ctx, e, read, append(cut(sum.Busiest, maxBusy), newest(requests)...), watched)
}

func (s *Service) countKeys(ctx context.Context, e app.Environment) (n wire.KeyCounts, err error) {
	q := store.KeySearch{KeyFilter: store.KeyFilter{Project: e.Project, Environment: e.Name}}
	for status, into := range map[apikey.Status]*int{apikey.Active: &n.Active, apikey.Disabled: &n.Disabled, apikey.Revoked: &n.Revoked} {
		q.Status = status
		if *into, err = s.store.CountKeys(ctx, q); err != nil {
			return n, err
		}
	}
	q.Status, q.Expired = apikey.Active, s.now()
	n.Expired, err = s.store.CountKeys(ctx, q)
	n.Active = max(n.Active-n.Expired, 0)
	return n, err
}

func newest(requests map[apikey.Prefix]uint64) []apikey.Prefix {
	var all []apikey.Prefix
	for p := range requests {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b apikey.Prefix) int { return cmp.Or(cmp.Compare(requests[b], requests[a]), cmp.Compare(a, b)) })
	return cut(all, maxNew)
}

func cut[T any](all []T, most int) []T { return slices.Clone(all[:min(len(all), most)]) }

// watched returns the keys that may need attention: leaked keys, then keys near their limits, then
// keys with an expiry within expiryWindow.
func (s *Service) watched(ctx context.Context, e app.Environment, near []apikey.Prefix) ([]apikey.Prefix, error) {
	now := s.now()
	in := store.KeyFilter{Project: e.Project, Environment: e.Name}
	leaked, err := s.store.FindKeys(ctx, store.KeySearch{KeyFilter: in, Leaked: now}, store.KeyPlace{}, maxWatched)
	if err != nil {
		return nil, err
	}
	in.Status = apikey.Active
	expiring, err := s.store.FindKeys(ctx, store.KeySearch{KeyFilter: in, Since: now.Add(-expiryWindow), Expired: now.Add(expiryWindow)}, store.KeyPlace{}, maxWatched)
	if err != nil {
		return nil, err
	}
	var all []apikey.Prefix
	for _, c := range leaked {
		all = append(all, c.Prefix)
	}
	all = append(all, near...)
	for _, c := range expiring {
		all = append(all, c.Prefix)
	}
	var once []apikey.Prefix
	for _, p := range all {
		if !slices.Contains(once, p) {
			once = append(once, p)
		}
	}
	return cut(once, maxWatched), nil
}

func (s *Service) readSome(ctx context.Context, e app.Environment, read *environment, busy, watched []apikey.Prefix) error {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(busy, watched))))
	counts, err := s.counted.Read(ctx, all, s.now)
	if err != nil {
		return err
	}
	keys, err := s.store.KeysOf(ctx, all)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k apikey.Key) bool { return k.Namespace != e.Namespace })
	var withLimits []apikey.Key
	for _, k := range keys {
		if slices.Contains(watched, k.Prefix) {
			withLimits = append(withLimits, k)
		}
	}
	plans, err := s.store.PlansOf(ctx, withLimits)
	if err != nil {
		return err
	}
	for _, k := range keys {
		at, _ := slices.BinarySearch(all, k.Prefix)
		use := keyUse{Key: k, History: counts.Histories[at]}
		read.busy = append(read.busy, use)
		if i := slices.IndexFunc(withLimits, func(l apikey.Key) bool { return l.Prefix == k.Prefix }); i >= 0 {
			use.Limits = plans[i].Limits
			read.watched = append(read.watched, use)
		}
	}
	return nil
}
