package load

import (
	"bytes"
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// batch is the maximum number of documents in a commit.
const batch = 500

// key is an API key with the client's counts.
type key struct {
	id      string
	current atomic.Pointer[credential]
	before  []*credential // used only by the changer

	allowed, rate, quota, unclear atomic.Uint64
}

func (k *key) totals() usage.Totals {
	return usage.Totals{Allowed: k.allowed.Load(), RateDenied: k.rate.Load(), QuotaDenied: k.quota.Load()}
}

func (k *key) issue(text string, line *timeline) *credential {
	c := &credential{key: k, text: text, timeline: line}
	if old := k.current.Swap(c); old != nil {
		k.before = append(k.before, old)
	}
	return c
}

// credential is a full key as it was issued.
type credential struct {
	key  *key
	text string
	dead bool // permanently; used only by the changer
	*timeline
}

// kinds groups the keys by purpose.
type kinds struct {
	plain    []*key // unlimited, never changed
	limited  []*key // exceed their rate
	quotas   []*key // exceed their quota
	shared   []*key // have the plan that changes
	changed  []*key // revoked, disabled, enabled, rotated, moved to another plan, scoped
	expiring []*key // expire during the load
	all      []*key
}

type plans struct {
	free, slow, used, changing wire.Plan
}

const (
	usedQuota = 60 // requests
	slowRate  = 0.2
)

func makePlans(s *stacktest.Site) plans {
	rate, burst, quota, period := slowRate, int64(2), int64(usedQuota), "month"
	return plans{
		free:     s.Plan(wire.CreatePlan{}),
		slow:     s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}),
		used:     s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}),
		changing: s.Plan(wire.CreatePlan{}),
	}
}

// makeKeys creates one key of each plan with the API and copies their documents. One call per key
// would take minutes.
func makeKeys(t *testing.T, s *stacktest.Site, p plans, n int, end time.Time) *kinds {
	t.Helper()
	var k kinds
	c := stacktest.Store(t, world)
	free := s.Key(p.free)
	k.limited = copies(t, c, s.Key(p.slow), n/10, allowed|rateDenied, nil)
	k.quotas = copies(t, c, s.Key(p.used), n/500, allowed|quotaDenied, nil) // few, so that a slow machine exhausts them
	k.shared = copies(t, c, s.Key(p.changing), n/20, allowed, nil)
	k.changed = copies(t, c, free, n/10, allowed, nil)
	k.expiring = copies(t, c, free, 200, allowed, func(i int) time.Time {
		left := time.Until(end)
		return end.Add(-left/2 + time.Duration(i)*left/2/200).Truncate(time.Millisecond)
	})
	rest := n - len(k.limited) - len(k.quotas) - len(k.shared) - len(k.changed) - len(k.expiring)
	k.plain = copies(t, c, free, rest, allowed, nil)
	for _, some := range [][]*key{k.plain, k.limited, k.quotas, k.shared, k.changed, k.expiring} {
		k.all = append(k.all, some...)
	}
	return &k
}

// copies creates n keys like from, with their own prefixes and secrets. A nil expiry means never.
func copies(t *testing.T, c *firestore.Client, from stacktest.Key, n int, may verdict, expiry func(i int) time.Time) []*key {
	t.Helper()
	doc, err := c.Collection("keys").Doc(from.ID).Get(t.Context())
	check.OK(t, err)
	made := make([]*key, n)
	writer := documents{t: t, client: c, pending: map[string]map[string]any{}}
	for i := range made {
		prefix, full, data := reissue(t, doc.Data())
		made[i] = &key{id: string(apikey.IDOf(prefix))}
		line := newTimeline(may)
		if expiry != nil {
			at := expiry(i)
			data["expires_at"] = at
			line.at(at, invalidKey)
		}
		made[i].issue(full, line)
		writer.add(made[i].id, data)
	}
	writer.commit()
	return made
}

func reissue(t *testing.T, data map[string]any) (apikey.Prefix, string, map[string]any) {
	t.Helper()
	prefix, err := apikey.NewPrefix(apikey.Random())
	check.OK(t, err)
	full, err := apikey.NewSecret(apikey.Random(), prefix)
	check.OK(t, err)
	hash := apikey.HashOf([]byte(full))
	data = maps.Clone(data)
	data["prefix"], data["secret"] = string(prefix), bytes.Clone(hash[:])
	return prefix, string(full), data
}

type documents struct {
	t       *testing.T
	client  *firestore.Client
	pending map[string]map[string]any
}

func (d *documents) add(id string, data map[string]any) {
	d.t.Helper()
	d.pending[id] = data
	if len(d.pending) == batch {
		d.commit()
	}
}

func (d *documents) commit() {
	d.t.Helper()
	err := d.client.RunTransaction(d.t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
		for id, data := range d.pending {
			if err := tx.Create(d.client.Collection("keys").Doc(id), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.t.Fatalf("create keys: %v", err)
	}
	clear(d.pending)
}
