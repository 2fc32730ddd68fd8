package usage

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

const (
	prod          = "/api/v1/projects/shop/environments/prod"
	planForecasts = prod + "/plans/plan-a/forecast"
	gateForecasts = prod + "/apps/hello/gate/forecast"
)

func (h *harness) post(user, path, body string) functest.Answer {
	h.t.Helper()
	return functest.Call{Method: http.MethodPost, Path: path, User: user, Body: body}.Send(h.t, h.service.Handler())
}

func (h *harness) planForecast(body string) wire.PlanForecast {
	h.t.Helper()
	return functest.Read[wire.PlanForecast](h.post("ada", planForecasts, body), http.StatusOK)
}

func (h *harness) gateForecast() wire.GateForecast {
	h.t.Helper()
	return functest.Read[wire.GateForecast](h.as("ada", gateForecasts), http.StatusOK)
}

func TestPlanForecast(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{ID: "plan-b", Namespace: "shop-prod", Name: "B", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: h.now, UpdatedAt: h.now})
	check.OK(t, err)
	h.issue("bbbbbbbb", func(k *apikey.Key) { k.Name = "Old" })
	h.issue("cccccccc", func(k *apikey.Key) { k.ExpiresAt = h.now.Add(-time.Hour) })
	h.issue("dddddddd", func(k *apikey.Key) { k.Status = apikey.Revoked })
	h.issue("eeeeeeee", func(k *apikey.Key) { k.Plan = "plan-b" })
	h.issue("ffffffff", func(k *apikey.Key) { k.Status = apikey.Disabled })
	for _, p := range []apikey.Prefix{"cccccccc", "dddddddd", "eeeeeeee", "ffffffff"} {
		h.rollUpKey(p, "2024-02-01", usage.Totals{Allowed: 1000})
	}
	h.rollUp("2023-12-31", usage.Totals{Allowed: 60, RateDenied: 500})
	h.rollUp("2024-02-29", usage.Totals{Allowed: 40})
	h.flush("2024-03-01", "a-1", usage.Totals{Allowed: 20})
	h.flush("2024-03-02", "a-1", usage.Totals{Allowed: 30, QuotaDenied: 70})
	h.rollUpKey("bbbbbbbb", "2024-01-15", usage.Totals{Allowed: 51})
	storetest.Damage(t, h.project, "counters/2024-03-01.run-2.0", map[string]any{"day": "2024-03-01"})
	check.OK(t, h.store.MarkIncomplete(t.Context(), h.day("2023-12-01"), h.day("2023-11-01"))) // no longer stored

	quota, period := int64(50), "month"
	want := wire.PlanForecast{
		Quota: &quota, QuotaPeriod: &period, From: "2023-12-02", Keys: 2, Exceeding: 2, Rate: "unknown", Incomplete: []string{"2024-03-01"}, ReadTime: wire.ReadTime{AsOf: h.now},
		WouldExceed: []wire.QuotaExcess{
			{NamedKey: wire.NamedKey{KeyID: "key-aaaaaaaa", Prefix: key}, PeriodStart: "2023-12-01", Used: 60, Quota: 50, Periods: 1},
			{NamedKey: wire.NamedKey{KeyID: "key-bbbbbbbb", Prefix: "bbbbbbbb", Name: "Old"}, PeriodStart: "2024-01-01", Used: 51, Quota: 50, Periods: 1},
		},
	}
	check.Equal(t, "month", want, h.planForecast(`{"quota":50,"quota_period":"month"}`))

	period = "week" // from 2024-02-26
	want.WouldExceed[0].PeriodStart, want.WouldExceed[0].Used, want.WouldExceed[0].Periods = "2024-02-26", 90, 2
	want.WouldExceed[1].PeriodStart = "2024-01-15"
	check.Equal(t, "week", want, h.planForecast(`{"quota":50,"quota_period":"week","quota_mode":"hard","rate":0.5,"burst":7}`))

	want.Quota, want.QuotaPeriod, want.Exceeding, want.WouldExceed = nil, nil, 0, []wire.QuotaExcess{}
	check.Equal(t, "the plan's own limits, without a quota", want, h.planForecast(`{}`))
	stored, err := h.store.Plan(t.Context(), "shop-prod", "plan-a")
	check.OK(t, err)
	check.Equal(t, "limits after forecasts", plan.Limits{Rate: 1, Burst: 1}, stored.Limits)
}

