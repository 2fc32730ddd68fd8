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
	// fresh bounds how old what is known of a key's plan and quota may be: somebody may have
	// changed them.
	fresh = time.Hour

	// maxLookups bounds the keys that one run reads to learn their quotas; the next goes on.
	maxLookups = 2000

	// flushed is how long after its end a period's last counts are waited for: the checkers
	// flush every two seconds.
	flushed = 10 * time.Second
)

// announce tells of what time has brought about: keys that expire, quotas that are used up,
// gates that all deny. settled is the last settled day. Without events it only learns which keys
// have requests, and how much of their quotas is used up.
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

// expiries announces keys that expire soon, or have.
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

// spender is what a process knows of a key that has used some of its quota.
type spender struct {
	key     apikey.Key
	limits  plan.Limits // zero of a key that is gone
	read    time.Time
	term    usage.Term // of which the rest tells
	settled usage.Day
	before  uint64 // was used of the term up to settled, that day among them
	told    int    // the percentage that nobody needs to be told of any more
}

// due tells whether more has to be read of a spender.
func (s spender) due(now time.Time, settled usage.Day) bool {
	_, ends := s.term.Span()
	return now.Sub(s.read) >= fresh || s.settled != settled || s.limits.Quota > 0 && !now.Before(ends.Add(flushed))
}

// quotas announces quotas of which enough is used up. What is used is what was counted in the
// open days, which this run has read anyway, and what the rollups say of the settled ones.
func (r *run) quotas(ctx context.Context, settled usage.Day) error {
	now, due, errs := r.known(ctx, settled)
	for some := range slices.Chunk(due, chunk) {
		if err := r.learn(ctx, some, settled, now); err != nil {
			return errors.Join(errs, err)
		}
		errs = errors.Join(errs, r.tell(ctx, some, now))
	}
	maps.DeleteFunc(now, func(_ apikey.Prefix, s spender) bool { return s.read.IsZero() }) // there was no room for it
	r.spenders = now
	return errs
}

// known announces what can be told of the keys of the open days by what is known of them, the
// last look at a period that has ended among it. It gives what is known, and the keys of which
// more has to be read.
func (r *run) known(ctx context.Context, settled usage.Day) (now map[apikey.Prefix]spender, due []apikey.Prefix, errs error) {
	now = map[apikey.Prefix]spender{}
	var before []apikey.Prefix
	for _, sums := range r.open {
		for p, t := range sums {
			if _, seen := now[p]; seen || t.Zero() {
				continue
			}
			s, ok := r.spenders[p]
			if ok {
				before = append(before, p)
			}
			now[p] = s
			if (!ok || s.due(r.began, settled)) && len(due) < maxLookups {
				due = append(due, p)
			}
		}
	}
	return now, due, r.tell(ctx, before, now)
}

// learn reads what has to be known of keys to tell how much of their quotas is used up.
func (r *run) learn(ctx context.Context, prefixes []apikey.Prefix, settled usage.Day, now map[apikey.Prefix]spender) error {
	for _, p := range prefixes { // those of keys that are gone stay so
		now[p] = spender{read: r.began, settled: settled, term: now[p].term, told: now[p].told}
	}
	keys, err := r.store.KeysOf(ctx, prefixes)
	if err != nil {
		return err
	}
	plans, err := r.store.PlansOf(ctx, keys)
	if err != nil {
		return err
	}
	var longer []apikey.Prefix // whose term holds settled days
	for i, k := range keys {
		p := k.Prefix
		s := spender{key: k, limits: plans[i].Limits, read: r.began, settled: settled}
		if s.limits.Quota > 0 {
			s.term = usage.TermOf(p, s.limits.Period, r.began)
			if s.term == now[p].term {
				s.told = now[p].told
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

// quotasAtOnce bounds the quotas that are announced in one commit.
const quotasAtOnce = 100

// tell announces of which of these keys' quotas enough is used up, but what nobody needs to be
// told of any more.
func (r *run) tell(ctx context.Context, prefixes []apikey.Prefix, now map[apikey.Prefix]spender) error {
	if !r.cfg.Events {
		return nil
	}
	var spent []store.Spent
	for _, p := range prefixes {
		if n, ok := r.reached(now[p]); ok {
			spent = append(spent, store.Spent{Term: now[p].term, Event: n})
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
			s.told = one.Event.Quota.Percent
			now[one.Term.Prefix] = s
		}
	}
	return errs
}

// reached is how much a key has used of its quota, if that is more than was told.
func (r *run) reached(s spender) (event.Announcement, bool) {
	if s.limits.Quota == 0 || s.key.Status == apikey.Revoked {
		return event.Announcement{}, false
	}
	_, ends := s.term.Span()
	used := r.used(s)
	percent := event.Reached(used, s.limits.Quota)
	if percent <= s.told {
		return event.Announcement{}, false
	}
	return event.OfQuota(s.key, s.limits, percent, int64(used), s.term.ID(), ends, r.began), true //nolint:gosec // it is no 2^63 requests
}

// used returns the used part of a key's quota in the term of s.
func (r *run) used(s spender) uint64 {
	_, ends := s.term.Span()
	used := s.before
	for day, sums := range r.open {
		if day > s.settled && day >= s.term.First && day < usage.DayOf(ends) {
			used += sums[s.term.Prefix].Allowed
		}
	}
	return used
}

// gates announces that all gates deny, or do not any more. That they deny has to be seen
// twice: checkers may all be new.
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
	again := denying == r.denied
	r.denied = denying
	if denying && !again || r.gatesKnown && denying == r.denying {
		return nil
	}
	told, err := r.store.AnnounceGates(ctx, denying, checkers)
	if err != nil {
		return err
	}
	if told {
		r.result.Events++
	}
	r.gatesKnown, r.denying = true, denying
	return nil
}

// allDeny tells whether no checker that is there can prove that its view of everything is
// fresh, by the canaries that they write, and how many are there. A checker whose canary is
// older than its ceiling can have no younger proof; one that writes canaries and did not hear
// the collection for as long has said so itself. So it is never told of a checker that may
// still allow; and of one that fails otherwise, it is not known here.
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
