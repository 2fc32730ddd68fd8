package usage

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestSummaryOfManyKeys(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{
		ID: "plan-q", Namespace: "shop-prod", Name: "Q", Limits: plan.Limits{Rate: 1, Burst: 1, Quota: 10, Period: plan.Day}, CreatedAt: h.now, UpdatedAt: h.now,
	})
	check.OK(t, err)
	h.issue("bbbbbbbb", func(k *apikey.Key) { k.Plan = "plan-q" })
	h.issue("cccccccc", func(k *apikey.Key) { k.ExpiresAt = h.now.Add(-time.Hour) })
	h.issue("dddddddd", func(k *apikey.Key) { k.ExpiresAt = h.now.Add(time.Hour) })
	h.issue("eeeeeeee", func(k *apikey.Key) { k.Leak = &apikey.Leak{Secret: k.Secret, At: h.now}; k.Status = apikey.Disabled })
	h.issue("ffffffff", func(k *apikey.Key) { k.Status = apikey.Revoked })
	storetest.CopyKey(t, h.project, "key-"+key, 300)
	settled := h.day("2024-02-28")
	check.OK(t, h.store.UpdateRollups(t.Context(), []apikey.Prefix{key, "ffffffff", "c0000007"}, func(p apikey.Prefix, old usage.History) usage.History {
		return old.Merge(settled-10, usage.Totals{Allowed: uint64(p[0])}).Merge(settled, usage.Totals{Allowed: 1, QuotaDenied: 2})
	}))
	check.OK(t, h.store.SettleDay(t.Context(), settled))
	used := []apikey.Prefix{key, "bbbbbbbb", "c0000001", "c0000002"}
	counts := usage.Packed(nil)
	for i, p := range used {
		counts = counts.Pack(p, usage.Totals{Allowed: uint64(9 - i), RateDenied: uint64(i / 3)})
	}
	for _, day := range []string{"2024-02-29", "2024-03-02"} {
		_, err := h.store.WriteCounter(t.Context(), usage.Counter{Day: h.day(day), Source: "a-1", Counts: counts}, store.CounterVersion{})
		check.OK(t, err)
	}
	const prod = "shop/environments/prod/usage?from=2024-02-01"
	all := h.environmentUsage(prod)
	if read := h.store.keys.Load(); read < 600 {
		t.Fatalf("document reads for 306 keys without a summary: got %d", read)
	}

	sum := store.Summary{Busiest: []apikey.Prefix{"ffffffff", "c0000007", key}}
	collect := func(_ apikey.Key, h usage.History) { sum.Days = total([]keyUse{{History: sum.Days}, {History: h}}) }
	for last := apikey.ID(""); ; {
		last, _, err = h.store.RelistKeys(t.Context(), last, 200, collect)
		check.OK(t, err)
		if last == "" {
			break
		}
	}
	check.OK(t, h.store.SetSummaries(t.Context(), map[string]store.Summary{"shop-prod": sum}))
	check.OK(t, h.store.SetUsed(t.Context(), "shop-prod", used, []apikey.Prefix{"bbbbbbbb", "c0000002"}))
	check.OK(t, h.store.SetKeyList(t.Context(), store.ListState{Day: "2024-03-02", Changed: time.Now(), Settled: settled}))
	h.store.keys.Store(0)
	if diff := cmp.Diff(all, h.environmentUsage(prod)); diff != "" {
		t.Errorf("report (-all keys +summary):\n%s", diff)
	}
	if read := h.store.keys.Load(); read > 100 {
		t.Errorf("document reads for 306 keys: got %d, want at most 100", read)
	}
	if !slices.ContainsFunc(all.Attention, func(a wire.KeyAttention) bool { return a.Prefix == "bbbbbbbb" }) || len(all.Attention) != 5 {
		t.Errorf("attention: got %+v", all.Attention)
	}
}
