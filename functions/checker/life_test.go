package checker

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestLife: while the first batch comes any message is a sign of life, afterwards
// only what has been proven.
func TestLife(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := life{now: func() time.Time { return now }, zero: now}
	expect := func(what string, proof time.Duration, proven bool, want time.Duration) {
		t.Helper()
		if got := l.silence(proof, proven); got != want {
			t.Errorf("%s: silent for %v, want %v", what, got, want)
		}
	}
	now = now.Add(time.Hour)
	l.begin()
	expect("just begun", 0, false, 0)
	now = now.Add(30 * time.Second)
	expect("nothing heard", time.Hour, true, 30*time.Second)
	l.Heard()
	now = now.Add(2 * time.Minute)
	l.Heard()
	expect("a large batch is coming", time.Hour, true, 0)
	l.synced()
	now = now.Add(time.Minute)
	l.Heard()
	expect("synced, no canary yet", time.Hour, true, time.Minute)
	expect("synced, nothing proven", 0, false, time.Minute)
	expect("synced and proven", 10*time.Second, true, 10*time.Second)
	l.begin()
	expect("begun anew", time.Hour, true, 0)
}

// TestSendsAway: a stale replica ends the proxy's connection, at most once a second.
func TestSendsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		full := issue(t, f, nil)
		f.stall(true)
		r := newReplica(t, f)
		settle()
		time.Sleep(time.Millisecond) // so that the process's clock is past its zero
		ends := func() bool {
			res := r.ask("shop-prod/hello", "X-Api-Key", full)
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("status %d", res.StatusCode)
			}
			return res.Header.Get("Connection") == "close"
		}
		if !ends() || ends() || ends() {
			t.Error("the first denial ends the connection, those right after it do not")
		}
		time.Sleep(time.Second)
		if !ends() {
			t.Error("a second later one does again")
		}
		f.stall(false)
		settle()
		if res := r.ask("shop-prod/hello", "X-Api-Key", full); res.StatusCode != http.StatusOK || res.Header.Get("Connection") != "" {
			t.Errorf("fresh: %d %v", res.StatusCode, res.Header)
		}
		r.stop()
	})
}

func TestGarbagePercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: mostPercent, 2 << 20: mostPercent, 32 << 20: 100, 64 << 20: 50, 1 << 30: leastPercent} {
		if got := garbagePercent(live); got != want {
			t.Errorf("with %d bytes in use %d %%, want %d", live, got, want)
		}
	}
}
