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
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// explainsAtOnce is how many calls may ask the checkers about refused requests at one
	// time: fewer than a checker answers, so that one process cannot keep others from it.
	explainsAtOnce = 8

	// explainBurst is how often a caller may ask at once, and explainEvery how often after
	// that: each time every checker is asked, and a record is written.
	explainBurst = 30
	explainEvery = time.Second

	// callerSlots is how many callers are told apart. They are hashed to slots with a random
	// seed, so that they fill no memory; those that share a slot share its limit.
	callerSlots = 1 << 10

	// hearing is how long a checker may take to say what it remembers.
	hearing = 2 * time.Second
)

// callers limit how often each of them does something.
type callers struct {
	seed  maphash.Seed
	slots [callerSlots]*rate.Limiter
	much  string // what there is too much of, e.g. "questions about refused requests"
}

func newCallers(burst int, every time.Duration, much string) *callers {
	c := &callers{seed: maphash.MakeSeed(), much: much}
	for i := range c.slots {
		c.slots[i] = rate.NewLimiter(rate.Every(every), burst)
	}
	return c
}

// take counts a call of a caller. A service token's name is its project's alone, so its id is
// what tells it apart. Problem: as of takeNamed.
func (c *callers) take(who identity.Caller, now time.Time) error {
	return c.takeNamed([2]string{string(who.Grant.Token), who.Username}, now)
}

// takeNamed counts a call. Problem: rate_limited with the time until the next one is let
// through, and then nothing is counted.
func (c *callers) takeNamed(name [2]string, now time.Time) error {
	taken := c.slot(name).ReserveN(now, 1)
	if wait := taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return problem.New(problem.RateLimited, "Too many %s; wait before you try again.", c.much).After(wait)
	}
	return nil
}

// spent tells, counting nothing, whether the next call of a name would be refused.
func (c *callers) spent(name [2]string, now time.Time) bool { return c.slot(name).TokensAt(now) < 1 }

func (c *callers) slot(name [2]string) *rate.Limiter {
	return c.slots[maphash.Comparable(c.seed, name)%callerSlots]
}

// explainRequest asks every checker why a request was refused. Problems: invalid_parameter,
// rate_limited, unavailable.
func (s *Service) explainRequest(ctx context.Context, in httpapi.Scope, _ api.None) (wire.ExplainedRequest, error) {
	id := in.Param("request_id")
	if !trace.ValidID(id) {
		return wire.ExplainedRequest{}, problem.New(problem.InvalidParameter, "A request id is 1 to 64 of a-z, A-Z, 0-9, '-' and '_': the X-Request-Id of the answer.")
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

// environmentsOf names a project's environments by their namespaces.
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

// heard is a denial, and who remembers it.
type heard struct {
	checkers.Denial

	replica string
}

// wireDenial shows a denial to who looks after a project. Its key is named if it is the
// project's. Any other is not, and neither is told whether it is another project's or
// nobody's: who sends a made-up secret with a prefix must not learn that there is such a key.
func (s *Service) wireDenial(ctx context.Context, of app.Project, d heard) (wire.Denial, error) {
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

// explain asks all checkers about a request, in the namespaces that are given, and gives
// what they remember, newest first. Problem: unavailable.
func (c *checkerSet) explain(ctx context.Context, id string, in map[string]string) (wire.ExplainedRequest, []heard, error) {
	select {
	case c.asks <- struct{}{}:
		defer func() { <-c.asks }()
	default:
		return wire.ExplainedRequest{}, nil, problem.New(problem.Unavailable, "Too many ask about refused requests right now; try again shortly.")
	}
	list, err := c.store.Members(ctx, store.CanaryKeys)
	if err != nil {
		return wire.ExplainedRequest{}, nil, err
	}
	q := checkers.Query{RequestID: id, At: list.Read, Namespaces: []string{}}
	for namespace := range in {
		q.Namespaces = append(q.Namespaces, namespace)
	}
	ctx, cancel := context.WithTimeout(ctx, hearing)
	defer cancel()
	out := wire.ExplainedRequest{RequestID: id, Denials: []wire.Denial{}, Asked: len(list.Members)}
	var found []heard
	var mu sync.Mutex // guards found, and how many have answered
	var all sync.WaitGroup
	for _, m := range list.Members {
		all.Go(func() {
			denials, err := c.denialsOf(ctx, m, q)
			if err != nil {
				c.log.WarnContext(ctx, "ask checker about denials failed", "replica", m.Replica, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out.Answered++
			for _, d := range denials {
				if q.Sees(d.Namespace) {
					found = append(found, heard{d, m.Replica})
				}
			}
		})
	}
	all.Wait()
	slices.SortFunc(found, func(a, b heard) int { return b.At.Compare(a.At) })
	return out, found, nil
}

// denialsOf asks one checker.
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
