package checker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestListenerSilence(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := liveness{now: func() time.Time { return now }, zero: now}
	expect := func(what string, proof time.Duration, proven bool, want time.Duration) {
		t.Helper()
		if got := l.silence(proof, proven); got != want {
			t.Errorf("%s: silence: got %v, want %v", what, got, want)
		}
	}
	now = now.Add(time.Hour)
	coming := func(what string, want bool) {
		t.Helper()
		if l.snapshotPending() != want {
			t.Errorf("%s: snapshot pending: got %v", what, !want)
		}
	}
	coming("not started", false)
	l.begin()
	coming("just started", false)
	expect("just started", 0, false, 0)
	now = now.Add(30 * time.Second)
	expect("no message", time.Hour, true, 30*time.Second)
	l.Heard()
	now = now.Add(2 * time.Minute)
	l.Heard()
	expect("receiving a large batch", time.Hour, true, 0)
	coming("receiving a large batch", true)
	l.synced()
	coming("synced", false)
	now = now.Add(time.Minute)
	l.Heard()
	expect("synced, no canary yet", time.Hour, true, time.Minute)
	expect("synced, nothing proven", 0, false, time.Minute)
	expect("synced and proven", 10*time.Second, true, 10*time.Second)
	l.begin()
	coming("restarted", false)
	expect("restarted", time.Hour, true, 0)
}

func TestConnectionClosedOn503(t *testing.T) {
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
			t.Error("only connections that are at least a second old must be closed")
		}
		time.Sleep(time.Second)
		if !ends(young) {
			t.Error("a connection stays open after a second")
		}
		r.store.stall(false)
		synctest.Wait()
		if res := ask(old); res.StatusCode != http.StatusOK || res.Header.Get("Connection") != "" {
			t.Errorf("fresh replica: got %d %v, want 200 without Connection", res.StatusCode, res.Header)
		}
	})
}
