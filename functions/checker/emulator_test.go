package checker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/functions/checker/internal/spent"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func start(t *testing.T, project, replica string) (c *checker.Checker, stop func()) {
	t.Helper()
	return startIn(t, project, replica, "")
}

func startIn(t *testing.T, project, replica, pod string) (c *checker.Checker, stop func()) {
	t.Helper()
	cfg := checker.Config{Replica: replica, SpentDir: pod, TLSDir: "unused", MaxStaleness: 5 * time.Second, CanaryInterval: time.Second, FlushInterval: 100 * time.Millisecond, MaxUnshared: 3 * time.Second}
	c, err := checker.New(cfg, store.NewFeed(project), storetest.Open(t, project), functest.Quiet())
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run %s: %v", replica, err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

func sendCheck(c *checker.Checker, key string) int {
	req := httptest.NewRequest(http.MethodGet, "/check/shop-prod/hello", nil)
	req.Header.Set("X-Forwarded-Method", "GET")
	req.Header.Set("X-Api-Key", key)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	return w.Code
}

func eventually(t *testing.T, c *checker.Checker, key string, want int) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	got := 0
	for time.Since(begin) < 20*time.Second {
		if got = sendCheck(c, key); got == want {
			return time.Since(begin)
		}
		<-tick.C
	}
	t.Fatalf("status: got %d after %v, want %d", got, time.Since(begin), want)
	return 0
}

func issue(t *testing.T, s *store.Store, limits plan.Limits) (apikey.Key, string) {
	t.Helper()
	k, full := functest.NewKey(t, func(k *apikey.Key) {
		k.Project, k.Environment, k.Name, k.Plan = "shop", "prod", "Test", plan.ID("plan-"+string(k.Prefix))
		k.CreatedAt, k.UpdatedAt = time.Now(), time.Now()
	})
	p := plan.Plan{ID: k.Plan, Namespace: "shop-prod", Name: string(k.Prefix), Limits: limits}
	storetest.Make(t, func() error { _, err := s.CreatePlan(t.Context(), p); return err })
	storetest.Make(t, func() error { _, err := s.IssueKey(t.Context(), k, apikey.Request{}, 0); return err })
	return k, full
}

func TestReplicasOnTheRealStore(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	a, _ := start(t, project, "checker-a")
	b, stopB := start(t, project, "checker-b")
	k, full := issue(t, s, plan.Limits{Rate: 100_000, Burst: 100_000})
	both := func(want int) {
		t.Helper()
		eventually(t, a, full, want)
		eventually(t, b, full, want)
	}
	both(http.StatusOK)
	set := func(status apikey.Status) {
		t.Helper()
		if _, _, err := s.ReissueKey(t.Context(), k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { k.Status = status; return k, nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(apikey.Disabled)
	both(http.StatusUnauthorized)
	set(apikey.Active)
	both(http.StatusOK)

	_, limited := issue(t, s, plan.Limits{Rate: 1000, Burst: 1000, Quota: 100, Period: plan.Month})
	eventually(t, a, limited, http.StatusOK)
	admitted := 1
	for range 300 {
		if sendCheck(a, limited) == http.StatusOK {
			admitted++
		}
	}
	if admitted > 100 {
		t.Errorf("requests allowed by one replica: got %d, want at most 100", admitted)
	}
	eventually(t, b, limited, http.StatusTooManyRequests)
	stopB()
	c, _ := start(t, project, "checker-c")
	eventually(t, c, limited, http.StatusTooManyRequests)
	eventually(t, c, full, http.StatusOK)

	set(apikey.Revoked)
	eventually(t, a, full, http.StatusUnauthorized)
	eventually(t, c, full, http.StatusUnauthorized)
}

func TestManyKeys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	var fulls []string
	for range 20 {
		_, full := issue(t, s, plan.Limits{Rate: 1, Burst: 5})
		fulls = append(fulls, full)
	}
	c, _ := start(t, project, "checker-a")
	eventually(t, c, fulls[0], http.StatusOK)
	for i, full := range fulls {
		if got := sendCheck(c, full); got != http.StatusOK {
			t.Errorf("key %d: got %d, want 200", i, got)
		}
	}
	if got := sendCheck(c, fmt.Sprintf("%s!", fulls[0])); got != http.StatusUnauthorized {
		t.Errorf("invalid key: got %d, want 401", got)
	}
}

// TestRemaining tests that the displayed remaining quota is never too small.
func TestRemaining(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	a, _ := start(t, project, "checker-a")
	b, _ := start(t, project, "checker-b")
	_, full := issue(t, s, plan.Limits{Rate: 1000, Burst: 1000, Quota: 1000, Period: plan.Month})
	eventually(t, a, full, http.StatusOK)
	eventually(t, b, full, http.StatusOK)
	for range 100 {
		sendCheck(a, full)
	}
	const left = 1000 - 102
	if got := remaining(t, a, full); got < left || got > left+1 {
		t.Errorf("rest at the replica that allowed the requests: got %d, want %d", got, left)
	}
	tick := time.NewTicker(time.Second) // the rate of GET /api/v1/key
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		both := [2]int64{remaining(t, a, full), remaining(t, b, full)}
		if both == [2]int64{left, left} {
			return
		}
		if min(both[0], both[1]) < left || time.Since(begin) > 20*time.Second {
			t.Fatalf("rest after %v: got %v, want %d", time.Since(begin), both, left)
		}
	}
}

func remaining(t *testing.T, c *checker.Checker, key string) int64 {
	t.Helper()
	a := functest.Call{Method: http.MethodGet, Path: api.GetOwnKey.Path, Header: http.Header{"X-Api-Key": {key}}}.Send(t, c)
	k := functest.Read[wire.OwnKey](a, http.StatusOK)
	if k.Remaining == nil || k.Environment != "prod" {
		t.Fatalf("key info without a rest: %s", a.Body)
	}
	return *k.Remaining
}

func TestCrashedProcess(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storetest.Environment(t, s, "shop", "prod")
	k, full := issue(t, s, plan.Limits{Rate: 1000, Burst: 1000, Quota: 100, Period: plan.Month, Hard: true})
	term := usage.QuotaPeriodAt(k.Prefix, plan.Month, time.Now())
	held := func(process string) (own, others int64) {
		t.Helper()
		err := s.Lease(t.Context(), term, process, false, func(o, all int64) int64 {
			own, others = o, all
			return o
		})
		check.OK(t, err)
		return own, others
	}
	check.OK(t, s.Lease(t.Context(), term, "CRASHED", false, func(int64, int64) int64 { return 100 }))
	pod := t.TempDir()
	dir, err := spent.Open(pod)
	check.OK(t, err)
	crashed, err := dir.Create("CRASHED")
	check.OK(t, err)
	if _, ok := crashed.Add(term, 30); !ok {
		t.Fatal("the record file is full")
	}
	check.OK(t, crashed.Close())
	c, stop := startIn(t, project, "checker-a", pod)
	eventually(t, c, full, http.StatusOK)
	allowed := int64(1)
	for range 200 {
		if sendCheck(c, full) == http.StatusOK {
			allowed++
		}
	}
	stop()
	if ended, others := held("ended"); ended != 30+allowed || others != 0 || ended > 100 {
		t.Errorf("spent and leased: got %d and %d, want %d and 0", ended, others, 30+allowed)
	}
	if files, err := os.ReadDir(pod); len(files) != 0 || err != nil {
		t.Errorf("files: got %v, %v, want none", files, err)
	}
}
