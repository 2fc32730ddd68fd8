package session

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

// recordSuccess records a sign-in, or counts it for the next record.
func (s *Service) recordSuccess(ctx context.Context, of success) error {
	b := s.opened.budget(of)
	left, ok := b.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return nil
	}
	_, err := s.store.Record(ctx, audit.Change{Action: audit.SignIn, Resource: audit.Path("users", of.username), New: unrecorded(left)})
	if err != nil {
		b.leave(left) // this one is none: it fails
	}
	return err
}

// recordFailure records a failed sign-in of a user, or of "" when there is none of
// that name, or counts it for the next record. When it can't be recorded, the answer is
// the same.
func (s *Service) recordFailure(ctx context.Context, name string) {
	left, ok := s.failures.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return
	}
	resource := "users"
	if name != "" {
		resource = audit.Path("users", name)
	}
	ctx = trace.As(ctx, trace.Actor{Kind: trace.Anonymous, Name: name})
	if _, err := s.store.Record(ctx, audit.Change{Action: audit.SignIn, Outcome: audit.Failed, Resource: resource, New: unrecorded(left)}); err != nil {
		s.counts.unrecorded.Inc()
		s.failures.leave(left + 1)
		s.log.WarnContext(ctx, "record failed sign-in failed", "error", err)
	}
}

// How many sign-ins are recorded: so many at once, and one more after each pause. A
// user's own from where they have signed in before are of little interest, and a
// pipeline makes many of them.
const (
	recordsAtOnce = 100
	recordsEvery  = time.Second

	familiarAtOnce = 20
	familiarEvery  = time.Hour
)

// budget bounds what sign-ins may write to the store, by the process's monotonic clock.
// Those it leaves out are counted, and the next record tells how many they were.
type budget struct {
	limits limits    // of one slot
	start  time.Time // the zero of its time

	mu   sync.Mutex
	left int // out, since the last record
}

func newBudget(start time.Time, atOnce int, every time.Duration) *budget {
	return &budget{limits: newLimits(atOnce, every, 1), start: start}
}

// take tells whether an attempt may be recorded, and how many were left out before it.
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

// leave counts attempts whose record could not be written.
func (b *budget) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// unrecorded is how a record tells how many sign-ins like it were left out before it.
func unrecorded(n int) audit.Values {
	if n == 0 {
		return nil
	}
	return audit.Values{"unrecorded": n}
}

// successes bounds the records of sign-ins that succeeded, for each user: there are as
// many as there are users.
type successes struct {
	start time.Time

	mu sync.Mutex
	of map[success]*budget
}

// success is a kind of sign-ins that succeed.
type success struct {
	username string
	familiar bool // from an address that the user has signed in from before
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

// counts are the function's own metrics.
type counts struct {
	signIns    *prometheus.CounterVec
	unrecorded prometheus.Counter
}

// Outcomes of sign-ins.
const (
	signedIn  = "succeeded"
	wrong     = "failed"    // username or password
	throttled = "throttled" // not even looked at
	broken    = "error"     // the store or the hasher did not answer
)

func newCounts() *counts {
	c := &counts{
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_sign_ins_total", Help: "Attempts to sign in, by outcome.",
		}, []string{"outcome"}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_sign_ins_unrecorded_total", Help: "Sign-ins without an audit record of their own: too many of them, or no store.",
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

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.counts.signIns, s.counts.unrecorded}
}