func TestMostExceeding(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC)
	keys := usedKeys{at: at, each: func(yield func(apikey.Key, usage.History) bool) {
		for i := range 2 * maxExceeding {
			h := usage.History{{Day: usage.DayOf(at), Totals: usage.Totals{Allowed: uint64(10 + i/2)}}}
			if !yield(apikey.Key{Prefix: prefix(i), Plan: "plan-a", Status: apikey.Active}, h) {
				return
			}
		}
	}}
	got := planForecast(plan.Plan{ID: "plan-a", Limits: plan.Limits{Quota: 9, Period: plan.Day}}, keys, at)
	if got.Keys != 2*maxExceeding || got.Exceeding != 2*maxExceeding || len(got.WouldExceed) != maxExceeding {
		t.Errorf("got %d keys, %d exceeding, %d listed, want %d, %[4]d and %d", got.Keys, got.Exceeding, len(got.WouldExceed), 2*maxExceeding, maxExceeding)
	}
	for i, want := range []apikey.Prefix{prefix(198), prefix(199), prefix(196)} {
		if got := got.WouldExceed[i].Prefix; got != string(want) {
			t.Errorf("listed key %d: got %s, want %s", i, got, want)
		}
	}
}

func TestGateForecast(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	for _, name := range []string{"hello", "other"} {
		storetest.App(t, h.store.Store, app.App{Project: "shop", Environment: "prod", Name: name})
	}
	of := func(apps ...string) func(*apikey.Key) { return func(k *apikey.Key) { k.Apps = apps } }
	h.issue("bbbbbbbb", of("hello", "other"))
	h.issue("cccccccc", of("other"))
	h.issue("dddddddd", func(k *apikey.Key) { k.Status, k.ExpiresAt = apikey.Disabled, h.now })
	h.issue("eeeeeeee", func(k *apikey.Key) { k.ExpiresAt = h.now })
	h.issue("ffffffff", func(k *apikey.Key) { k.Status = apikey.Revoked })
	h.issue("gggggggg", nil)
	h.rollUpKey("gggggggg", "2023-12-01", usage.Totals{Allowed: 1}) // no longer stored
	h.rollUp("2024-02-01", usage.Totals{RateDenied: 1})
	a := h.as("ada", gateForecasts)
	const want = `{"keys":{"usable":3,"disabled":1,"expired":1,"never_seen":2},"observed":{"state":"none","message":"` + notObserved + `"},"as_of":"2024-03-02T12:00:00Z","age_seconds":0}` + "\n"
	check.Equal(t, "forecast", want, string(a.Is(http.StatusOK).Body))
}

func TestForecastsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	storetest.App(t, h.store.Store, app.App{Project: "shop", Environment: "prod", Name: "hello"})
	for body, code := range map[string]problem.Code{
		`{`:                                 problem.MalformedJSON,
		`[]`:                                problem.WrongType,
		`{"name":"B"}`:                      problem.UnknownField,
		`{"quota":"5"}`:                     problem.WrongType,
		`{"rate":null}`:                     problem.MissingField,
		`{"burst":null}`:                    problem.MissingField,
		`{"rate":0}`:                        problem.InvalidRate,
		`{"burst":1000001}`:                 problem.InvalidBurst,
		`{"quota":5}`:                       problem.InvalidQuota,
		`{"quota_period":"day"}`:            problem.InvalidQuota,
		`{"quota":0,"quota_period":"day"}`:  problem.InvalidQuota,
		`{"quota":5,"quota_period":"year"}`: problem.InvalidQuota,
		`{"quota_mode":"hard"}`:             problem.InvalidQuota,
	} {
		if got := h.post("ada", planForecasts, body).Code(); got != code {
			t.Errorf("%s: got %s, want %s", body, got, code)
		}
	}
	for _, path := range []string{prod + "/plans/plan-b/forecast", prod + "/plans/a/forecast", "/api/v1/projects/shop/environments/test/plans/plan-a/forecast"} {
		h.post("ada", path, `{}`).Refused(http.StatusNotFound, problem.NotFound)
	}
	for _, path := range []string{prod + "/apps/other/gate/forecast", prod + "/apps/-/gate/forecast"} {
		h.as("ada", path).Refused(http.StatusNotFound, problem.NotFound)
	}
	h.as("ada", gateForecasts+"?app=hello").Refused(http.StatusBadRequest, problem.UnknownParameter)
	for user, want := range map[string]int{"ada": 200, "olga": 200, "vera": 403, "bob": 403, "": 401} {
		h.post(user, planForecasts, `{}`).Is(want)
		h.as(user, gateForecasts).Is(want)
	}
	if got := h.store.keys.Load(); got != 8 {
		t.Errorf("documents of keys read by four accepted forecasts of one key: got %d, want 8", got)
	}
}

// TestForecastReads counts the document reads of forecasts: two for each key, none for revoked keys
// and keys of other plans.
func TestForecastReads(t *testing.T) {
	t.Parallel()
	h := start(t, 2)
	storetest.App(t, h.store.Store, app.App{Project: "shop", Environment: "prod", Name: "hello"})
	storetest.CopyKey(t, h.project, "key-"+key, 249)
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{ID: "plan-b", Namespace: "shop-prod", Name: "B", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: h.now, UpdatedAt: h.now})
	check.OK(t, err)
	h.issue("bbbbbbbb", func(k *apikey.Key) { k.Plan = "plan-b" })
	h.issue("cccccccc", func(k *apikey.Key) { k.Status = apikey.Revoked })
	h.flush("2024-03-02", "a-1", usage.Totals{Allowed: 3})
	type reads struct{ Keys, Plans, Counters int64 }
	step := func(what string, want reads, call func()) {
		t.Helper()
		h.store.keys.Store(0)
		h.store.plans.Store(0)
		h.store.counters.Store(0)
		call()
		if diff := cmp.Diff(want, reads{h.store.keys.Load(), h.store.plans.Load(), h.store.counters.Load()}); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", what, diff)
		}
	}
	forecast := func(quota string, exceeding int) func() {
		return func() {
			t.Helper()
			if got := h.planForecast(`{"quota":` + quota + `,"quota_period":"day"}`); got.Keys != 250 || got.Exceeding != exceeding {
				t.Errorf("quota %s: got %d keys, %d exceeding, want 250 and %d", quota, got.Keys, got.Exceeding, exceeding)
			}
		}
	}
	gate := func() {
		t.Helper()
		if got := h.gateForecast().Keys; got.Usable != 251 {
			t.Errorf("usable keys: got %d, want 251", got.Usable)
		}
	}
	step("plan", reads{500, 1, 1}, forecast("2", 1))
	step("plan again, with another quota", reads{0, 1, 0}, forecast("3", 0))
	step("gate", reads{502, 0, 0}, gate)
	step("gate again", reads{}, gate)
	h.now = h.now.Add(3999 * time.Millisecond) // 2 s, and 1 s for each hundred keys
	step("plan within the life of the gate's read", reads{0, 1, 0}, forecast("2", 1))
	if age := h.gateForecast().Age; age != 3 {
		t.Errorf("age of the gate's read: got %d s, want 3", age)
	}
	h.now = h.now.Add(time.Millisecond)
	step("gate after that", reads{502, 0, 1}, gate)
	h.now = h.now.Add(time.Minute)
	h.environmentUsage("shop/environments/prod/usage")
	step("plan after a report of all keys", reads{0, 1, 0}, forecast("2", 1))
	step("gate after a report of all keys", reads{}, gate)
	h.now = time.Date(2024, 3, 3, 0, 0, 0, 0, time.UTC)
	step("plan on the next day", reads{500, 1, 1}, forecast("2", 1))
}

