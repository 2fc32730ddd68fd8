package rollup

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestExpiredCountersAreDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	write(t, s, "2024-01-31", "a-1", 0, one("aaaaaaaa"))
	write(t, s, "2024-02-01", "a-1", 0, one("aaaaaaaa"), one("bbbbbbbb"))
	for _, step := range []struct {
		now      string
		counters int
		days     [2]int // days in the histories of the two keys
	}{
		{"2024-02-04T00:00:00Z", 2, [2]int{2, 1}},
		{"2024-03-05T00:00:00Z", 2, [2]int{2, 1}}, // January 31 is 34 days ago
		{"2024-03-06T00:00:00Z", 1, [2]int{2, 1}},
		{"2024-03-07T00:00:00Z", 0, [2]int{2, 1}},
		{"2024-05-01T00:00:00Z", 0, [2]int{2, 1}}, // 91 days ago: stored
		{"2024-05-02T00:00:00Z", 0, [2]int{2, 1}}, // one day after the retention of January 31
		{"2024-05-03T00:00:00Z", 0, [2]int{0, 1}},
		{"2024-05-04T00:00:00Z", 0, [2]int{0, 0}},
	} {
		rollUp(t, service(s, at(t, step.now)))
		n := 0
		for _, found := range sources(t, s) {
			n += len(found)
		}
		h := rollups(t, s, "aaaaaaaa", "bbbbbbbb")
		if diff := cmp.Diff(step.days, [2]int{len(h[0]), len(h[1])}); diff != "" || n != step.counters {
			t.Errorf("%s: got %d counters, days (-want +got):\n%s", step.now, n, diff)
		}
	}
}

func TestLongBacklog(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, d := range []string{"2023-12-31", "2024-01-31", "2024-02-29", "2024-04-30"} {
		write(t, s, d, "a-1", 0, one("aaaaaaaa"))
		write(t, s, d, "b-1", 0, one("aaaaaaaa"))
	}
	rollUp(t, service(s, at(t, "2024-05-01T12:00:00Z")))
	two := usage.Totals{Allowed: 2}
	want := []usage.History{{{Day: day(t, "2024-01-31"), Totals: two}, {Day: day(t, "2024-02-29"), Totals: two}, {Day: day(t, "2024-04-30"), Totals: two}}}
	check.Equal(t, "rollups", want, rollups(t, s, "aaaaaaaa"))
	check.Equal(t, "sources", map[string][]usage.CounterSource{"2024-04-30": {"a-1", "b-1"}}, sources(t, s))
}

func TestClockAhead(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{50 * time.Hour, 30 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			today := usage.DayOf(time.Now())
			write(t, s, today.String(), "a-1", 0, one("aaaaaaaa"))
			check.OK(t, s.WriteCanary(t.Context(), store.CanaryCounters, store.Canary{Replica: "a", Run: "r", Seq: 1}))
			term := usage.QuotaPeriod{Prefix: "aaaaaaaa", Period: plan.Day, First: today}
			all := func(int64, int64) int64 { return 100 }
			check.OK(t, s.Lease(t.Context(), term, "a", false, all))
			svc := service(s, time.Now().Add(ahead))
			svc.store = s
			if r := rollUp(t, svc); r.Leases != 0 || r.Canaries != 0 || r.Deleted != 0 || r.Settled != 0 {
				t.Errorf("run: got %+v", r)
			}
			check.Equal(t, "sources", map[string][]usage.CounterSource{today.String(): {"a-1"}}, sources(t, s))
		})
	}
}

func TestStaleCanariesGo(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	check.OK(t, s.WriteCanary(t.Context(), store.CanaryCounters, store.Canary{Replica: "gone", Run: "r", Seq: 1}))
	now := time.Now()
	if r := rollUp(t, service(s, now.Add(23*time.Hour))); r.Canaries != 0 {
		t.Error("recent canary: got it deleted")
	}
	if r := rollUp(t, service(s, now.Add(25*time.Hour))); r.Canaries != 1 {
		t.Error("stale canary: got it stored")
	}
}

func TestRevokedKeysGo(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Environment(t, s, "shop", "prod")
	revoked := at(t, "2024-02-01T15:00:00Z")
	p := plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}}
	if _, err := s.CreatePlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for prefix, status := range map[apikey.Prefix]apikey.Status{"aaaaaaaa": apikey.Revoked, "bbbbbbbb": apikey.Active} {
		k := apikey.Key{
			Prefix: prefix, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-a",
			Status: status, ExpiresAt: revoked, CreatedAt: revoked, UpdatedAt: revoked,
		}
		if _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if r := rollUp(t, service(s, at(t, "2024-05-02T12:00:00Z"))); r.Keys != 0 { // 91 days later
		t.Errorf("deleted keys with stored usage: got %d", r.Keys)
	}
	if r := rollUp(t, service(s, at(t, "2024-05-03T00:00:00Z"))); r.Keys != 1 {
		t.Errorf("deleted keys: got %d, want the revoked one", r.Keys)
	}
	if _, err := s.Key(t.Context(), "key-bbbbbbbb"); err != nil {
		t.Errorf("expired key: got %v", err)
	}
}

