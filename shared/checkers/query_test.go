package checkers

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/check"
)

func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }

func signed(t *testing.T, k QueryKey, q Query) (body []byte, signature string) {
	t.Helper()
	body, signature, err := k.SignQuery(q)
	check.OK(t, err)
	return body, signature
}

func TestVerifyQuery(t *testing.T) {
	t.Parallel()
	k := NewQueryKey()
	q := Query{RequestID: "r-1", Namespaces: []string{"shop-prod"}, At: noon()}
	for _, tt := range []struct {
		name   string
		change func(q *Query)
		spoil  func(body []byte, signature string) ([]byte, string)
		now    time.Time
		want   error
	}{
		{name: "now", now: noon()},
		{name: "latest valid time", now: noon().Add(QueryWindow)},
		{name: "earliest valid time", now: noon().Add(-QueryWindow)},
		{name: "too late", now: noon().Add(QueryWindow + 1), want: ErrStale},
		{name: "too early", now: noon().Add(-QueryWindow - 1), want: ErrStale},
		{name: "no signature", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, "" }, want: ErrBadSignature},
		{name: "a truncated signature", now: noon(), spoil: func(b []byte, s string) ([]byte, string) { return b, s[1:] }, want: ErrBadSignature},
		{name: "an uppercase signature", now: noon(), spoil: func(b []byte, s string) ([]byte, string) { return b, strings.ToUpper(s) }, want: ErrBadSignature},
		{name: "another body", now: noon(), spoil: func(b []byte, s string) ([]byte, string) {
			return []byte(strings.Replace(string(b), "shop", "bank", 1)), s
		}, want: ErrBadSignature},
		{name: "signed for another process", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, NewQueryKey().sign(b) }, want: ErrBadSignature},
		{name: "signed with a zero key", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, QueryKey{}.sign(b) }, want: ErrBadSignature},
		{name: "no id", now: noon(), change: func(q *Query) { q.RequestID = "" }, want: ErrMalformed},
		{name: "an invalid id", now: noon(), change: func(q *Query) { q.RequestID = "a b" }, want: ErrMalformed},
		{name: "not JSON", now: noon(), spoil: func([]byte, string) ([]byte, string) { return []byte("x"), k.sign([]byte("x")) }, want: ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			guard, q := NewReplayGuard(k), q
			if tt.change != nil {
				tt.change(&q)
			}
			body, signature := signed(t, k, q)
			if tt.spoil != nil {
				body, signature = tt.spoil(body, signature)
			}
			got, err := guard.VerifyQuery(body, signature, tt.now)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			got.Nonce = ""
			if diff := cmp.Diff(q, got); diff != "" {
				t.Error(diff)
			}
			if _, err := guard.VerifyQuery(body, signature, tt.now); !errors.Is(err, ErrRepeated) {
				t.Errorf("repeated query: got %v, want %v", err, ErrRepeated)
			}
		})
	}
}

func TestReplayGuardIsBounded(t *testing.T) {
	t.Parallel()
	k := NewQueryKey()
	guard := NewReplayGuard(k)
	verify := func(at, now time.Time) error {
		body, signature := signed(t, k, Query{RequestID: "r", At: at})
		_, err := guard.VerifyQuery(body, signature, now)
		return err
	}
	first, signature := signed(t, k, Query{RequestID: "r", At: noon()})
	if _, err := guard.VerifyQuery(first, signature, noon()); err != nil {
		t.Fatal(err)
	}
	for range MaxQueries - 1 {
		check.OK(t, verify(noon(), noon()))
	}
	if err := verify(noon(), noon()); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more query: got %v, want %v", err, ErrTooMany)
	}
	if _, err := guard.VerifyQuery(first, signature, noon().Add(QueryWindow)); !errors.Is(err, ErrRepeated) {
		t.Errorf("first query again: got %v, want %v", err, ErrRepeated)
	}
	later := noon().Add(QueryWindow + 1)
	if err := verify(later, later); err != nil || len(guard.seen) != 1 {
		t.Errorf("after the others expired: got %v with %d stored queries, want 1", err, len(guard.seen))
	}
}

func TestQuerySeesOnlyItsNamespaces(t *testing.T) {
	t.Parallel()
	q := Query{Namespaces: []string{"shop-prod", ""}}
	for namespace, want := range map[string]bool{"shop-prod": true, "shop": false, "bank-prod": false, "": false} {
		if q.Sees(namespace) != want {
			t.Errorf("Sees(%q): got %t, want %t", namespace, !want, want)
		}
	}
}

func TestKeyIsNotLogged(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	k := NewQueryKey()
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", k)
	if !strings.Contains(out.String(), "[redacted]") || strings.Contains(out.String(), fmt.Sprint([32]byte(k))) {
		t.Error(out.String())
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || !strings.HasSuffix(r.Text(), ".") || strings.Contains(r.Text(), string(r)+".") && strings.HasPrefix(r.Text(), "The gate denied the request") {
			t.Errorf("%s: %s", r, r.Text())
		}
		seen[r] = true
	}
	if got := Reason("new").Text(); got != "The gate denied the request: new." {
		t.Error(got)
	}
}

func FuzzOpen(f *testing.F) {
	k := NewQueryKey()
	f.Add([]byte(`{"request_id":"r"}`), "00")
	f.Fuzz(func(t *testing.T, body []byte, signature string) {
		if _, err := NewReplayGuard(k).VerifyQuery(body, signature, noon()); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%q with %q: got %v, want %v", body, signature, err, ErrBadSignature)
		}
		if q, err := NewReplayGuard(k).VerifyQuery(body, k.sign(body), noon()); err == nil && (q.RequestID == "" || len(q.RequestID) > 64) {
			t.Errorf("got %+v, want a valid request ID", q)
		}
	})
}
