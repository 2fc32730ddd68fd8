package keys

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	bulksAtOnce    = 4               // bulk changes in progress per process
	bulkKeysAtOnce = 8               // transactions of a bulk change
	bulkStart      = 6 * time.Second // after which a call starts no transaction; a slow store must not outlast the caller
)

// bulkQueue admits bulk changes: one of a project at a time, and bulksAtOnce in all.
type bulkQueue struct {
	all scans
	mu  sync.Mutex
	of  map[string]chan struct{} // by project; closed when its bulk change ends
}

func newBulkQueue() *bulkQueue {
	return &bulkQueue{all: make(scans, bulksAtOnce), of: map[string]chan struct{}{}}
}

// enter waits for the project's turn. leave ends it. enter returns an unavailable problem if ctx
// ends first.
func (q *bulkQueue) enter(ctx context.Context, project string) (leave func(), err error) {
	ended := make(chan struct{})
	for current := q.replace(project, ended); current != ended; current = q.replace(project, ended) {
		select {
		case <-current:
		case <-ctx.Done():
			return nil, problem.FromCode(problem.Unavailable).WithCause(ctx.Err())
		}
	}
	end := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.of, project)
		close(ended)
	}
	leaveAll, err := q.all.enter(ctx)
	if err != nil {
		end()
		return nil, err
	}
	return func() { leaveAll(); end() }, nil
}

// replace returns the end of the project's bulk change. It sets and returns mine if there is none.
func (q *bulkQueue) replace(project string, mine chan struct{}) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[project] == nil {
		q.of[project] = mine
	}
	return q.of[project]
}

// bulk is a bulk change of an environment's keys.
type bulk struct {
	ids         []apikey.ID
	project     string
	environment string
	by          string
	now         time.Time // start of the call, or of the change of a key
	change      wire.KeyChange
	dryRun      bool
}

// step is the change of one key.
type step struct {
	before, after apikey.Key // zero if the key is not in the environment
	err           error
	saved         checkers.Change
}

// bulkKeys changes keys. Each key is a transaction, so a failure does not affect the others.
func (s *Service) bulkKeys(ctx context.Context, in httpapi.Scope, body wire.BulkKeys) (wire.BulkResult, checkers.Change, error) {
	b, err := s.newBulk(ctx, in, body)
	if err != nil {
		return wire.BulkResult{}, checkers.Change{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, bulkStart)
	defer cancel()
	leave, err := s.bulks.enter(waiting, b.project)
	if err != nil {
		return wire.BulkResult{}, checkers.Change{}, err
	}
	defer leave()
	steps := s.runBulk(ctx, b)
	return b.result(steps), lastSaved(steps), nil
}

// newBulk checks a request before any key is changed.
func (s *Service) newBulk(ctx context.Context, in httpapi.Scope, body wire.BulkKeys) (bulk, error) {
	if err := problem.Join(httpapi.Required("keys", body.Keys), httpapi.Required("change", body.Change)); err != nil {
		return bulk{}, err
	}
	b := bulk{
		project: in.Project.Name, environment: in.Environment.Name, by: in.Caller.Username, now: s.changeTime(), change: *body.Change, dryRun: body.DryRun,
	}
	for _, id := range *body.Keys {
		if apikey.HoldsSecret(id) {
			return bulk{}, problem.ForField("keys", problem.New(problem.InvalidParameter, "keys must contain IDs, not full keys."))
		}
		b.ids = append(b.ids, apikey.ID(id))
	}
	once := slices.Compact(slices.Sorted(slices.Values(b.ids)))
	if len(once) != len(b.ids) || len(b.ids) < 1 || len(b.ids) > wire.MaxBulk {
		return bulk{}, problem.ForField("keys", problem.New(problem.InvalidParameter, "keys must contain 1 to %d IDs, each at most once.", wire.MaxBulk))
	}
	if err := problem.Nest("change", b.check()); err != nil {
		return bulk{}, err
	}
	if b.change.Plan == nil {
		return b, nil
	}
	_, err := s.store.Plan(ctx, in.Environment.Namespace, plan.ID(*b.change.Plan))
	if problem.Is(err, problem.NotFound) {
		err = problem.Nest("change", problem.FromCode(problem.UnknownPlan))
	}
	return b, err
}

// check returns an invalid_parameter problem unless there is exactly one change, or the problem of
// its value.
func (b bulk) check() error {
	c, kinds := b.change, 0
	for _, present := range []bool{c.Plan != nil, c.Status != nil, c.ExpiresAt.Set, c.AddTags != nil, c.RemoveTags != nil, c.Revoke} {
		if present {
			kinds++
		}
	}
	if kinds != 1 {
		return problem.New(problem.InvalidParameter, "change must contain exactly one of plan, status, expires_at, add_tags, remove_tags and revoke.")
	}
	for field, tags := range map[string][]string{"add_tags": c.AddTags, "remove_tags": c.RemoveTags} {
		if tags == nil {
			continue
		}
		if some, err := apikey.CheckTags(tags); err != nil || len(some) == 0 {
			return problem.ForField(field, problem.FromCode(problem.InvalidTag))
		}
	}
	if c.Revoke {
		return nil
	}
	_, err := changeKey(apikey.Key{Plan: "plan-x", Status: apikey.Active}, b.update(nil), b.now)
	return err
}

// update returns the change as that of one key with tags.
func (b bulk) update(tags []string) wire.UpdateKey {
	u := wire.UpdateKey{Plan: wire.If(b.change.Plan != nil, b.change.Plan), Status: wire.If(b.change.Status != nil, b.change.Status), ExpiresAt: b.change.ExpiresAt}
	switch {
	case b.change.AddTags != nil:
		u.Tags = wire.Some(slices.Compact(slices.Sorted(slices.Values(slices.Concat(tags, b.change.AddTags)))))
	case b.change.RemoveTags != nil:
		u.Tags = wire.Some(slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return slices.Contains(b.change.RemoveTags, t) }))
	}
	return u
}

