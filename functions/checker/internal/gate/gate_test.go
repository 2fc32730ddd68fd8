package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func viewOf(keys ...apikey.Key) *view.View {
	var changes []view.KeyChange
	for _, k := range keys {
		changes = append(changes, view.KeyChange{Prefix: k.Prefix, Key: &k})
	}
	return (&view.View{}).WithKeys(true, changes).
		WithPlans(true, []view.PlanChange{{Document: "shop-prod.plan-a", Limits: plan.Limits{Rate: 10, Burst: 20}}})
}

// TestPolicy covers promises K1, K2, K6 and K7.
func TestPolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*apikey.Key)
		app    string // default "shop-prod/hello"
		want   bool
	}{
		{"a usable key", nil, "", true},
		{"disabled", func(k *apikey.Key) { k.Status = apikey.Disabled }, "", false},
		{"unknown status", func(k *apikey.Key) { k.Status = "ACTIVE" }, "", false},
		{"expires later", func(k *apikey.Key) { k.ExpiresAt = now.Add(1) }, "", true},
		{"expires now", func(k *apikey.Key) { k.ExpiresAt = now }, "", false},
		{"expired", func(k *apikey.Key) { k.ExpiresAt = now.Add(-time.Hour) }, "", false},
		{"expires in the year 9999", func(k *apikey.Key) { k.ExpiresAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, "", true},
		{"scoped to the app", func(k *apikey.Key) { k.Apps = []string{"a", "hello", "z"} }, "", true},
		{"scoped to another app", func(k *apikey.Key) { k.Apps = []string{"other"} }, "", false},
		{"scoped to a deleted app", func(k *apikey.Key) { *k = k.WithoutApp("hello", now) }, "", false},
		{"scoped, another environment", func(k *apikey.Key) { k.Apps = []string{"hello"} }, "shop-test/hello", false},
		{"unscoped, any app of its environment", nil, "shop-prod/anything", true},
		{"unscoped, another environment", nil, "shop-test/hello", false},
		{"a namespace with the same beginning", nil, "shop-prod2/hello", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.app == "" {
				test.app = "shop-prod/hello"
			}
			ns, app, _ := strings.Cut(test.app, "/")
			k, full := functest.NewKey(t, test.change)
			v := Decide(viewOf(k), Request{Namespace: ns, App: app, Key: full}, now)
			if v.Valid != test.want || v.Valid != (v.Reason == 0) {
				t.Errorf("valid: got %v, want %v", v.Valid, test.want)
			}
			if v.Valid && (v.Prefix != string(k.Prefix) || v.PlanUnknown) {
				t.Errorf("got prefix %q, unknown plan %v", v.Prefix, v.PlanUnknown)
			}
		})
	}
}

func TestGarbageIsRejected(t *testing.T) {
	t.Parallel()
	k, full := functest.NewKey(t, nil)
	other, _ := functest.NewKey(t, nil)
	v := viewOf(k, other)
	keys := []string{
		"", " ", "x", full + " ", " " + full, full[:len(full)-1], full + "x", strings.ToUpper(full), full + ", " + full,
		strings.Replace(full, string(k.Prefix), string(other.Prefix), 1), strings.Repeat("\x00", len(full)), strings.Repeat("a", 1<<16),
	}
	for i := range len(full) {
		keys = append(keys, full[:i]+string(full[i]^1)+full[i+1:])
	}
	for _, bad := range keys {
		if Decide(v, Request{Namespace: "shop-prod", App: "hello", Key: bad}, now).Valid {
			t.Errorf("%q is valid", bad)
		}
	}
	if Decide(&view.View{}, Request{Namespace: "shop-prod", App: "hello", Key: full}, now).Valid {
		t.Error("a key is valid in an empty view")
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	k, full := functest.NewKey(t, nil)
	old := withSum(t, k.Prefix)
	k.Previous, k.PreviousUntil = apikey.HashOf([]byte(old)), now.Add(time.Minute)
	v := viewOf(k)
	open := func(key string, at time.Time) bool {
		return Decide(v, Request{Namespace: "shop-prod", App: "hello", Key: key}, at).Valid
	}
	if !open(full, now) || !open(old, now) || !open(old, now.Add(time.Minute-1)) {
		t.Error("a secret is invalid during the grace period")
	}
	if open(old, now.Add(time.Minute)) || !open(full, now.Add(time.Hour)) {
		t.Error("after the grace period, only the new secret must be valid")
	}
}

func withSum(t *testing.T, prefix apikey.Prefix) string {
	t.Helper()
	full, err := apikey.NewSecret(apikey.Random(), prefix)
	check.OK(t, err)
	return string(full)
}

func TestUnknownPlan(t *testing.T) {
	t.Parallel()
	k, full := functest.NewKey(t, func(k *apikey.Key) { k.Plan = "plan-gone" })
	if v := Decide(viewOf(k), Request{Namespace: "shop-prod", App: "hello", Key: full}, now); !v.Valid || !v.PlanUnknown {
		t.Errorf("got valid %v, unknown plan %v, want both", v.Valid, v.PlanUnknown)
	}
}

func TestAllocatesNothing(t *testing.T) {
	k, full := functest.NewKey(t, nil)
	v := viewOf(k)
	for _, key := range []string{full, "garbage", withSum(t, "zzzzzzzz")} {
		r := Request{Namespace: "shop-prod", App: "hello", Key: key}
		if n := testing.AllocsPerRun(100, func() { Decide(v, r, now) }); n != 0 {
			t.Errorf("allocations: got %v, want 0", n)
		}
	}
}

// BenchmarkDecide uses keys that are adjacent in memory, as in a connection's buffer, but random
// in the view.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		var requests strings.Builder
		prefixes := make(map[apikey.Prefix]bool, n)
		changes := make([]view.KeyChange, 0, n)
		for len(changes) < n {
			k, full := functest.NewKey(b, nil)
			if prefixes[k.Prefix] {
				continue
			}
			k.Apps, prefixes[k.Prefix] = []string{"hello"}, true
			changes = append(changes, view.KeyChange{Prefix: k.Prefix, Key: &k})
			requests.WriteString(full)
		}
		v := viewOf().WithKeys(true, changes)
		all := requests.String()
		run := func(b *testing.B, step int) {
			b.Helper()
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				if !Decide(v, Request{Namespace: "shop-prod", App: "hello", Key: all[at:][:apikey.Length]}, now).Valid {
					b.Fatal("a key is not valid")
				}
				if at += step; at == len(all) {
					at = 0
				}
			}
		}
		b.Run(fmt.Sprintf("keys=%d/hot", n), func(b *testing.B) { run(b, 0) })
		b.Run(fmt.Sprintf("keys=%d/random", n), func(b *testing.B) { run(b, apikey.Length) })
	}
}
