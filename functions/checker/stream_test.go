package checker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestLife: while the first batch comes any message is a sign of life, afterwards
// only what has been proven.
func TestLife(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := liveness{now: func() time.Time { return now }, zero: now}
	expect := func(what string, proof time.Duration, proven bool, want time.Duration) {
		t.Helper()
		if got := l.silence(proof, proven); got != want {
			t.Errorf("%s: silent for %v, want %v", what, got, want)
		}
	}
	now = now.Add(time.Hour)
	coming := func(what string, want bool) {
		t.Helper()
		if l.coming() != want {
			t.Errorf("%s: coming is %v", what, !want)
		}
	}
	coming("not begun", false)
	l.begin()
	coming("just begun", false)
	expect("just begun", 0, false, 0)
	now = now.Add(30 * time.Second)
	expect("nothing heard", time.Hour, true, 30*time.Second)
	l.Heard()
	now = now.Add(2 * time.Minute)
	l.Heard()
	expect("a large batch is coming", time.Hour, true, 0)
	coming("a large batch is coming", true)
	l.synced()
	coming("synced", false)
	now = now.Add(time.Minute)
	l.Heard()
	expect("synced, no canary yet", time.Hour, true, time.Minute)
	expect("synced, nothing proven", 0, false, time.Minute)
	expect("synced and proven", 10*time.Second, true, 10*time.Second)
	l.begin()
	coming("begun anew", false)
	expect("begun anew", time.Hour, true, 0)
}

// TestSendsAway: a stale replica ends the proxy's connection over HTTP/2 once it has
// lived for a second, each connection for itself; a fresh one ends none.
func TestSendsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := stalled(t)
		connect := func() context.Context { return r.Connected(t.Context(), nil) }
		ask := func(connection context.Context) *http.Response {
			w := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(connection, http.MethodGet, "/check/shop-prod/hello", nil)
			req.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Api-Key": {full}}
			r.ServeHTTP(w, req)
			return w.Result()
		}
		ends := func(connection context.Context) bool {
			res := ask(connection)
			wantCode(t, res, http.StatusServiceUnavailable, "gate_unavailable")
			return res.Header.Get("Connection") == "close"
		}
		old := connect()
		time.Sleep(time.Second)
		other, young := old, connect()
		if !ends(old) || !ends(other) || ends(young) || ends(young) {
			t.Error("connections that have lived for a second are ended, all of them; younger ones are not")
		}
		time.Sleep(time.Second)
		if !ends(young) {
			t.Error("a second later it is ended too")
		}
		r.store.stall(false)
		synctest.Wait()
		if res := ask(old); res.StatusCode != http.StatusOK || res.Header.Get("Connection") != "" {
			t.Errorf("fresh: %d %v", res.StatusCode, res.Header)
		}
	})
}
