package explain

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }

func sealed(t *testing.T, k Key, q Question) (body []byte, seal string) {
	t.Helper()
	body, seal, err := k.Seal(q)
	if err != nil {
		t.Fatal(err)
	}
	return body, seal
}

// TestOpen: a question is good for its process and for its time, and once.
func TestOpen(t *testing.T) {
	t.Parallel()
	k := NewKey()
	q := Question{RequestID: "r-1", Namespaces: []string{"shop-prod"}, At: noon()}
	for _, tt := range []struct {
		name   string
		change func(q *Question)
		spoil  func(body []byte, seal string) ([]byte, string)
		now    time.Time
		want   error
	}{
		{name: "now", now: noon()},
		{name: "as late as it may be", now: noon().Add(Window)},
		{name: "as early as it may be", now: noon().Add(-Window)},
		{name: "too late", now: noon().Add(Window + 1), want: ErrStale},
		{name: "too early", now: noon().Add(-Window - 1), want: ErrStale},
		{name: "no seal", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, "" }, want: ErrForged},
		{name: "a seal that is cut", now: noon(), spoil: func(b []byte, s string) ([]byte, string) { return b, s[1:] }, want: ErrForged},
		{name: "a seal in capitals, which no replay makes new", now: noon(), spoil: func(b []byte, s string) ([]byte, string) { return b, strings.ToUpper(s) }, want: ErrForged},
		{name: "another body", now: noon(), spoil: func(b []byte, s string) ([]byte, string) {
			return []byte(strings.Replace(string(b), "shop", "bank", 1)), s
		}, want: ErrForged},
		{name: "of another process", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, NewKey().seal(b) }, want: ErrForged},
		{name: "of nobody's key", now: noon(), spoil: func(b []byte, _ string) ([]byte, string) { return b, Key{}.seal(b) }, want: ErrForged},
		{name: "no id", now: noon(), change: func(q *Question) { q.RequestID = "" }, want: ErrShape},
		{name: "an id that is none", now: noon(), change: func(q *Question) { q.RequestID = "a b" }, want: ErrShape},
		{name: "no JSON", now: noon(), spoil: func([]byte, string) ([]byte, string) { return []byte("x"), k.seal([]byte("x")) }, want: ErrShape},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked, q := NewAsked(k), q
			if tt.change != nil {
				tt.change(&q)
			}
			body, seal := sealed(t, k, q)
			if tt.spoil != nil {
				body, seal = tt.spoil(body, seal)
			}
			got, err := asked.Open(body, seal, tt.now)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			got.Nonce = ""
			if diff := cmp.Diff(q, got); diff != "" {
				t.Error(diff)
			}
			if _, err := asked.Open(body, seal, tt.now); !errors.Is(err, ErrRepeated) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// TestAskedIsBounded: so many questions are remembered, as long as they are good.
func TestAskedIsBounded(t *testing.T) {
	t.Parallel()
	k := NewKey()
	asked := NewAsked(k)
	open := func(at, now time.Time) error {
		body, seal := sealed(t, k, Question{RequestID: "r", At: at})
		_, err := asked.Open(body, seal, now)
		return err
	}
	first, seal := sealed(t, k, Question{RequestID: "r", At: noon()})
	if _, err := asked.Open(first, seal, noon()); err != nil {
		t.Fatal(err)
	}
	for range MaxAsked - 1 {
		if err := open(noon(), noon()); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(noon(), noon()); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if _, err := asked.Open(first, seal, noon().Add(Window)); !errors.Is(err, ErrRepeated) {
		t.Errorf("the first again: %v", err)
	}
	later := noon().Add(Window + 1)
	if err := open(later, later); err != nil || len(asked.seen) != 1 {
		t.Errorf("%v, with %d remembered, once the others are good no more", err, len(asked.seen))
	}
}

func TestSees(t *testing.T) {
	t.Parallel()
	q := Question{Namespaces: []string{"shop-prod", ""}}
	for namespace, want := range map[string]bool{"shop-prod": true, "shop": false, "bank-prod": false, "": false} {
		if q.Sees(namespace) != want {
			t.Errorf("%q: %t", namespace, !want)
		}
	}
}

// TestKeyIsNotLogged: nor is it in what is printed of a canary.
func TestKeyIsNotLogged(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	k := NewKey()
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", k)
	if !strings.Contains(out.String(), "[redacted]") || strings.Contains(out.String(), fmt.Sprint([32]byte(k))) {
		t.Error(out.String())
	}
}

// TestReasons: each is said in a sentence, and one that nobody knows in its own word.
func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || !strings.HasSuffix(r.Text(), ".") || strings.Contains(r.Text(), string(r)+".") && strings.HasPrefix(r.Text(), "The gate refused it") {
			t.Errorf("%s: %s", r, r.Text())
		}
		seen[r] = true
	}
	if got := Reason("new").Text(); got != "The gate refused it: new." {
		t.Error(got)
	}
}

func FuzzOpen(f *testing.F) {
	k := NewKey()
	f.Add([]byte(`{"request_id":"r"}`), "00")
	f.Fuzz(func(t *testing.T, body []byte, seal string) {
		if _, err := NewAsked(k).Open(body, seal, noon()); !errors.Is(err, ErrForged) {
			t.Errorf("%q with %q: %v", body, seal, err)
		}
		if q, err := NewAsked(k).Open(body, k.seal(body), noon()); err == nil && (q.RequestID == "" || len(q.RequestID) > 64) {
			t.Errorf("%+v", q)
		}
	})
}
