package tests

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestKeyStates(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	call := s.Call("hello").Key(k)
	s.Opens("hello", k)
	call.Gets(http.StatusOK)
	s.Disable(k)
	s.Refuses("hello", k)
	call.Gets(http.StatusUnauthorized, "invalid_key")
	s.Enable(k)
	s.Opens("hello", k)
	call.Gets(http.StatusOK)
	s.Revoke(k)
	s.Refuses("hello", k)
	call.Gets(http.StatusUnauthorized, "invalid_key")
	if _, err := s.Client.EnableKey(t.Context(), s.Project, k.ID); err == nil {
		t.Error("enable a revoked key: got no error")
	}
}

func TestKeyExpires(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	p := s.Plan(wire.CreatePlan{})
	at := time.Now().Add(20 * time.Second).UTC().Truncate(time.Second)
	k := s.Key(p, func(r *wire.CreateKey) { e := at.Format(time.RFC3339); r.ExpiresAt = &e })
	s.Opens("hello", k)
	s.Call("hello").Key(k).Gets(http.StatusOK)
	s.Refuses("hello", k)
	if time.Now().Before(at) {
		t.Error("denied before the expiry")
	}
	s.Call("hello").Key(k).Gets(http.StatusUnauthorized, "invalid_key")
	got, err := s.Client.Key(t.Context(), s.Project, k.ID)
	if err != nil || got.Status != "expired" {
		t.Errorf("status: got %q, %v, want expired", got.Status, err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	old := s.AnyKey()
	s.Opens("hello", old)
	const grace = 20 * time.Second
	requested := time.Now() // the grace period begins later
	rotated := s.Rotate(old, grace)
	if rotated.ID != old.ID || rotated.Prefix != old.Prefix || rotated.Full == old.Full {
		t.Errorf("got key %s, want a new secret of %s", rotated.ID, old.ID)
	}
	s.Opens("hello", rotated)
	if a := s.Call("hello").Key(old).Send(); a.Status != http.StatusOK && time.Since(requested) < grace {
		t.Errorf("previous secret within the grace period: got %d, want 200", a.Status)
	}
	s.Refuses("hello", old)
	if since := time.Since(requested); since < grace {
		t.Errorf("previous secret: denied after %v, want at least %v", since, grace)
	}
	s.Call("hello").Key(old).Gets(http.StatusUnauthorized, "invalid_key")
	s.Call("hello").Key(rotated).Gets(http.StatusOK)
	last := s.Rotate(rotated, 0)
	s.Opens("hello", last)
	s.Call("hello").Key(last).Gets(http.StatusOK)
	s.Call("hello").Key(rotated).Gets(http.StatusUnauthorized, "invalid_key")
}

func TestGateStates(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	a := s.App("hello")
	if a.Gate.State != "ungated" || a.RequireAPIKey {
		t.Errorf("new app: got %+v, want ungated", a.Gate)
	}
	switched, err := s.Client.RequireAPIKey(t.Context(), s.Project, s.Env, "hello", true)
	if err != nil || switched.Gate.State != "pending" {
		t.Errorf("just turned on: got %+v, %v, want pending", switched.Gate, err)
	}
	s.WaitGate("hello", "engaged")
	s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	switched, err = s.Client.RequireAPIKey(t.Context(), s.Project, s.Env, "hello", false)
	if err != nil || switched.Gate.State != "releasing" {
		t.Errorf("just turned off: got %+v, %v, want releasing", switched.Gate, err)
	}
	s.WaitGate("hello", "ungated")
	s.Call("hello").Gets(http.StatusOK)
}

// TestPropagation measures the time until both replicas apply a change. It is not parallel: other
// tests would slow it down.
func TestPropagation(t *testing.T) {
	s := stacktest.New(t, world)
	replicas := stacktest.Replicas(t, world)
	took := map[string][]time.Duration{}
	for range 100 {
		k := s.AnyKey()
		until := func(what string, want int) {
			begin := time.Now()
			for _, r := range replicas {
				r.Until(s, "hello", k.Full, want, 30*time.Second)
			}
			took[what] = append(took[what], time.Since(begin))
		}
		until("create", http.StatusOK)
		s.Disable(k)
		until("disable", http.StatusUnauthorized)
		s.Enable(k)
		until("enable", http.StatusOK)
		if _, err := s.Client.UpdatePlan(context.WithoutCancel(t.Context()), s.Project, s.Env, k.Plan, wire.UpdatePlan{Rate: wire.Some(0.01), Burst: wire.Some(int64(1))}); err != nil {
			t.Fatal(err)
		}
		until("plan change", http.StatusTooManyRequests)
		s.Revoke(k)
		until("revoke", http.StatusUnauthorized)
	}
	for what, times := range took {
		slices.Sort(times)
		p99 := times[(len(times)*99+99)/100-1]
		t.Logf("%-11s reaches both replicas: median %v, p99 %v (n=%d)", what, times[len(times)/2].Round(time.Millisecond), p99.Round(time.Millisecond), len(times))
		if p99 > 2*time.Second {
			t.Errorf("%s: p99: got %v, want at most 2s", what, p99)
		}
	}
}

// TestUsageAtOnce repeats a usage report that took a second or more, because it may omit a
// checker.
func TestUsageAtOnce(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	read := func() wire.Usage {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; {
			begin := time.Now()
			u, err := s.Client.Usage(t.Context(), s.Project, k.ID, "", "")
			check.OK(t, err)
			if time.Since(begin) < time.Second || time.Now().After(limit) {
				return u
			}
		}
	}
	before := read()
	s.Call("hello").Key(k).Gets(http.StatusOK)
	if u := read(); u.Totals.Allowed != before.Totals.Allowed+1 || u.LastSeen == nil || u.AsOf.Before(before.AsOf) {
		t.Errorf("got %d allowed, last seen %v, as of %s; want one more than %d, as of %s or later", u.Totals.Allowed, u.LastSeen, u.AsOf, before.Totals.Allowed, before.AsOf)
	}
}

func TestBulkChangeIsInForce(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	p := s.Plan(wire.CreatePlan{})
	keys := []stacktest.Key{s.Key(p), s.Key(p), s.Key(p)}
	ids := make([]string, len(keys))
	for i, k := range keys {
		s.Opens("hello", k)
		ids[i] = k.ID
	}
	status := "disabled"
	r, err := s.Client.WithWait(30*time.Second).BulkKeys(t.Context(), s.Project, s.Env, ids, wire.KeyChange{Status: &status}, false)
	check.OK(t, err)
	if r.Changed != len(keys) || r.InForce == nil || !r.InForce.Everywhere {
		t.Fatalf("got %+v, want all keys changed and in force", r)
	}
	for _, k := range keys {
		s.Call("hello").Key(k).Gets(http.StatusUnauthorized, "invalid_key")
	}
}

func TestExportIsComplete(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Key(k).Gets(http.StatusOK)
	u, err := s.Client.Usage(t.Context(), s.Project, k.ID, "", "")
	check.OK(t, err)
	want := fmt.Sprintf("\r\n%s,%s,%s,,%s,%s,%d,0,0,false\r\n", k.ID, k.Name, k.Plan, u.From, u.To, u.Totals.Allowed)
	s.Until("the checkers have written their counts", func() bool {
		var csv strings.Builder
		check.OK(t, s.Client.ExportUsage(t.Context(), s.Project, s.Env, "", "", "", &csv))
		return strings.Contains(csv.String(), want)
	})
}