func TestAuditRecordsGo(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if _, err := s.Record(t.Context(), audit.Change{Action: audit.CreateUser, Resource: "users/ada"}); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		records, _, err := s.Records(t.Context(), audit.Query{}, store.Page{Size: 10})
		check.OK(t, err)
		return len(records)
	}
	now := time.Now()
	rollUp(t, service(s, now.Add(audit.Retention-time.Hour)))
	if n := left(); n != 1 {
		t.Fatalf("records before a year: got %d", n)
	}
	late := service(s, now.Add(audit.Retention+time.Hour))
	check.OK(t, late.Once(t.Context()))
	if n := left(); n != 0 {
		t.Errorf("records after a year: got %d", n)
	}
	got := functest.Metrics(t, late.Collectors()...)
	want := map[string]float64{
		"sluice_rollup_settled_day_timestamp_seconds":  float64(usage.DayOf(late.now().Add(-usage.Closing)).Start().Unix()),
		"sluice_rollup_last_success_timestamp_seconds": float64(late.now().Unix()),
		"sluice_rollup_runs_total done":                1, "sluice_rollup_runs_total failed": 0,
	}
	check.Equal(t, "metrics", want, got)
}

func TestOldReceiptsAreDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	now, ref := time.Now().UTC().Truncate(time.Microsecond), app.Ref{Namespace: "shop-prod", Name: "hello"}
	check.OK(t, s.KeepReceipts(t.Context(), []hook.Receipt{{ID: store.ReceiptID(now), At: now, App: ref, Result: hook.Ponged, Count: 1, Last: now}}))
	if r := rollUp(t, service(s, now.Add(hook.ReceiptRetention-time.Hour))); r.Receipts != 0 {
		t.Errorf("receipts deleted before a week: got %d", r.Receipts)
	}
	if r := rollUp(t, service(s, now.Add(hook.ReceiptRetention+time.Hour))); r.Receipts != 1 {
		t.Errorf("receipts deleted after a week: got %d, want 1", r.Receipts)
	}
}

func TestReservationsEnd(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Environment(t, s, "shop", "prod")
	now := time.Now().UTC()
	a := app.App{Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "www.example.com", CreatedAt: now, GitSource: &app.GitSource{}}
	check.OK(t, s.CreateApp(t.Context(), a, store.InitialState{}))
	check.OK(t, storetest.DeleteApp(t.Context(), s, a.Ref()))
	if r := rollUp(t, service(s, now.Add(store.HostReserved-time.Hour))); r.Hosts != 0 {
		t.Errorf("reservations deleted before 30 days: got %d", r.Hosts)
	}
	if r := rollUp(t, service(s, now.Add(store.HostReserved+time.Hour))); r.Hosts != 1 {
		t.Errorf("reservations deleted after 30 days: got %d, want 1", r.Hosts)
	}
}

func TestDamagedDocuments(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	for _, day := range []string{"2024-02-01", "2024-02-02"} {
		write(t, s, day, "a-1", 0, one("aaaaaaaa"), one("bbbbbbbb"))
		write(t, s, day, "a-1", 1, one("cccccccc"))
	}
	storetest.Damage(t, project, "counters/2024-02-01.b-1.0", map[string]any{"day": "2024-02-01"})
	storetest.Damage(t, project, "counters/2024-02-02.compacted.1", map[string]any{"day": "2024-02-02"})
	storetest.Damage(t, project, "rollups/key-bbbbbbbb", map[string]any{"oldest": "2023-01-01"})
	var log bytes.Buffer
	svc := service(s, at(t, "2024-02-05T12:00:00Z"))
	svc.log = slog.New(slog.NewTextHandler(&log, nil))
	rollUp(t, svc)
	rollUp(t, svc)
	if n := strings.Count(log.String(), "damaged document skipped"); n != 3 {
		t.Errorf("logged damaged documents: got %d, want 3: %s", n, &log)
	}
	if settled, err := s.SettledDay(t.Context()); err != nil || settled.String() != "2024-02-02" {
		t.Errorf("settled day: got %s, %v", settled, err)
	}
	h := rollups(t, s, "aaaaaaaa", "bbbbbbbb", "cccccccc")
	check.Equal(t, "days of the histories", []int{2, 0, 2}, []int{len(h[0]), len(h[1]), len(h[2])})
	days, err := s.IncompleteDays(t.Context())
	if diff := cmp.Diff([]usage.Day{day(t, "2024-02-01"), day(t, "2024-02-02")}, days); diff != "" || err != nil {
		t.Errorf("incomplete days (-want +got), %v:\n%s", err, diff)
	}

	rollUp(t, service(s, at(t, "2024-05-30T12:00:00Z")))
	want := map[string][]usage.CounterSource{"2024-02-01": {"b-1"}, "2024-02-02": {"compacted"}}
	check.Equal(t, "counters after months", want, sources(t, s))
	if h := rollups(t, s, "aaaaaaaa", "cccccccc"); len(h[0])+len(h[1]) != 0 {
		t.Errorf("histories after months: got %v", h)
	}
}
