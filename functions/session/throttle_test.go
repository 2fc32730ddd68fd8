package session

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/chaos/testclock"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestThrottlePerUserAndAddress(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	for range d.cfg.Burst {
		d.trySignIn("root", "wrong password").Refused(401, "invalid_credentials")
	}
	a := d.trySignIn("root", adminPassword)
	a.Refused(429, "rate_limited")
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || after < 1 || after > 30 {
		t.Errorf("Retry-After: got %q, want 1 to 30 seconds", a.Header.Get("Retry-After"))
	}
	d.signIn("ada", adaPassword) // another user from the same address
	signInFrom("root", adminPassword, "198.51.100.7", "").Send(t, d.handler).Is(http.StatusOK)
	d.clock.Advance(d.cfg.Every)
	d.signIn("root", adminPassword)
	d.signIn("root", adminPassword) // successes cost nothing
	d.trySignIn("root", "wrong password").Refused(401, "invalid_credentials")
	d.trySignIn("root", "wrong password").Refused(429, "rate_limited")
}

// Unknown clients do not count against the limits of known devices and addresses.
func TestUnknownClientsDoNotLockOutUser(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	cfg := d.cfg
	cfg.UserBurst, cfg.UserEvery, cfg.AddressBurst = 20, time.Hour, 15
	s := d.replica(cfg)
	h := s.Handler()
	const home, abroad = "192.0.2.1", "198.51.100.1"
	signIn := func(username, password, address, device string) wire.OpenedSession {
		t.Helper()
		return functest.Read[wire.OpenedSession](signInFrom(username, password, address, device).Send(t, h), http.StatusOK)
	}
	root, ada := signIn("root", adminPassword, home, ""), signIn("ada", adaPassword, home, "")
	for i := range cfg.UserBurst {
		signInFrom("root", "wrong password", fmt.Sprintf("203.0.113.%d", i), "").Send(t, h).Refused(401, "invalid_credentials")
	}
	signInFrom("root", adminPassword, abroad, "").Send(t, h).Refused(429, "rate_limited")
	signInFrom("root", adminPassword, abroad, ada.Device).Send(t, h).Refused(429, "rate_limited") // another user's device
	signInFrom("root", adminPassword, abroad, root.Token).Send(t, h).Refused(429, "rate_limited") // not a device token
	signIn("root", adminPassword, home, "")
	again := signIn("root", adminPassword, abroad+"1", root.Device)

	for range cfg.Burst {
		signInFrom("root", "wrong password", home, "").Send(t, h).Refused(401, "invalid_credentials")
	}
	for i := range 2 * cfg.AddressBurst {
		signInFrom(fmt.Sprintf("user%d", i), "wrong password", home, "").Send(t, h)
	}
	signInFrom("nobody", "wrong password", home, "").Send(t, h).Refused(429, "rate_limited")
	signInFrom("root", adminPassword, home, "").Send(t, h).Refused(429, "rate_limited")
	signIn("root", adminPassword, home, again.Device)

	// A device has one limit, regardless of its token.
	for range cfg.Burst {
		signInFrom("root", "wrong password", abroad, root.Device).Send(t, h).Refused(401, "invalid_credentials")
	}
	signInFrom("root", adminPassword, home, again.Device).Send(t, h).Refused(429, "rate_limited")

	// After a password change, the device is unknown.
	d.clock.Advance(cfg.Every)
	moved := setPassword(root.Token, "root", change(adminPassword, newPassword))
	moved.From = abroad
	moved.Send(t, h).Is(http.StatusNoContent)
	signInFrom("root", newPassword, "198.51.100.9", root.Device).Send(t, h).Refused(429, "rate_limited")
	signIn("root", newPassword, abroad, "")
}

func TestThrottleTellsNothingOfUnknownUsers(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	for range d.cfg.Burst {
		d.trySignIn("nobody", "wrong password").Refused(401, "invalid_credentials")
	}
	d.trySignIn("nobody", "wrong password").Refused(429, "rate_limited")
}

