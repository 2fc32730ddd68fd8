package usage

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func (h *harness) environmentUsage(path string) wire.EnvironmentUsage {
	h.t.Helper()
	return functest.Read[wire.EnvironmentUsage](h.get("/api/v1/projects/"+path), http.StatusOK)
}

func (h *harness) issue(prefix apikey.Prefix, change func(*apikey.Key)) {
	h.t.Helper()
	k := apikey.Key{
		Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active,
		Secret: apikey.HashOf([]byte(prefix)), CreatedAt: h.now, UpdatedAt: h.now,
	}
	if change != nil {
		change(&k)
	}
	_, err := h.store.IssueKey(h.t.Context(), k, apikey.Request{}, 0)
	check.OK(h.t, err)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.issue("bbbbbbbb", func(k *apikey.Key) { k.Name, k.Status = "Old", apikey.Revoked })
	h.issue("cccccccc", func(k *apikey.Key) { k.Name, k.Status = "Off", apikey.Disabled })
	h.issue("dddddddd", func(k *apikey.Key) { k.ExpiresAt = h.now.Add(-time.Hour) })
	h.rollUp("2024-02-28", usage.Totals{Allowed: 3})
	counts := usage.Packed(nil).Pack(key, usage.Totals{Allowed: 5, RateDenied: 1}).Pack("bbbbbbbb", usage.Totals{QuotaDenied: 7}).
		Pack("zzzzzzzz", usage.Totals{Allowed: 1000})
	_, err := h.store.WriteCounter(t.Context(), usage.Counter{Day: h.day("2024-03-01"), Source: "a-1", Counts: counts}, store.CounterVersion{})
	check.OK(t, err)
	got := h.environmentUsage("shop/environments/prod/usage?from=2024-02-28&to=2024-03-01")
	day := func(date string, allowed, rate, quota uint64) wire.UsageDay {
		return wire.UsageDay{Date: date, UsageTotals: wire.UsageTotals{Allowed: allowed, RateDenied: rate, QuotaDenied: quota}}
	}
	first := wire.NamedKey{KeyID: "key-aaaaaaaa", Prefix: key}
	want := wire.EnvironmentUsage{
		Environment: "prod",
		UsageReport: wire.UsageReport{
			From: "2024-02-28", To: "2024-03-01", RetentionDays: 92, Totals: wire.UsageTotals{Allowed: 8, RateDenied: 1, QuotaDenied: 7},
			Days: []wire.UsageDay{day("2024-02-28", 3, 0, 0), day("2024-02-29", 0, 0, 0), day("2024-03-01", 5, 1, 7)}, Incomplete: []string{},
		},
		Keys: wire.KeyCounts{Active: 1, Disabled: 1, Expired: 1, Revoked: 1},
		Busiest: []wire.KeyTotals{
			{NamedKey: first, Totals: wire.UsageTotals{Allowed: 8, RateDenied: 1}},
			{NamedKey: wire.NamedKey{KeyID: "key-bbbbbbbb", Prefix: "bbbbbbbb", Name: "Old"}, Totals: wire.UsageTotals{QuotaDenied: 7}},
		},
		Attention: []wire.KeyAttention{{NamedKey: wire.NamedKey{KeyID: "key-dddddddd", Prefix: "dddddddd"}, Reason: wire.KeyExpired, At: h.now.Add(-time.Hour)}},

		LeakedTokens: []wire.LeakedToken{}, AsOf: h.now,
	}
	check.Equal(t, "report", want, got)
	h.get("/api/v1/projects/shop/environments/none/usage").Is(http.StatusNotFound)
	h.as("bob", "/api/v1/projects/shop/environments/prod/usage").Is(http.StatusForbidden)
}

func TestEnvironmentIsShared(t *testing.T) {
	t.Parallel()
	h := start(t, 2)
	const prod = "shop/environments/prod/usage"
	h.environmentUsage(prod)
	if got := h.environmentUsage("other/environments/prod/usage").Keys; got != (wire.KeyCounts{}) {
		t.Errorf("other environment: got %+v", got)
	}
	h.flush("2024-03-02", "a-1", usage.Totals{Allowed: 1})
	if got := h.environmentUsage(prod).Totals.Allowed; got != 0 {
		t.Errorf("allowed, cached: got %d", got)
	}
	h.now = h.now.Add(2 * time.Second)
	if got := h.environmentUsage(prod).Totals.Allowed; got != 1 {
		t.Errorf("allowed, read again: got %d", got)
	}
	h.now = h.now.Add(maxUnused + time.Second)
	h.environmentUsage(prod)
	if n := len(h.service.environments.cached); n != 1 {
		t.Errorf("cached environments: got %d", n)
	}
}

