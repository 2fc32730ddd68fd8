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
		t.Fatal("fresh with nothing proven")
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

// TestLateEcho: an echo counts as long as it can prove anything.
func TestLateEcho(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := New(ceiling, start, func() {})
	var first [Types]int64
	for s := range 80 { // a canary a second, none answered
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
		t.Error("an echo 80 s late must prove what was committed before its canary, and no more")
	}
}

// A time without a valid proof is reported before the view is fresh again. So is a first proof
// that takes longer than the ceiling, and not a doubt that is cleared in time.
func TestLapse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		echoes []time.Duration // since the start
		doubts bool            // after each
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
					t.Error("fresh before the pause was reported")
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
					p.Doubt(0)
				}
			}
			if got != test.want {
				t.Errorf("%d pauses reported, want %d", got, test.want)
			}
		})
	}
}

func TestDoubtIsNoAnswer(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := New(ceiling, start, func() {})
	seq := p.Begin(0, start)
	p.Echo(0, seq, start)
	if !p.Answered(0, seq) {
		t.Error("an echo is an answer")
	}
	p.Doubt(0)
	if p.Answered(0, seq) || p.Answered(0, p.Begin(0, start)) {
		t.Error("after a doubt only a new canary's echo is an answer")
	}
	select {
	case <-p.Doubted(0):
	default:
		t.Error("nobody is told of the doubt")
	}
}

// TestBound says it all: whatever order writes and echoes come in, the replica
// is fresh at a time exactly when every type has an echo of a canary begun less
// than the ceiling before, with no doubt since.
func TestBound(t *testing.T) {
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
					p.Doubt(typ)
					begun[typ], proven[typ] = map[int64]time.Time{}, time.Time{}
				}
			}
			want := true
			for _, w := range proven {
				want = want && !w.IsZero() && now.Sub(w) < ceiling
			}
			if p.Fresh(now) != want {
				t.Fatalf("fresh is %v, want %v", p.Fresh(now), want)
			}
		}
	})
}

// TestKeeperUnderFaults runs the keeper against a store that hangs, fails,
// writes without saying so and echoes late, and checks the bound all the time.
func TestKeeperUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := New(ceiling, time.Now(), func() {})
		var mu sync.Mutex
		var echoed [Types]time.Time // begin of the latest canary that was echoed
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
					return errors.New("ambiguous: it was written all the same")
				}
				return nil
			}
		}
		k := &Keeper{Proof: p, Interval: 15 * time.Second, Timeout: 45 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		for i := range k.Writers {
			k.Writers[i] = write(i)
		}
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		for minute := range 10 {
			mu.Lock()
			down = minute%5 >= 2 // two minutes up, three down
			mu.Unlock()
			for range 60 {
				time.Sleep(time.Second)
				mu.Lock()
				for _, w := range echoed {
					if p.Fresh(time.Now()) && time.Since(w) >= ceiling {
						t.Fatal("allowed on a view that is not proven to be younger than the ceiling")
					}
				}
				mu.Unlock()
			}
			if minute%5 == 1 && !p.Fresh(time.Now()) {
				t.Error("not fresh although canaries come back")
			}
			if minute%5 == 4 && p.Fresh(time.Now()) {
				t.Error("fresh although no canary has come back for minutes")
			}
		}
		stop()
		<-done
	})
}

// TestKeeperWaitsForWhatIsComing: while a listener is being sent everything, the canary
// that was written before is not followed by another one; unless it is not with it, or
// there was a doubt meanwhile.
func TestKeeperWaitsForWhatIsComing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		doubt, echo, fails bool
		want               int // canaries after 45 s, in which everything was sent for 40 s
	}{
		"it is with it":      {echo: true, want: 2}, // the next one in its turn
		"it is not with it":  {want: 3},             // another, and one 2 s later
		"a doubt":            {doubt: true, echo: true, want: 3},
		"it was not written": {fails: true, want: 7}, // after 1, 3, 7, 15, 30 and 45 s
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				p := New(ceiling, time.Now(), func() {})
				var coming atomic.Bool
				coming.Store(true)
				var written []int64
				k := &Keeper{
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
					p.Doubt(0)
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
					t.Errorf("%d canaries were written, want %d", len(written), c.want)
				}
			})
		})
	}
}