func TestThrottlePerAddress(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	cfg := d.cfg
	cfg.AddressBurst = 3
	h := d.replica(cfg).Handler()
	try := func(i int, address string) functest.Answer {
		return signInFrom(fmt.Sprintf("user%d", i), "wrong password", address, "").Send(t, h)
	}
	for i := range cfg.AddressBurst {
		try(i, "198.51.100.7").Refused(401, "invalid_credentials")
	}
	try(9, "198.51.100.7").Refused(429, "rate_limited")
	try(9, "198.51.100.8").Refused(401, "invalid_credentials")
	d.clock.Advance(cfg.AddressEvery)
	try(9, "198.51.100.7").Refused(401, "invalid_credentials")
}

func TestThrottleHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	cfg := d.cfg
	cfg.Burst, cfg.Every = 3, time.Hour
	h := d.replica(cfg).Handler()
	var mu sync.Mutex
	count := map[int]int{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a := functest.Call{Method: "POST", Path: "/api/v1/session", Body: credentials("root", "wrong password")}.Send(t, h)
			mu.Lock()
			defer mu.Unlock()
			count[a.Status]++
		})
	}
	wg.Wait()
	if count[http.StatusUnauthorized] != 3 || count[http.StatusTooManyRequests] != 17 {
		t.Errorf("responses by status: got %v, want 3 × 401 and 17 × 429", count)
	}
}

// guessHasher counts the guesses that a right password overtakes. They begin before the password is
// hashed, and still wait when it is verified.
type guessHasher struct {
	hasher

	mu        sync.Mutex
	begun     int
	waiting   map[int]bool // guesses, by number
	overtaken []int        // for each right password
}

func (h *guessHasher) Verify(ctx context.Context, lane identity.Lane, hash, password string) (bool, error) {
	h.mu.Lock()
	last := h.begun
	if password != adminPassword {
		h.begun++
		last = h.begun
		h.waiting[last] = true
	}
	h.mu.Unlock()
	right, err := h.hasher.Verify(ctx, lane, hash, password)
	h.mu.Lock()
	defer h.mu.Unlock()
	if password != adminPassword {
		delete(h.waiting, last)
		return right, err
	}
	overtaken := 0
	for n := range h.waiting {
		if n <= last {
			overtaken++
		}
	}
	h.overtaken = append(h.overtaken, overtaken)
	return right, err
}

func (h *guessHasher) waitingGuesses() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting)
}

// A known user signs in before the guesses that wait. Without lanes, only the guesses that are
// hashed at the same time can end later. Guesses give up after 2 s, so on a busy machine not every
// sign-in overtakes them. The test uses the real hasher.
func TestKnownUserSignsInDuringGuessing(t *testing.T) {
	t.Parallel()
	const guessers, waiting, least, mostSignIns = 60, 50, 20, 30
	d := newDesk(t)
	root := d.signIn("root", adminPassword)
	guesses := &guessHasher{hasher: d.service.hasher, waiting: map[int]bool{}}
	d.service.hasher = guesses

	var over atomic.Bool
	var addresses atomic.Int64
	var wg sync.WaitGroup
	for range guessers {
		wg.Go(func() {
			for !over.Load() {
				n := addresses.Add(1)
				a := signInFrom("root", "wrong password", fmt.Sprintf("10.%d.%d.1", n>>8, n&0xff), "").Send(t, d.handler)
				if a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
					t.Errorf("guess: got %d, want 401 or 429", a.Status)
				}
			}
		})
	}
	stop := func() {
		over.Store(true)
		wg.Wait()
	}
	defer stop()
	most := func() int { return slices.Max(append(guesses.overtaken, 0)) }
	signIns := 0
	for ; signIns < mostSignIns && most() < least; signIns++ {
		check.Eventually(t, "have guesses that wait", time.Minute, func() error {
			if n := guesses.waitingGuesses(); n < waiting {
				return fmt.Errorf("got %d, want %d", n, waiting)
			}
			return nil
		})
		signInFrom("root", adminPassword, "192.0.2.1", root.Device).Send(t, d.handler).Is(http.StatusOK)
	}
	stop()
	if len(guesses.overtaken) != signIns || most() < least {
		t.Errorf("guesses that %d sign-ins overtook: got %v, want at least %d once", signIns, guesses.overtaken, least)
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
		{0, true, 0},
		{0, false, time.Second},
		{time.Hour, false, 0},
		{0, false, 0},
		{0, false, time.Second},
	}
	for i, s := range steps {
		now += s.after
		if s.back {
			l.undo(5)
		}
		if got := l.take(5, now); got != s.want {
			t.Fatalf("step %d: got wait %s, want %s", i, got, s.want)
		}
	}
	if got := l.take(6, now); got != 0 {
		t.Errorf("other slot: got wait %s", got)
	}
}

