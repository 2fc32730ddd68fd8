package usage

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/counted"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

// countedReads counts what is read of the counters.
type countedReads struct {
	*store.Store
	reads, counters atomic.Int64
	keys            atomic.Int64 // keys and rollups, and a thousand counted keys
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

// harness is the function over an empty store that has one key, key-aaaaaaaa of
// project shop. Today is 2024-03-02, a day after a leap day's next.
type harness struct {
	t       *testing.T
	project string // of Firestore
	store   *countedReads
	service *Service
	now     time.Time
}

const key = "aaaaaaaa"

func start(t *testing.T, recentSeconds int) *harness {
	t.Helper()
	project := storetest.Project(t)
	h := &harness{t: t, project: project, store: &countedReads{Store: storetest.Open(t, project)}, now: time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)}
	h.service = New(Config{Recent: counted.Recent{Seconds: recentSeconds}}, h.store, functest.Sessions{}, slog.New(slog.DiscardHandler))
	h.service.now = func() time.Time { return h.now }
	storetest.Environment(t, h.store.Store, "shop", "prod")
	storetest.Environment(t, h.store.Store, "other", "prod")
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{
		ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: h.now, UpdatedAt: h.now,
	})
	h.must(err)
	_, err = h.store.IssueKey(t.Context(), apikey.Key{
		Prefix: key, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active,
		Secret: apikey.HashOf([]byte("x")), CreatedAt: h.now, UpdatedAt: h.now,
	}, apikey.Request{}, 0)
	h.must(err)
	return h
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) day(s string) usage.Day {
	h.t.Helper()
	d, err := usage.ParseDay(s)
	h.must(err)
	return d
}

// flush writes a counter of a source: totals of the key.
func (h *harness) flush(day string, source usage.Source, t usage.Totals) {
	h.t.Helper()
	c := usage.Counter{Day: h.day(day), Source: source, Counts: usage.Packed(nil).Pack(key, t)}
	_, err := h.store.WriteCounter(h.t.Context(), c, store.CounterVersion{})
	h.must(err)
}

// rollUp puts a day's totals into the key's rollup.
func (h *harness) rollUp(day string, t usage.Totals) {
	h.t.Helper()
	h.must(h.store.UpdateRollups(h.t.Context(), []apikey.Prefix{key}, func(_ apikey.Prefix, old usage.History) usage.History {
		return old.Raise(h.day(day), t)
	}))
}

// as asks as a user, and gives the answer's status and body.
func (h *harness) as(user, path string) (int, []byte) {
	h.t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, path, nil)
	r.Header.Set(functest.UserHeader, user)
	h.service.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// get is as for vera, who views the project.
func (h *harness) get(path string) (int, []byte) {
	h.t.Helper()
	return h.as("vera", path)
}

// usage asks for a report, which must be given.
func (h *harness) usage(query string) wire.Usage {
	h.t.Helper()
	status, body := h.get("/api/v1/projects/shop/api-keys/key-" + key + "/usage" + query)
	if status != http.StatusOK {
		h.t.Fatalf("%s: %d %s", query, status, body)
	}
	var u wire.Usage
	h.must(json.Unmarshal(body, &u))
	return u
}
