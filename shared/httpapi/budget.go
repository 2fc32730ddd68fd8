package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
)

// Budget limits the calls of each principal at each replica (promise A15).
type Budget struct {
	Rate  float64 `env:"API_RATE, default=50"`   // calls per second
	Burst int64   `env:"API_BURST, default=500"` // calls at once
}

// Check returns an error if the rate or the burst is invalid.
func (b Budget) Check() error {
	if err := (plan.Limits{Rate: b.Rate, Burst: b.Burst}).Check(); err != nil {
		return fmt.Errorf("API_RATE %g, API_BURST %d: %w", b.Rate, b.Burst, err)
	}
	return nil
}

// minSweep is the minimum number of principals in memory at which idle ones are removed.
const minSweep = 1024

type principal struct {
	username string
	token    servicetoken.ID
}

type budgets struct {
	of     Budget
	policy plan.Policy
	now    func() time.Time

	mu    sync.Mutex
	left  map[principal]*rate.Limiter // absent if the budget is full
	sweep int                         // size of left at which full budgets are removed
}

func newBudgets(b Budget) *budgets {
	return &budgets{
		of: b, policy: plan.PolicyOf(plan.Limits{Rate: b.Rate, Burst: b.Burst}), now: time.Now,
		left: map[principal]*rate.Limiter{}, sweep: minSweep,
	}
}

// take counts a call and writes the remaining budget to the headers. It returns a rate_limited
// problem, and counts nothing, if the budget is exhausted.
func (b *budgets) take(who identity.Caller, head http.Header) error {
	now := b.now()
	limiter := b.find(principal{who.Username, who.Grant.Token}, now)
	allowed := limiter.AllowN(now, 1)
	tokens, token := limiter.TokensAt(now), time.Duration(float64(time.Second)/b.of.Rate)
	standing := plan.Standing{Tokens: max(int64(tokens), 0), Token: token, Wait: time.Duration((1 - tokens) * float64(token))}
	standing.Set(head, &b.policy)
	if !allowed {
		return problem.FromCode(problem.RateLimited).WithRetryAfter(standing.Wait)
	}
	return nil
}

func (b *budgets) find(p principal, now time.Time) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter := b.left[p]
	if limiter != nil {
		return limiter
	}
	if len(b.left) >= b.sweep {
		for other, l := range b.left {
			if l.TokensAt(now) >= float64(b.of.Burst) {
				delete(b.left, other)
			}
		}
		b.sweep = max(minSweep, 2*len(b.left))
	}
	limiter = rate.NewLimiter(rate.Limit(b.of.Rate), int(b.of.Burst))
	b.left[p] = limiter
	return limiter
}
