package session

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
)

func (s *Service) recordSuccess(ctx context.Context, of success) error {
	b := s.opened.budget(of)
	left, ok := b.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return nil
	}
	_, err := s.store.Record(ctx, audit.Change{Action: audit.SignIn, Resource: audit.Path("users", of.username), New: unrecorded(left)})
	if err != nil {
		b.addOmitted(left) // not recorded: the sign-in fails
	}
	return err
}

// recordTime stores the time of a sign-in. It only logs errors.
func (s *Service) recordTime(ctx context.Context, u user.User) {
	if now := s.now(); u.SignInDue(now) {
		if err := s.store.SignedIn(ctx, u.Name, now.UTC()); err != nil {
			s.log.WarnContext(ctx, "store time of sign-in failed", "username", u.Name, "error", err)
		}
	}
}

// recordFailure records a failed sign-in with the cause that the response omits. name is "" if the
// user does not exist. It only logs errors.
func (s *Service) recordFailure(ctx context.Context, name string, cause error) {
	left, ok := s.failures.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return
	}
	resource := "users"
	if name != "" {
		resource = audit.Path("users", name)
	}
	values := unrecorded(left)
	if errors.Is(cause, errDeactivated) {
		values = audit.Values{"cause": "user_deactivated"}
		maps.Copy(values, unrecorded(left))
	}
	ctx = reqctx.WithActor(ctx, reqctx.Actor{Kind: reqctx.Anonymous, Name: name})
	if _, err := s.store.Record(ctx, audit.Change{Action: audit.SignIn, Outcome: audit.Failed, Resource: resource, New: values}); err != nil {
		s.counts.unrecorded.Inc()
		s.failures.addOmitted(left + 1)
		s.log.WarnContext(ctx, "record failed sign-in failed", "error", err)
	}
}

// The limits of audit records: the number at once, and the interval after which one more is
// written. Sign-ins from a known address have lower limits, because pipelines make many.
const (
	recordsAtOnce = 100
	recordsEvery  = time.Second

	familiarAtOnce = 20
	familiarEvery  = time.Hour
)

// budget limits the number of audit records, by the monotonic clock. The next record contains the
// number of omitted ones.
type budget struct {
	limits limits // one slot
	start  time.Time

	mu   sync.Mutex
	left int // records omitted since the last one
}

func newBudget(start time.Time, atOnce int, every time.Duration) *budget {
	return &budget{limits: newLimits(atOnce, every, 1), start: start}
}

func (b *budget) take(now time.Time) (left int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limits.take(0, now.Sub(b.start)) > 0 {
		b.left++
		return 0, false
	}
	left, b.left = b.left, 0
	return left, true
}

func (b *budget) addOmitted(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

func unrecorded(n int) audit.Values {
	if n == 0 {
		return nil
	}
	return audit.Values{"unrecorded": n}
}

type successes struct {
	start time.Time

	mu sync.Mutex
	of map[success]*budget
}

type success struct {
	username string
	familiar bool // from a known address
}

func newSuccesses(start time.Time) *successes {
	return &successes{start: start, of: map[success]*budget{}}
}

func (s *successes) budget(of success) *budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[of]
	if b == nil {
		b = newBudget(s.start, recordsAtOnce, recordsEvery)
		if of.familiar {
			b = newBudget(s.start, familiarAtOnce, familiarEvery)
		}
		s.of[of] = b
	}
	return b
}

type counts struct {
	signIns    *prometheus.CounterVec
	unrecorded prometheus.Counter
}

const (
	signedIn  = "succeeded"
	wrong     = "failed"
	throttled = "throttled" // the password was not checked
	broken    = "error"     // the store or the hasher failed
)

func newCounts() *counts {
	c := &counts{
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_sign_ins_total", Help: "Attempts to sign in, by outcome.",
		}, []string{"outcome"}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_sign_ins_unrecorded_total", Help: "Sign-ins without their own audit record.",
		}),
	}
	for _, o := range []string{signedIn, wrong, throttled, broken} {
		c.signIns.WithLabelValues(o)
	}
	return c
}

func (c *counts) signIn(err error) {
	outcome := broken
	switch {
	case err == nil:
		outcome = signedIn
	case problem.Is(err, problem.InvalidCredentials):
		outcome = wrong
	case problem.Is(err, problem.RateLimited):
		outcome = throttled
	}
	c.signIns.WithLabelValues(outcome).Inc()
}

// Collectors returns the function's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.counts.signIns, s.counts.unrecorded}
}
