package keys

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// maxExplains is the number of concurrent explanations. It is less than a checker accepts, so
	// one process cannot block others.
	maxExplains = 8

	explainBurst = 30          // explanations of a caller at once
	explainEvery = time.Second // interval of further explanations

	// callerSlots bounds the memory for callers. They are hashed to slots with a random seed;
	// callers in the same slot share its limit.
	callerSlots = 1 << 10

	denialTimeout = 2 * time.Second // for the response of a checker
)

type callerLimiter struct {
	seed  maphash.Seed
	slots [callerSlots]*rate.Limiter
	calls string // plural noun for the message, e.g. "explanations of denied requests"
}

func newCallerLimiter(burst int, every time.Duration, calls string) *callerLimiter {
	c := &callerLimiter{seed: maphash.MakeSeed(), calls: calls}
	for i := range c.slots {
		c.slots[i] = rate.NewLimiter(rate.Every(every), burst)
	}
	return c
}

// take counts a call of a caller. A service token is identified by its ID, since its name is unique
// only in its project.
func (c *callerLimiter) take(who identity.Caller, now time.Time) error {
	return c.takeNamed([2]string{string(who.Grant.Token), who.Username}, now)
}

// takeNamed counts a call. It returns a rate_limited problem, and counts nothing, if the limit is
// exceeded.
func (c *callerLimiter) takeNamed(name [2]string, now time.Time) error {
	taken := c.slot(name).ReserveN(now, 1)
	if wait := taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return problem.New(problem.RateLimited, "Too many %s. Retry after the time in Retry-After.", c.calls).WithRetryAfter(wait)
	}
	return nil
}

func (c *callerLimiter) spent(name [2]string, now time.Time) bool {
	return c.slot(name).TokensAt(now) < 1
}

func (c *callerLimiter) slot(name [2]string) *rate.Limiter {
	return c.slots[maphash.Comparable(c.seed, name)%callerSlots]
}

// explainRequest returns the denials of a request from all checkers. It records the call in the
// audit log.
func (s *Service) explainRequest(ctx context.Context, in httpapi.Scope, _ api.None) (wire.ExplainedRequest, error) {
	id := in.Param("request_id")
	if !reqctx.ValidID(id) {
		return wire.ExplainedRequest{}, problem.New(problem.InvalidParameter, "The request ID is invalid. Use the X-Request-Id of the response: 1 to 64 characters of a-z, A-Z, 0-9, '-' and '_'.")
	}
	if err := s.explains.take(in.Caller, s.now()); err != nil {
		return wire.ExplainedRequest{}, err
	}
	environments, err := s.environmentsOf(ctx, in.Project.Name)
	if err != nil {
		return wire.ExplainedRequest{}, err
	}
	_, err = s.store.Record(ctx, audit.Change{
		Action: audit.ExplainRequest, Project: in.Project.Name, Resource: audit.Path("projects", in.Project.Name, "requests", id),
	})
	if err != nil {
		return wire.ExplainedRequest{}, err
	}
	out, found, err := s.checkers.explain(ctx, id, environments)
	if err != nil {
		return wire.ExplainedRequest{}, err
	}
	for _, d := range found[:min(len(found), checkers.MaxDenials)] {
		shown, err := s.wireDenial(ctx, in.Project, d)
		if err != nil {
			return wire.ExplainedRequest{}, err
		}
		shown.Environment = environments[d.Namespace]
		out.Denials = append(out.Denials, shown)
	}
	return out, nil
}

func (s *Service) environmentsOf(ctx context.Context, project string) (map[string]string, error) {
	all := map[string]string{}
	for token := ""; ; {
		var some []app.Environment
		var err error
		some, token, err = s.store.Environments(ctx, project, store.Page{Size: api.MaxPageSize, Token: token})
		if err != nil {
			return nil, err
		}
		for _, e := range some {
			all[e.Namespace] = e.Name
		}
		if token == "" {
			return all, nil
		}
	}
}

type replicaDenial struct {
	checkers.Denial

	replica string
}

// wireDenial returns a denial for a project. It contains the key only if the key is the project's.
// A wrong secret for another project's key is reported as unknown, as if the key did not exist.
func (s *Service) wireDenial(ctx context.Context, of app.Project, d replicaDenial) (wire.Denial, error) {
	out := wire.Denial{At: d.At.UTC().Truncate(time.Microsecond), Code: d.Code, App: d.App, Method: d.Method, Replica: d.replica}
	reason := d.Reason
	if id := apikey.IDOf(apikey.Prefix(d.KeyPrefix)); apikey.ValidPrefix(d.KeyPrefix) {
		k, err := s.store.Key(ctx, id)
		switch {
		case err == nil && belongs(k, of) == nil:
			keyID, prefix := string(id), d.KeyPrefix
			out.KeyID, out.KeyPrefix, out.KeyName = &keyID, &prefix, wire.Text(k.Name)
			if reason == checkers.Unknown && k.Status == apikey.Revoked {
				reason = checkers.Revoked
			}
		case err != nil && !problem.Is(err, problem.NotFound):
			return wire.Denial{}, err
		case reason == checkers.WrongSecret:
			reason = checkers.Unknown
		}
	}
	out.Reason, out.Explanation = string(reason), reason.Text()
	return out, nil
}

// explain returns the denials of a request in the given namespaces from all checkers, newest first.
// It returns an unavailable problem if too many explanations are in progress.
func (c *checkerSet) explain(ctx context.Context, id string, in map[string]string) (wire.ExplainedRequest, []replicaDenial, error) {
	select {
	case c.asks <- struct{}{}:
		defer func() { <-c.asks }()
	default:
		return wire.ExplainedRequest{}, nil, problem.New(problem.Unavailable, "Too many requests are being explained at the moment. Retry after the time in Retry-After.")
	}
	list, err := c.store.Members(ctx, store.CanaryKeys)
	if err != nil {
		return wire.ExplainedRequest{}, nil, err
	}
	q := checkers.Query{RequestID: id, At: list.Read, Namespaces: []string{}}
	for namespace := range in {
		q.Namespaces = append(q.Namespaces, namespace)
	}
	ctx, cancel := context.WithTimeout(ctx, denialTimeout)
	defer cancel()
	out := wire.ExplainedRequest{RequestID: id, Denials: []wire.Denial{}, Asked: len(list.Members)}
	var found []replicaDenial
	var mu sync.Mutex // guards found and out.Answered
	var all sync.WaitGroup
	for _, m := range list.Members {
		all.Go(func() {
			denials, err := c.denialsOf(ctx, m, q)
			if err != nil {
				c.log.WarnContext(ctx, "query denials failed", "replica", m.Replica, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out.Answered++
			for _, d := range denials {
				if q.Sees(d.Namespace) {
					found = append(found, replicaDenial{d, m.Replica})
				}
			}
		})
	}
	all.Wait()
	slices.SortFunc(found, func(a, b replicaDenial) int { return b.At.Compare(a.At) })
	return out, found, nil
}

func (c *checkerSet) denialsOf(ctx context.Context, m checkers.Member, q checkers.Query) ([]checkers.Denial, error) {
	var a checkers.Response
	if err := c.client.Query(ctx, m, checkers.QueryPath, q, checkers.MaxResponse, &a); err != nil {
		return nil, err
	}
	if a.Run != m.Run {
		return nil, checkers.ErrUnreachable
	}
	return a.Denials[:min(len(a.Denials), checkers.MaxDenials)], nil
}