func TestChargeRefusedByOneLimitCostsNoneOfTheOther(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cfg := testConfig()
	cfg.Burst, cfg.UserBurst, cfg.AddressBurst = 1, 1, 3
	th := newThrottle(cfg, now)
	charge := func(username, address string, want identity.Lane) {
		t.Helper()
		lane, _, err := th.charge(now, attempt{username: username, address: address})
		if err != nil || lane != want {
			t.Errorf("%s from %s: got lane %d, %v; want %d", username, address, lane, err, want)
		}
	}
	charge("ada", "192.0.2.1", identity.Unknown)
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} { // by both, and by the user's
		if _, _, err := th.charge(now, attempt{username: "ada", address: address}); !problem.Is(err, problem.RateLimited) {
			t.Fatalf("got %v, want rate_limited", err)
		}
	}
	charge("bob", "192.0.2.1", identity.Failing)
	charge("vic", "192.0.2.1", identity.Failing)
	charge("eve", "192.0.2.2", identity.Unknown) // rejected attempts cost nothing
}

func TestKnownAddressesAndDevices(t *testing.T) {
	t.Parallel()
	now := time.Now()
	th := newThrottle(testConfig(), now)
	th.remember(now, attempt{username: "ada", address: "192.0.2.1"})
	for _, tt := range []struct {
		who  attempt
		at   time.Time
		want identity.Lane
	}{
		{attempt{username: "ada", address: "192.0.2.1"}, now, identity.Known},
		{attempt{username: "ada", address: "192.0.2.2"}, now, identity.Unknown},
		{attempt{username: "bob", address: "192.0.2.1"}, now, identity.Unknown},
		{attempt{username: "ada", address: "192.0.2.1"}, now.Add(addressMemory), identity.Unknown},
		{attempt{username: "ada", address: "192.0.2.3", proof: "DEVICE"}, now, identity.Known},
	} {
		lane, refund, err := th.charge(tt.at, tt.who)
		if err != nil || lane != tt.want {
			t.Errorf("%+v: got lane %d, %v; want %d", tt.who, lane, err, tt.want)
			continue
		}
		refund()
	}
}

func TestPlacesOfOneGroup(t *testing.T) {
	t.Parallel()
	now := time.Now()
	th := newThrottle(testConfig(), now)
	var met []attempt
	for n := 0; len(met) <= addressesPerGroup; n++ {
		f := attempt{username: "ada", address: strconv.Itoa(n)}
		if len(met) == 0 || th.hash(f.username, f.address)%addressGroups == th.hash("ada", met[0].address)%addressGroups {
			met = append(met, f)
		}
	}
	seen := func(n int) {
		now = now.Add(time.Second)
		th.remember(now, met[n])
	}
	for n := range addressesPerGroup {
		seen(n)
	}
	seen(0)
	seen(addressesPerGroup)
	for n, f := range met {
		if got := th.knows(now, f); got != (n != 1) {
			t.Errorf("place %d of %d: got known %t", n, len(met), got)
		}
	}
}

func TestThrottleWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	th := newThrottle(testConfig(), now)
	later, ada := now.Add(time.Second), attempt{username: "ada", address: "192.0.2.1"}
	if _, _, err := th.charge(later, ada); err != nil {
		t.Fatal(err)
	}
	if _, _, err := th.charge(setBack(later), ada); err != nil {
		t.Errorf("after the clock was set back by an hour: %v", err)
	}
}

// setBack sets only the wall clock back by an hour.
func setBack(t time.Time) time.Time { return testclock.Shift(t, -3600) }
