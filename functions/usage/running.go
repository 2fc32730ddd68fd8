package usage

import (
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// running limits calls of one kind to one at a time for each name, such as that of an environment.
type running struct {
	what  string        // "export"; for the message
	most  int           // calls; 0 for no limit
	retry time.Duration // for rejected calls

	mu    sync.Mutex
	calls int
	in    map[string]bool // by name
}

// enter returns rate_limited if a call of one of the names, or the maximum number of calls, is in
// progress. The caller must call leave.
func (r *running) enter(names ...string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(names, func(name string) bool { return r.in[name] }) || r.most > 0 && r.calls >= r.most {
		return nil, problem.New(problem.RateLimited, "Another %s is in progress. Try again later.", r.what).WithRetryAfter(r.retry)
	}
	if r.in == nil {
		r.in = map[string]bool{}
	}
	r.calls++
	for _, name := range names {
		r.in[name] = true
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls--
		for _, name := range names {
			delete(r.in, name)
		}
	}, nil
}
