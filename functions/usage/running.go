package usage

import (
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// running limits calls of one kind to one at a time in each environment.
type running struct {
	what  string        // for the message
	most  int           // environments with a call; 0 for no limit
	retry time.Duration // for rejected calls

	mu sync.Mutex
	in map[string]bool // by namespace
}

// enter returns rate_limited if the environment, or the maximum number of others, has a call in
// progress. The caller must call leave.
func (r *running) enter(namespace string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in[namespace] || r.most > 0 && len(r.in) >= r.most {
		return nil, problem.New(problem.RateLimited, "Another %s is in progress. Retry after the time in Retry-After.", r.what).WithRetryAfter(r.retry)
	}
	if r.in == nil {
		r.in = map[string]bool{}
	}
	r.in[namespace] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.in, namespace)
	}, nil
}