// apply returns the changed key, or k itself if the change has no effect.
func (b bulk) apply(k apikey.Key) (apikey.Key, error) {
	if b.change.Revoke {
		return k.Revoke(b.now, b.by), nil
	}
	changed, err := changeKey(k, b.update(k.Tags), b.now)
	if err != nil {
		return apikey.Key{}, err
	}
	same := changed
	same.UpdatedAt = k.UpdatedAt
	if reflect.DeepEqual(same, k) {
		return k, nil
	}
	return changed, nil
}

// try applies the change to a stored key, which can be in another environment.
func (b bulk) try(k apikey.Key) (st step) {
	if k.Project != b.project || k.Environment != b.environment {
		return step{err: errKeyNotFound()}
	}
	st.before = k
	st.after, st.err = b.apply(k)
	return st
}

func (s *Service) runBulk(ctx context.Context, b bulk) []step {
	steps := make([]step, len(b.ids))
	var g errgroup.Group
	g.SetLimit(bulkKeysAtOnce)
	for i, id := range b.ids {
		g.Go(func() error {
			steps[i] = s.bulkKey(ctx, b, id)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	return steps
}

func (s *Service) bulkKey(ctx context.Context, b bulk, id apikey.ID) (st step) {
	now := s.changeTime()
	if now.Sub(b.now) > bulkStart || ctx.Err() != nil {
		return step{err: problem.New(problem.Unavailable, "The key was not changed because the changes took too long. Repeat the call.")}
	}
	b.now = now
	saved, err := s.saveStep(ctx, b, id, func(k apikey.Key) (apikey.Key, error) {
		st = b.try(k)
		return st.after, st.err
	})
	st.saved, st.err = saved, err
	if p := problem.From(err); err != nil && (p.Code == problem.Internal || p.Code == problem.Unavailable) {
		s.log.ErrorContext(ctx, "change key failed", "key_id", string(id), "error", err)
	}
	return st
}

// saveStep changes a stored key. A dry run calls change, but does not save the result.
func (s *Service) saveStep(ctx context.Context, b bulk, id apikey.ID, change func(apikey.Key) (apikey.Key, error)) (saved checkers.Change, err error) {
	if !b.dryRun {
		_, saved, err = s.store.ReissueKey(ctx, id, apikey.Request{}, change)
		return saved, err
	}
	k, err := s.store.Key(ctx, id)
	if err == nil {
		_, err = change(k)
	}
	return saved, err
}

// lastSaved returns the last change. Checkers apply changes in the order of their commits, so all
// other changes are in force before it.
func lastSaved(steps []step) (last checkers.Change) {
	var recorded time.Time
	for _, st := range steps {
		if c := st.saved; c.ID != "" && !c.Keys.Before(recorded) {
			last.ID, recorded = c.ID, c.Keys
		}
		if st.saved.Keys.After(last.Keys) {
			last.Keys = st.saved.Keys
		}
		if st.saved.Plans.After(last.Plans) {
			last.Plans = st.saved.Plans
		}
	}
	return last
}

func (b bulk) result(steps []step) wire.BulkResult {
	out := wire.BulkResult{Results: make([]wire.KeyResult, len(steps))}
	for i, st := range steps {
		r := wire.KeyResult{KeyID: string(b.ids[i]), Name: st.before.Name, Before: b.state(st.before), Outcome: wire.KeyFailed}
		switch {
		case st.err != nil:
			p := problem.From(st.err)
			r.Code, r.Message = wire.Text(p.Code), wire.Text(p.Message)
			out.Failed++
		case reflect.DeepEqual(st.before, st.after):
			r.Outcome, r.After = wire.KeyUnchanged, b.state(st.after)
			out.Unchanged++
		default:
			r.Outcome, r.After = wire.KeyChanged, b.state(st.after)
			out.Changed++
		}
		out.Results[i] = r
	}
	return out
}

func (b bulk) state(k apikey.Key) *wire.KeyState {
	if k.Prefix == "" {
		return nil
	}
	shown := wireKey(k, b.now)
	return &wire.KeyState{Plan: shown.Plan, Status: shown.Status, ExpiresAt: shown.ExpiresAt, Tags: shown.Tags}
}
