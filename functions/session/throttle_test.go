package session

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/tests/chaos/stepped"
)

func TestThrottlePerUser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.addUser("ada", adaPassword)
	for range d.cfg.UserBurst {
		d.trySignIn("root", "wrong password").want(t, 401, "invalid_credentials")
	}
	a := d.trySignIn("root", adminPassword)
	a.want(t, 429, "rate_limited")
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 10 {
		t.Errorf("Retry-After is %q, want 1 to 10 seconds", a.header.Get("Retry-After"))
	}
	d.signIn("ada", adaPassword) // somebody else, from the same address
	do(d.handler, call{
		method: "POST", path: "/api/v1/session", body: credentials("root", adminPassword), from: "198.51.100.7",
	}).want(t, 429, "rate_limited") // the user, from anywhere

	d.advance(d.cfg.UserEvery)
	d.signIn("root", adminPassword)
	d.signIn("root", adminPassword) // what is right costs nothing
	d.trySignIn("root", "wrong password").want(t, 401, "invalid_credentials")
	d.trySignIn("root", "wrong password").want(t, 429, "rate_limited")
}

func TestThrottleTellsNothingOfUnknownUsers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range d.cfg.UserBurst {
		d.trySignIn("nobody", "wrong password").want(t, 401, "invalid_credentials")
	}
	d.trySignIn("nobody", "wrong password").want(t, 429, "rate_limited")
}

func TestThrottlePerAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	cfg := d.cfg
	cfg.AddressBurst, cfg.TrustProxy = 3, trace.TrustNobody
	h := d.replica(cfg).Handler()
	try := func(i int, from string) answer {
		return do(h, call{method: "POST", path: "/api/v1/session", body: credentials(fmt.Sprintf("user%d", i), "wrong password"), from: from})
	}
	for i := range cfg.AddressBurst {
		try(i, "198.51.100.7").want(t, 401, "invalid_credentials")
	}
	try(9, "198.51.100.7").want(t, 429, "rate_limited")
	try(9, "198.51.100.8").want(t, 401, "invalid_credentials")
	d.advance(cfg.AddressEvery)
	try(9, "198.51.100.7").want(t, 401, "invalid_credentials")
}

// Attempts that come together must not slip through together.
func TestThrottleHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	cfg := d.cfg
	cfg.UserBurst, cfg.UserEvery = 3, time.Hour
	h := d.replica(cfg).Handler()
	var mu sync.Mutex
	count := map[int]int{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a := do(h, call{method: "POST", path: "/api/v1/session", body: credentials("root", "wrong password")})
			mu.Lock()
			defer mu.Unlock()
			count[a.status]++
		})
	}
	wg.Wait()
	if count[http.StatusUnauthorized] != 3 || count[http.StatusTooManyRequests] != 17 {
		t.Errorf("answers by status: %v, want 3 × 401 and 17 × 429", count)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	now := time.Minute
	l := newLimits(2, time.Second, slots)
	steps := []struct {
		after time.Duration
		back  bool
		want  time.Duration
	}{
		{0, false, 0},
		{0, false, 0},
		{0, false, time.Second},
		{400 * time.Millisecond, false, 600 * time.Millisecond},
		{600 * time.Millisecond, false, 0},
		{0, false, time.Second},
		{0, true, 0}, // one given back is one more
		{0, false, time.Second},
		{time.Hour, false, 0}, // it never holds more than its burst
		{0, false, 0},
		{0, false, time.Second},
	}
	for i, s := range steps {
		now += s.after
		if s.back {
			l.giveBack(5)
		}
		if got := l.take(5, now); got != s.want {
			t.Fatalf("step %d: wait is %s, want %s", i, got, s.want)
		}
	}
	if got := l.take(6, now); got != 0 {
		t.Errorf("another slot waits %s", got)
	}
}

func TestChargeRefusedByOneLimitCostsNoneOfTheOther(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cfg := testConfig()
	cfg.UserBurst, cfg.AddressBurst = 1, 2
	th := newThrottle(cfg, now)
	if _, err := th.charge(now, "ada", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := th.charge(now, "ada", "192.0.2.1"); !problem.Is(err, problem.RateLimited) {
			t.Fatalf("error is %v, want rate_limited", err)
		}
	}
	if _, err := th.charge(now, "bob", "192.0.2.1"); err != nil {
		t.Errorf("refused attempts were charged to the address: %v", err)
	}
}

// TestThrottleWhenTheClockIsSetBack: who has signed in before is not kept waiting
// until that time comes again.
func TestThrottleWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	now := time.Now()
	th := newThrottle(cfg, now)
	later := now.Add(time.Second)
	if _, err := th.charge(later, "ada", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := th.charge(setBack(later), "ada", "192.0.2.1"); err != nil {
		t.Errorf("after the clock was set back by an hour: %v", err)
	}
}

// setBack is the same moment by the monotonic clock, an hour earlier by the wall
// clock.
func setBack(t time.Time) time.Time { return stepped.Shift(t, -3600) }
