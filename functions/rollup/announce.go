package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	maxAge     = time.Hour        // of a key's plan and quota in memory
	maxLookups = 2000             // keys that a run reads for their quotas
	flushDelay = 10 * time.Second // after a period; checkers write counts every two seconds
)

// announce announces expiries, used quotas and the state of all gates. Without events, it only
// reads the quotas of keys with requests.
func (r *run) announce(ctx context.Context, settled usage.Day) error {
	err := r.quotas(ctx, settled)
	if r.cfg.Events {
		err = errors.Join(err, r.expiries(ctx), r.gates(ctx))
	}
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

func (r *run) expiries(ctx context.Context) error {
	for _, e := range event.Expiries() {
		for {
			n, err := r.store.AnnounceExpiries(ctx, e, chunk)
			if err != nil {
				return err
			}
			if r.result.Events += n; n < chunk {
				break
			}
		}
	}
	return nil
}

// quotaUser is a key with requests, and the use of its quota.
type quotaUser struct {
	key       apikey.Key
	limits    plan.Limits // zero for a deleted key
	read      time.Time
	term      usage.QuotaPeriod // period of the following fields
	settled   usage.Day
	before    uint64 // requests in the period up to and including settled
	announced int    // highest announced percentage
}

func (s quotaUser) due(now time.Time, settled usage.Day) bool {
	_, ends := s.term.Span()
	return now.Sub(s.read) >= maxAge || s.settled != settled || s.limits.Quota > 0 && !now.Before(ends.Add(flushDelay))
}

// quotas announces used quotas. The use is the sum of the counters of open days, which this run has
// already read, and of the rollups of finalized days.
func (r *run) quotas(ctx context.Context, settled usage.Day) error {
	now, due, errs := r.known(ctx, settled)
	for some := range slices.Chunk(due, chunk) {
		if err := r.readQuotas(ctx, some, settled, now); err != nil {
			return errors.Join(errs, err)
		}
		errs = errors.Join(errs, r.announceQuotas(ctx, some, now))
	}
	maps.DeleteFunc(now, func(_ apikey.Prefix, s quotaUser) bool { return s.read.IsZero() }) // above maxLookups
	r.quotaUsers = now
	return errs
}

// known announces the quotas of keys in memory, including the final use in ended periods. It
// returns the keys with requests on open days, and those that must be read.
func (r *run) known(ctx context.Context, settled usage.Day) (now map[apikey.Prefix]quotaUser, due []apikey.Prefix, errs error) {
	now = map[apikey.Prefix]quotaUser{}
	var before []apikey.Prefix
	for _, sums := range r.open {
		for p, t := range sums {
			if _, seen := now[p]; seen || t.Zero() {
				continue
			}
			s, ok := r.quotaUsers[p]
			if ok {
				before = append(before, p)
			}
			now[p] = s
			if (!ok || s.due(r.began, settled)) && len(due) < maxLookups {
				due = append(due, p)
			}
		}
	}
	return now, due, r.announceQuotas(ctx, before, now)
}

func (r *run) readQuotas(ctx context.Context, prefixes []apikey.Prefix, settled usage.Day, now map[apikey.Prefix]quotaUser) error {
	for _, p := range prefixes { // remains for deleted keys
		now[p] = quotaUser{read: r.began, settled: settled, term: now[p].term, announced: now[p].announced}
	}
	keys, err := r.store.KeysOf(ctx, prefixes)
	if err != nil {
		return err
	}
	plans, err := r.store.PlansOf(ctx, keys)
	if err != nil {
		return err
	}
	var longer []apikey.Prefix // with finalized days in the period
	for i, k := range keys {
		p := k.Prefix
		s := quotaUser{key: k, limits: plans[i].Limits, read: r.began, settled: settled}
		if s.limits.Quota > 0 {
			s.term = usage.QuotaPeriodAt(p, s.limits.Period, r.began)
			if s.term == now[p].term {
				s.announced = now[p].announced
			}
			if s.term.First <= settled {
				longer = append(longer, p)
			}
		}
		now[p] = s
	}
	histories, err := r.store.Rollups(ctx, longer)
	if err != nil {
		return err
	}
	for i, p := range longer {
		s := now[p]
		s.before = histories[i].Total(usage.Window{From: s.term.First, To: settled}).Allowed
		now[p] = s
	}
	return nil
}

const quotasAtOnce = 100

func (r *run) announceQuotas(ctx context.Context, prefixes []apikey.Prefix, now map[apikey.Prefix]quotaUser) error {
	if !r.cfg.Events {
		return nil
	}
	var spent []store.QuotaCrossing
	for _, p := range prefixes {
		if n, ok := r.reached(now[p]); ok {
			spent = append(spent, store.QuotaCrossing{Term: now[p].term, Event: n})
		}
	}
	var errs error
	for some := range slices.Chunk(spent, quotasAtOnce) {
		n, err := r.store.AnnounceQuotas(ctx, some)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		r.result.Events += n
		for _, one := range some {
			s := now[one.Term.Prefix]
			s.announced = one.Event.Quota.Percent
			now[one.Term.Prefix] = s
		}
	}
	return errs
}

// reached returns the event for the reached percentage, unless it was announced.
func (r *run) reached(s quotaUser) (event.OutboxEntry, bool) {
	if s.limits.Quota == 0 || s.key.Status == apikey.Revoked {
		return event.OutboxEntry{}, false
	}
	_, ends := s.term.Span()
	used := r.used(s)
	percent := event.ThresholdReached(used, s.limits.Quota)
	if percent <= s.announced {
		return event.OutboxEntry{}, false
	}
	return event.OfQuota(s.key, s.limits, percent, int64(used), s.term.ID(), ends, r.began), true //nolint:gosec // less than 2^63 requests
}

func (r *run) used(s quotaUser) uint64 {
	_, ends := s.term.Span()
	used := s.before
	for day, sums := range r.open {
		if day > s.settled && day >= s.term.First && day < usage.DayOf(ends) {
			used += sums[s.term.Prefix].Allowed
		}
	}
	return used
}

// gates announces that all gates deny, or the end of that. All gates must deny in two runs, since
// all checkers may have just started.
func (r *run) gates(ctx context.Context) error {
	lists := map[store.CanaryType]checkers.List{}
	for _, t := range store.CanaryTypes() {
		list, err := r.store.Members(ctx, t)
		if err != nil {
			return err
		}
		lists[t] = list
	}
	denying, checkers := allDeny(lists)
	repeated := denying == r.denied
	r.denied = denying
	if denying && !repeated || r.gatesKnown && denying == r.denying {
		return nil
	}
	announced, err := r.store.AnnounceGates(ctx, denying, checkers)
	if err != nil {
		return err
	}
	if announced {
		r.result.Events++
	}
	r.gatesKnown, r.denying = true, denying
	return nil
}

// allDeny reports whether no checker can have a current proof: the last canary of each, or the
// applied time in it, is older than its ceiling. It also returns the number of checkers.
func allDeny(lists map[store.CanaryType]checkers.List) (denying bool, checkers int) {
	seen := map[string]int{}
	for _, list := range lists {
		for _, m := range list.Members {
			n := seen[m.Replica]
			if list.Read.Sub(m.Written) <= m.Ceiling && m.Written.Sub(m.Applied) <= m.Ceiling {
				n++
			}
			seen[m.Replica] = n
		}
	}
	denying = true
	for _, n := range seen {
		if n == len(lists) {
			denying = false
		}
	}
	return denying, len(seen)
}