func TestOneForecastAtATime(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	storetest.App(t, h.store.Store, app.App{Project: "shop", Environment: "prod", Name: "hello"})
	_, err := h.store.CreatePlan(t.Context(), plan.Plan{ID: "plan-a", Namespace: "other-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: h.now, UpdatedAt: h.now})
	check.OK(t, err)
	var holds atomic.Bool
	reading, release := make(chan struct{}), make(chan struct{})
	h.store.listing = func() {
		if holds.CompareAndSwap(true, false) {
			close(reading)
			<-release
		}
	}
	holds.Store(true)
	first := make(chan int)
	go func() { first <- h.post("ada", planForecasts, `{}`).Status }()
	<-reading
	for what, a := range map[string]functest.Answer{"plan": h.post("ada", planForecasts, `{}`), "gate": h.as("ada", gateForecasts)} {
		if a.Refused(http.StatusTooManyRequests, problem.RateLimited); a.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After: got %q, want 1", what, a.Header.Get("Retry-After"))
		}
	}
	other := make(chan int)
	go func() { other <- h.post("ada", strings.Replace(planForecasts, "shop", "other", 1), `{}`).Status }() // waits
	close(release)
	for _, forecast := range []chan int{first, other} {
		if got := <-forecast; got != http.StatusOK {
			t.Errorf("forecast: got %d, want 200", got)
		}
	}
	h.as("ada", gateForecasts).Is(http.StatusOK)
}

func TestForecastsDoNotDelayReports(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	turns := h.service.used.turns
	for range cap(turns) {
		turns <- struct{}{}
	}
	report := make(chan int, 1)
	go func() { report <- h.get(prod + "/usage").Status }()
	select {
	case got := <-report:
		if got != http.StatusOK {
			t.Errorf("report during forecasts: got %d, want 200", got)
		}
	case <-time.After(time.Minute):
		t.Error("the report waits for forecasts")
	}
}

func TestForecastOfTooManyKeys(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.store.endless = true
	h.post("ada", planForecasts, `{}`).Refused(http.StatusConflict, problem.TooManyKeys)
	h.store.endless = false
	h.post("ada", planForecasts, `{}`).Is(http.StatusOK)
}

// collectGarbageOften keeps the garbage small, which else depends on the speed of the machine.
func collectGarbageOften(t *testing.T) {
	t.Helper()
	before := debug.SetGCPercent(10)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// TestForecastMemory is not parallel, because it measures the memory of the process.
func TestForecastMemory(t *testing.T) {
	const keys, limit = 10_000, 64 << 20
	h := start(t, 0)
	today := h.day("2024-03-02")
	check.OK(t, h.store.UpdateRollups(t.Context(), []apikey.Prefix{key}, func(apikey.Prefix, usage.History) (busy usage.History) {
		for day := usage.EarliestKept(today); day <= today; day++ {
			busy = busy.Merge(day, usage.Totals{Allowed: 1e9, RateDenied: 1e9, QuotaDenied: 1e9})
		}
		return busy
	}))
	storetest.CopyKey(t, h.project, "key-"+key, keys-1)
	storetest.CopyRollup(t, h.project, "key-"+key, keys-1)
	collectGarbageOften(t)
	runtime.GC()
	before, done, most := heap(), make(chan struct{}), make(chan int64)
	go func() {
		peak, tick := before, time.NewTicker(5*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, heap())
			case <-done:
				most <- max(peak, heap())
				return
			}
		}
	}()
	got := h.planForecast(`{"quota":1,"quota_period":"day"}`)
	close(done)
	if peak := <-most - before; got.Exceeding != keys || got.WouldExceed[0].Periods != usage.RetentionDays || peak > limit {
		t.Errorf("got %d exceeding keys and %d MiB, want %d keys and at most %d MiB", got.Exceeding, peak>>20, keys, limit>>20)
	} else {
		t.Logf("%d MiB for %d keys", peak>>20, keys)
	}
}
