package checker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

type fakeStore struct {
	mu       sync.Mutex
	keys     map[string]store.DocChange[apikey.Key]
	plans    map[string]store.DocChange[plan.Plan]
	canaries map[store.CanaryType]store.Canary
	stalled  bool
	refused  bool                     // writes of canaries fail
	missed   bool                     // the store counts one key more than it sends
	wake     chan struct{}            // closed on every change
	held     int64                    // leased requests
	cut      map[chan struct{}]string // closing one ends a listener
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		keys: map[string]store.DocChange[apikey.Key]{}, plans: map[string]store.DocChange[plan.Plan]{},
		canaries: map[store.CanaryType]store.Canary{}, wake: make(chan struct{}), cut: map[chan struct{}]string{},
	}
}

func (f *fakeStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *fakeStore) putKey(k apikey.Key) {
	f.set(func() { f.keys[string(k.ID())] = store.DocChange[apikey.Key]{ID: string(k.ID()), Value: k} })
}

func (f *fakeStore) putPlan(p plan.Plan) {
	id := p.Namespace + "." + string(p.ID)
	f.set(func() { f.plans[id] = store.DocChange[plan.Plan]{ID: id, Value: p} })
}

func (f *fakeStore) stall(on bool) { f.set(func() { f.stalled = on }) }

func (f *fakeStore) endListeners() {
	f.set(func() {
		for c := range f.cut {
			close(c)
			delete(f.cut, c)
		}
	})
}

func (f *fakeStore) WriteCanary(ctx context.Context, t store.CanaryType, c store.Canary) error {
	if err := f.answers(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	refused := f.refused
	f.mu.Unlock()
	if refused {
		return errors.New("refused")
	}
	f.set(func() { f.canaries[t] = c })
	return nil
}

func (f *fakeStore) answers(ctx context.Context) error {
	for {
		f.mu.Lock()
		stalled, wake := f.stalled, f.wake
		f.mu.Unlock()
		if !stalled {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

func (f *fakeStore) DeleteCanary(_ context.Context, t store.CanaryType, _ string) error {
	f.set(func() { delete(f.canaries, t) })
	return nil
}

func (f *fakeStore) Lease(ctx context.Context, _ usage.QuotaPeriod, _ string, _ bool, change func(own, others int64) int64) error {
	if err := f.answers(ctx); err != nil {
		return err
	}
	f.set(func() { f.held = change(f.held, 0) })
	return nil
}

func (f *fakeStore) EndLeases(ctx context.Context, all []usage.Ended) ([]usage.Ended, error) {
	if err := f.answers(ctx); err != nil {
		return all, err
	}
	for _, e := range all {
		f.set(func() { f.held = min(f.held, e.Spent) })
	}
	return nil, nil
}

func (f *fakeStore) WriteCounter(ctx context.Context, _ usage.Counter, _ store.CounterVersion) (store.CounterVersion, error) {
	return store.CounterVersion{}, f.answers(ctx)
}

func (f *fakeStore) CounterVersion(context.Context, usage.Day, usage.CounterSource, int) (store.CounterVersion, error) {
	return store.CounterVersion{}, nil
}

func (f *fakeStore) Keys(ctx context.Context, to store.Receiver[apikey.Key]) error {
	usable := func() map[string]store.DocChange[apikey.Key] {
		some := maps.Clone(f.keys)
		maps.DeleteFunc(some, func(_ string, c store.DocChange[apikey.Key]) bool { return c.Value.Status == apikey.Revoked })
		return some
	}
	return fakeListen(ctx, f, store.CanaryKeys, usable, to)
}

func (f *fakeStore) Plans(ctx context.Context, to store.Receiver[plan.Plan]) error {
	return fakeListen(ctx, f, store.CanaryPlans, func() map[string]store.DocChange[plan.Plan] { return f.plans }, to)
}

func (f *fakeStore) Counters(ctx context.Context, to store.Receiver[usage.Counter]) error {
	return fakeListen(ctx, f, store.CanaryCounters, func() map[string]store.DocChange[usage.Counter] { return nil }, to)
}

func fakeListen[T any](ctx context.Context, f *fakeStore, t store.CanaryType, all func() map[string]store.DocChange[T], to store.Receiver[T]) error {
	cut := make(chan struct{})
	f.mu.Lock()
	f.cut[cut] = string(t)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		stalled, wake := f.stalled, f.wake
		b := store.Batch[T]{Reset: true, At: time.Now()}
		for _, c := range all() {
			b.Changes = append(b.Changes, c)
		}
		if c, ok := f.canaries[t]; ok {
			b.Canaries = []store.Canary{c}
		}
		if f.missed && t == store.CanaryKeys {
			stored := len(b.Changes) + 1
			b.Stored = &stored
		}
		f.mu.Unlock()
		if !stalled {
			if err := to.Receive(b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-cut:
			return errors.New("stream ended")
		case <-wake:
		}
	}
}

type replica struct {
	*Checker
	store *fakeStore
	stop  func()
}

func newReplica(t *testing.T, f *fakeStore) *replica {
	t.Helper()
	cfg := Config{Replica: "checker-0", PodIP: "2001:db8::1", Port: 8443, TLSDir: "unused", MaxStaleness: Ceiling, CanaryInterval: 15 * time.Second, FlushInterval: 2 * time.Second, MaxUnshared: 5 * time.Second}
	c, err := New(cfg, f, f, functest.Quiet())
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return &replica{Checker: c, store: f, stop: stop}
}

// serving returns a proven replica and the only key in its store.
func serving(t *testing.T, change func(*apikey.Key)) (r *replica, full string) {
	t.Helper()
	f := newFakeStore()
	full = issue(t, f, change)
	r = newReplica(t, f)
	synctest.Wait()
	return r, full
}

func stalled(t *testing.T) (r *replica, full string) {
	t.Helper()
	f := newFakeStore()
	full = issue(t, f, nil)
	f.stall(true)
	r = newReplica(t, f)
	synctest.Wait()
	return r, full
}

func issue(t *testing.T, f *fakeStore, change func(*apikey.Key)) string {
	t.Helper()
	k, full := functest.NewKey(t, change)
	f.putKey(k)
	f.putPlan(plan.Plan{ID: "plan-a", Namespace: "shop-prod", Limits: plan.Limits{Rate: 1, Burst: 3}})
	return full
}