func TestLeakedTokens(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.now = time.Now()
	ctx := reqctx.WithActor(t.Context(), reqctx.Actor{Kind: reqctx.Program, Name: "program:github"})
	token := map[string]servicetoken.Token{}
	for _, project := range []string{"shop", "other"} {
		made, full, err := servicetoken.New(apikey.Random(), servicetoken.Token{Project: project, Name: "nightly", Role: app.Owner, ExpiresAt: h.now.Add(time.Hour)})
		check.OK(t, err)
		check.OK(t, h.store.CreateToken(t.Context(), made))
		leak := apikey.Leak{Secret: apikey.HashOf([]byte(full)), At: h.now, URL: "https://git.example.com/x", Source: "commit"}
		_, err = h.store.ReportTokenLeak(ctx, made.ID, leak)
		check.OK(t, err)
		token[project] = made
	}
	got := h.environmentUsage("shop/environments/prod/usage").LeakedTokens
	want := []wire.LeakedToken{{TokenID: string(token["shop"].ID), Name: "nightly", By: "program:github", FoundAt: "https://git.example.com/x", FoundIn: "commit"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(wire.LeakedToken{}, "At")); diff != "" {
		t.Errorf("leaked tokens (-want +got):\n%s", diff)
	}
	h.now = h.now.Add(expiryWindow + time.Minute)
	if got := h.environmentUsage("shop/environments/prod/usage").LeakedTokens; len(got) > 0 {
		t.Errorf("a week later: got %+v", got)
	}
	if got := leakedTokens([]audit.Record{{At: h.now}}, app.Project{CreatedAt: h.now.Add(time.Second)}); len(got) > 0 {
		t.Errorf("later project with the same name: got %+v", got)
	}
}

func TestAttention(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	today := usage.DayOf(now)
	limits := plan.Limits{Rate: 1, Burst: 1, Quota: 100, Period: plan.Day}
	share := func(f float64) *float64 { return &f }
	used := func(allowed, rate, quota uint64) usage.History {
		return usage.History{{Day: today - 1, Totals: usage.Totals{Allowed: 1000}}, {Day: today, Totals: usage.Totals{Allowed: allowed, RateDenied: rate, QuotaDenied: quota}}}
	}
	midnight := today.End()
	leaked := func(s apikey.Status, secret apikey.Hash, ago time.Duration) keyUse {
		return keyUse{Key: apikey.Key{Status: s, Secret: apikey.Hash{1}, Leak: &apikey.Leak{Secret: secret, At: now.Add(-ago)}}}
	}
	tests := []struct {
		name string
		key  keyUse
		want wire.Attention // "" for none
		at   time.Time
		part *float64
	}{
		{"idle", keyUse{}, "", time.Time{}, nil},
		{"used", keyUse{Limits: limits, History: used(79, 1, 0)}, "", time.Time{}, nil},
		{"nearly used up", keyUse{Limits: limits, History: used(80, 0, 0)}, wire.QuotaHigh, midnight, share(0.8)},
		{"used up", keyUse{Limits: limits, History: used(100, 90, 5)}, wire.QuotaUsedUp, midnight, share(1)},
		{"without a quota", keyUse{Limits: plan.Limits{Rate: 1, Burst: 1}, History: used(1e6, 0, 0)}, "", time.Time{}, nil},
		{"too fast", keyUse{Limits: limits, History: used(9, 1, 0)}, wire.RateExceeded, midnight, share(0.1)},
		{"used up, and too fast", keyUse{Limits: limits, History: used(120, 400, 0)}, wire.QuotaUsedUp, midnight, share(1.2)},
		{"expires in a week", keyUse{Key: apikey.Key{ExpiresAt: now.Add(expiryWindow)}}, "", time.Time{}, nil},
		{"expires within one", keyUse{Key: apikey.Key{ExpiresAt: now.Add(expiryWindow - 1)}}, wire.KeyExpiring, now.Add(expiryWindow - 1), nil},
		{"has expired", keyUse{Key: apikey.Key{ExpiresAt: now}, Limits: limits, History: used(100, 0, 0)}, wire.KeyExpired, now, nil},
		{"has expired long ago", keyUse{Key: apikey.Key{ExpiresAt: now.Add(-expiryWindow)}}, "", time.Time{}, nil},
		{"has leaked", leaked(apikey.Disabled, apikey.Hash{1}, time.Hour), wire.KeyLeaked, now.Add(-time.Hour), nil},
		{"has leaked long ago, and was enabled again", leaked(apikey.Active, apikey.Hash{1}, 2*expiryWindow), wire.KeyLeaked, now.Add(-2 * expiryWindow), nil},
		{"had another secret when it leaked", leaked(apikey.Active, apikey.Hash{2}, time.Hour), wire.KeyLeaked, now.Add(-time.Hour), nil},
		{"had another secret when it leaked long ago", leaked(apikey.Active, apikey.Hash{2}, expiryWindow), "", time.Time{}, nil},
		{"was revoked for its leak", leaked(apikey.Revoked, apikey.Hash{1}, time.Hour), wire.KeyLeaked, now.Add(-time.Hour), nil},
		{"was revoked for its leak long ago", leaked(apikey.Revoked, apikey.Hash{1}, expiryWindow), "", time.Time{}, nil},
		{"is disabled", keyUse{Key: apikey.Key{Status: apikey.Disabled}, Limits: limits, History: used(100, 0, 0)}, "", time.Time{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.key.Status == "" {
				tt.key.Status = apikey.Active
			}
			tt.key.Prefix = key
			want := []wire.KeyAttention{}
			if tt.want != "" {
				want = append(want, wire.KeyAttention{NamedKey: named(tt.key.Key), Reason: tt.want, At: tt.at, Share: tt.part})
			}
			check.Equal(t, "attention", want, attention([]keyUse{tt.key}, now))
		})
	}
}

func TestMostUrgent(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	var keys []keyUse
	for i := range 3 * maxAttention {
		k := keyUse{Key: apikey.Key{Prefix: prefix(i), Status: apikey.Active, ExpiresAt: now.Add(time.Duration(500-i) * time.Minute)}}
		if i == 17 {
			k.ExpiresAt = now.Add(-time.Minute)
		}
		keys = append(keys, k)
	}
	got := attention(keys, now)
	if len(got) != maxAttention || got[0].Reason != wire.KeyExpired || got[1].Prefix != string(prefix(299)) {
		t.Errorf("got %d keys, first %+v, then %+v", len(got), got[0], got[1])
	}
	var many []keyUse
	for i := range 2 * maxBusiest {
		many = append(many, keyUse{Key: apikey.Key{Prefix: prefix(i)}, History: usage.History{{Day: 100, Totals: usage.Totals{Allowed: uint64(i)}}}})
	}
	first := busiest(many, usage.Window{From: 100, To: 100})
	if len(first) != maxBusiest || first[0].Prefix != string(prefix(19)) || first[0].Totals != usagequery.WireTotals(usage.Totals{Allowed: 19}) {
		t.Errorf("busiest: got %+v", first)
	}
}

func TestKeptEnvironmentsAreBounded(t *testing.T) {
	t.Parallel()
	all, now, reads := newReadings[environment](time.Hour, reportsAtOnce), time.Unix(0, 0), map[string]int{}
	read := func(namespace string) {
		t.Helper()
		now = now.Add(time.Second)
		_, err := all.read(t.Context(), namespace, func() time.Time { return now },
			func(context.Context, time.Time) (environment, error) {
				reads[namespace]++
				return environment{busy: make([]keyUse, maxCachedKeys/2)}, nil
			})
		check.OK(t, err)
	}
	for _, namespace := range []string{"a", "b", "a", "c", "a", "b"} {
		read(namespace)
	}
	check.Equal(t, "readings", map[string]int{"a": 1, "b": 2, "c": 1}, reads)
}
