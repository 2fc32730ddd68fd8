package usage

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

type countedReads struct {
	*store.Store
	reads, counters atomic.Int64
	keys            atomic.Int64 // keys and rollups, and a thousand counted keys
	plans           atomic.Int64 // read one by one

	listing func() // called by EachListed if it is not nil
	endless bool   // EachListed lists keys forever
}

func (c *countedReads) EachListed(ctx context.Context, f store.KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error] {
	return func(yield func(apikey.Key, error) bool) {
		if c.listing != nil {
			c.listing()
		}
		for c.endless && yield(apikey.Key{}, nil) {
		}
		if c.endless {
			return
		}
		for k, err := range c.Store.EachListed(ctx, f, after) {
			c.keys.Add(1)
			if !yield(k, err) {
				return
			}
		}
	}
}

func (c *countedReads) Plan(ctx context.Context, namespace string, id plan.ID) (plan.Plan, error) {
	c.plans.Add(1)
	return c.Store.Plan(ctx, namespace, id)
}

func (c *countedReads) EachKey(ctx context.Context, f store.KeyFilter) iter.Seq2[apikey.Key, error] {
	return func(yield func(apikey.Key, error) bool) {
		for k, err := range c.Store.EachKey(ctx, f) {
			c.keys.Add(1)
			if !yield(k, err) {
				return
			}
		}
	}
}

func (c *countedReads) KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) {
	c.keys.Add(int64(len(prefixes)))
	return c.Store.KeysOf(ctx, prefixes)
}

func (c *countedReads) FindKeys(ctx context.Context, q store.KeySearch, after store.KeyPlace, limit int) ([]store.Candidate, error) {
	found, err := c.Store.FindKeys(ctx, q, after, limit)
	c.keys.Add(int64(len(found)))
	return found, err
}

func (c *countedReads) CountKeys(ctx context.Context, q store.KeySearch) (int, error) {
	n, err := c.Store.CountKeys(ctx, q)
	c.keys.Add(int64(n/1000 + 1))
	return n, err
}

func (c *countedReads) Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	c.keys.Add(int64(len(prefixes)))
	return c.Store.Rollups(ctx, prefixes)
}

func (c *countedReads) EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error {
	c.reads.Add(1)
	return c.Store.EachCounter(ctx, first, last, func(n usage.Counter) error {
		c.counters.Add(1)
		return use(n)
	})
}

// harness is the function with a store that contains one key, key-aaaaaaaa of project shop. Today
// is 2024-03-02, two days after a leap day.
type harness struct {
	t       *testing.T
	project string // Firestore project
	store   *countedReads
	service *Service
	now     time.Time
}

const key = "aaaaaaaa"

func start(t *testing.T, recentSeconds int) *harness {
	t.Helper()
	project := storetest.Project(t)
	h := &harness{t: t, project: project, store: &countedReads{Store: storetest.Open(t, project)}, now: time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)}
	h.service = New(Config{Recent: usagequery.Recent{Seconds: recentSeconds}}, h.store, functest.Sessions{}, functest.Quiet())
	h.service.now = func() time.Time { return h.now }
	storetest.Environment(t, h.store.Store, "shop", "prod")
	storetest.Environment(t, h.store.Store, "other", "prod")
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{
		ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: h.now, UpdatedAt: h.now,
	})
	check.OK(h.t, err)
	h.issue(key, func(k *apikey.Key) { k.Secret = apikey.HashOf([]byte("x")) })
	return h
}

func (h *harness) day(s string) usage.Day {
	h.t.Helper()
	d, err := usage.ParseDay(s)
	check.OK(h.t, err)
	return d
}

func (h *harness) flush(day string, source usage.CounterSource, t usage.Totals) {
	h.t.Helper()
	c := usage.Counter{Day: h.day(day), Source: source, Counts: usage.Packed(nil).Pack(key, t)}
	_, err := h.store.WriteCounter(h.t.Context(), c, store.CounterVersion{})
	check.OK(h.t, err)
}

func (h *harness) rollUp(day string, t usage.Totals) {
	h.t.Helper()
	h.rollUpKey(key, day, t)
}

func (h *harness) rollUpKey(prefix apikey.Prefix, day string, t usage.Totals) {
	h.t.Helper()
	check.OK(h.t, h.store.UpdateRollups(h.t.Context(), []apikey.Prefix{prefix}, func(_ apikey.Prefix, old usage.History) usage.History {
		return old.Merge(h.day(day), t)
	}))
}

func (h *harness) as(user, path string) functest.Answer {
	h.t.Helper()
	return functest.Call{Method: http.MethodGet, Path: path, User: user}.Send(h.t, h.service.Handler())
}

func (h *harness) get(path string) functest.Answer {
	h.t.Helper()
	return h.as("vera", path)
}

func (h *harness) usage(query string) wire.Usage {
	h.t.Helper()
	return functest.Read[wire.Usage](h.get("/api/v1/projects/shop/api-keys/key-"+key+"/usage"+query), http.StatusOK)
}
