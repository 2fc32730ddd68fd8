package canary

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const ceiling = 90 * time.Second

func TestFreshOnlyAfterAllThree(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := New(ceiling, start, func() {})
	if p.Fresh(start) {
		t.Fatal("fresh without a proof")
	}
	for typ := range Types {
		if p.Fresh(start) {
			t.Fatalf("fresh with %d of %d proven", typ, Types)
		}
		p.Echo(typ, p.Begin(typ, start), start)
	}
	if !p.Fresh(start) || !p.Fresh(start.Add(ceiling-1)) || p.Fresh(start.Add(ceiling)) {
		t.Error("fresh must be true below the ceiling and false at it")
	}
}

func TestLateEcho(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := New(ceiling, start, func() {})
	var first [Types]int64
	for s := range 80 { // none returns
		for typ := range Types {
			if seq := p.Begin(typ, start.Add(time.Duration(s)*time.Second)); s == 0 {
				first[typ] = seq
			}
		}
	}
	for typ := range Types {
		p.Echo(typ, first[typ], start.Add(80*time.Second))
	}
	if !p.Fresh(start.Add(ceiling-1)) || p.Fresh(start.Add(ceiling)) {
		t.Error("a late canary must prove freshness until the ceiling has passed since its write")
	}
}

func TestLapsesAreCounted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		echoes []time.Duration
		doubts bool
		want   int
	}{
		{name: "in time", echoes: []time.Duration{time.Second, time.Minute, 2 * time.Minute}},
		{name: "first too late", echoes: []time.Duration{ceiling}, want: 1},
		{name: "one pause", echoes: []time.Duration{time.Second, time.Second + ceiling, time.Minute + ceiling}, want: 1},
		{name: "doubts", echoes: []time.Duration{time.Second, ceiling}, doubts: true},
		{name: "doubts and a pause", echoes: []time.Duration{time.Second, 2 * ceiling}, doubts: true, want: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start, got := time.Now(), 0
			var p *Proof
			now := start
			p = New(ceiling, start, func() {
				got++
				if p.Fresh(now) {
					t.Error("fresh before the lapse was reported")
				}
			})
			for _, d := range test.echoes {
				now = start.Add(d)
				for typ := range Types {
					p.Echo(typ, p.Begin(typ, now), now)
				}
				if !p.Fresh(now) {
					t.Errorf("not fresh after %v", d)
				}
				if test.doubts {
					p.Invalidate(0)
				}
			}
			if got != test.want {
				t.Errorf("lapses: got %d, want %d", got, test.want)
			}
		})
	}
}

func TestDoubtClearsAnswers(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := New(ceiling, start, func() {})
	seq := p.Begin(0, start)
	p.Echo(0, seq, start)
	if !p.Confirmed(0, seq) {
		t.Error("a returned canary is not reported")
	}
	p.Invalidate(0)
	if p.Confirmed(0, seq) || p.Confirmed(0, p.Begin(0, start)) {
		t.Error("a canary is reported although it has not returned since the doubt")
	}
	select {
	case <-p.Invalidated(0):
	default:
		t.Error("the doubt is not reported")
	}
}

// TestFreshnessNeedsRecentCanaryOfEachType tests that for any order of events, every type needs a young canary.
func TestFreshnessNeedsRecentCanaryOfEachType(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		now, p := start, New(ceiling, start, func() {})
		var begun [Types]map[int64]time.Time
		var proven [Types]time.Time
		for i := range begun {
			begun[i] = map[int64]time.Time{}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "pass")))
			typ := rapid.IntRange(0, Types-1).Draw(t, "type")
			switch rapid.SampledFrom([]string{"begin", "begin", "echo", "echo", "stray", "doubt"}).Draw(t, "event") {
			case "begin":
				begun[typ][p.Begin(typ, now)] = now
			case "echo":
				for seq, w := range begun[typ] {
					p.Echo(typ, seq, now)
					for s := range begun[typ] {
						if s <= seq {
							delete(begun[typ], s)
						}
					}
					if w.After(proven[typ]) {
						proven[typ] = w
					}
					break
				}
			case "stray":
				p.Echo(typ, 1_000_000, now)
			case "doubt":
				if rapid.IntRange(0, 5).Draw(t, "rarely") == 0 {
					p.Invalidate(typ)
					begun[typ], proven[typ] = map[int64]time.Time{}, time.Time{}
				}
			}
			want := true
			for _, w := range proven {
				want = want && !w.IsZero() && now.Sub(w) < ceiling
			}
			if p.Fresh(now) != want {
				t.Fatalf("fresh: got %v, want %v", p.Fresh(now), want)
			}
		}
	})
}

func TestKeeperUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := New(ceiling, time.Now(), func() {})
		var mu sync.Mutex
		var echoed [Types]time.Time
		down := false
		write := func(typ int) Writer {
			return func(ctx context.Context, seq int64) error {
				begin := time.Now()
				mu.Lock()
				broken := down
				mu.Unlock()
				if broken {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(rand.N(3 * time.Second))
				mu.Lock()
				defer mu.Unlock()
				p.Echo(typ, seq, time.Now())
				echoed[typ] = begin
				if seq%3 == 0 {
					return errors.New("written, but the call failed")
				}
				return nil
			}
		}
		k := &Prober{Proof: p, Interval: 15 * time.Second, Timeout: 45 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		for i := range k.Writers {
			k.Writers[i] = write(i)
		}
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		for minute := range 10 {
			mu.Lock()
			down = minute%5 >= 2 // two minutes up, three minutes down
			mu.Unlock()
			for range 60 {
				time.Sleep(time.Second)
				mu.Lock()
				for _, w := range echoed {
					if p.Fresh(time.Now()) && time.Since(w) >= ceiling {
						t.Fatal("fresh with a proof older than the ceiling")
					}
				}
				mu.Unlock()
			}
			if minute%5 == 1 && !p.Fresh(time.Now()) {
				t.Error("not fresh although canaries return")
			}
			if minute%5 == 4 && p.Fresh(time.Now()) {
				t.Error("fresh although no canary has returned for minutes")
			}
		}
		stop()
		<-done
	})
}

func TestNoCanaryDuringFullBatch(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		doubt, echo, fails bool
		want               int // canaries after 45 s; the batch takes 40 s
	}{
		"in the batch":     {echo: true, want: 2}, // the second after the interval
		"not in the batch": {want: 3},             // one more, and another 2 s later
		"after a doubt":    {doubt: true, echo: true, want: 3},
		"not written":      {fails: true, want: 7}, // after 1, 3, 7, 15, 30 and 45 s
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				p := New(ceiling, time.Now(), func() {})
				var coming atomic.Bool
				coming.Store(true)
				var written []int64
				k := &Prober{
					Proof: p, Interval: 15 * time.Second, Timeout: 45 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
					Coming: func(int) bool { return coming.Load() },
				}
				for i := range k.Writers {
					k.Writers[i] = func(_ context.Context, seq int64) error {
						if i == 0 {
							written = append(written, seq)
						}
						if c.echo && !coming.Load() {
							p.Echo(i, seq, time.Now())
						}
						if c.fails {
							return errors.New("not written")
						}
						return nil
					}
				}
				done := make(chan struct{})
				go func() { k.Run(ctx); close(done) }()
				time.Sleep(20 * time.Second)
				if c.doubt {
					p.Invalidate(0)
				}
				time.Sleep(20*time.Second + time.Millisecond)
				synctest.Wait()
				if c.echo {
					p.Echo(0, written[len(written)-1], time.Now())
				}
				coming.Store(false)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				stop()
				<-done
				if len(written) != c.want {
					t.Errorf("canaries: got %d, want %d", len(written), c.want)
				}
			})
		})
	}
}
