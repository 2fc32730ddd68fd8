package bucket

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/plan"
)

func newBuckets() *Buckets {
	b := &Buckets{}
	b.Grow(1)
	return b
}

// TestAgainstTokens compares the buckets with an implementation that counts tokens.
func TestAgainstTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := plan.Limits{
			Rate:  rapid.SampledFrom([]float64{0.01, 0.5, 1, 8, 1000, 100_000}).Draw(t, "rate"),
			Burst: rapid.Int64Range(1, 50).Draw(t, "burst"),
		}
		b, shape := newBuckets(), ShapeOf(l)
		tokens, now, taken := float64(l.Burst), int64(0), uint64(0)
		for range 200 {
			step := rapid.Int64Range(0, 3*shape.Token).Draw(t, "step")
			now += step
			tokens = min(tokens+float64(step)/float64(shape.Token), float64(l.Burst))
			const rounding = 1e-6
			if tokens > 1-rounding && tokens < 1+rounding {
				continue // ambiguous in floating point
			}
			want := tokens >= 1
			if got := b.Take(0, shape, now); got != want {
				t.Fatalf("taken: got %v with %v tokens", got, tokens)
			}
			if want {
				tokens--
				taken++
			}
			if most := shape.MaxWithin(time.Duration(now)); taken > most {
				t.Fatalf("tokens: got %d in %d ns, want at most %d", taken, now, most)
			}
		}
	})
}

func TestPlanChange(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	slow := ShapeOf(plan.Limits{Rate: 0.01, Burst: 100})
	for range 100 {
		if !b.Take(0, slow, 0) {
			t.Fatal("a token of the burst is missing")
		}
	}
	fast := ShapeOf(plan.Limits{Rate: 10, Burst: 10})
	if b.Take(0, fast, 0) {
		t.Error("a token was taken from an empty bucket")
	}
	if !b.Take(0, fast, int64(100*time.Millisecond)) {
		t.Error("the bucket is not refilled at the new plan's rate")
	}
}

func TestNeverMoreThanTheBurstAtOnce(t *testing.T) {
	t.Parallel()
	b, shape := newBuckets(), ShapeOf(plan.Limits{Rate: 0.01, Burst: 1000})
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Take(0, shape, 1) {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1000 {
		t.Errorf("tokens: got %d, want 1000", taken.Load())
	}
}

func TestAvailableTokensMatchWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, shape := newBuckets(), ShapeOf(plan.Limits{
			Rate: rapid.SampledFrom([]float64{0.01, 3, 1000}).Draw(t, "rate"), Burst: rapid.Int64Range(1, 20).Draw(t, "burst"),
		})
		now := int64(0)
		for range 20 {
			now += rapid.Int64Range(0, 5*shape.Token).Draw(t, "step")
			for range rapid.IntRange(0, 5).Draw(t, "taken") {
				b.Take(0, shape, now)
			}
			tokens, wait := b.Available(0, shape, now)
			if (tokens == 0) != (wait > 0) || int64(wait) > shape.Token {
				t.Fatalf("got %d tokens and a wait of %v", tokens, wait)
			}
			probe := newBuckets()
			probe.tats.At(0).Store(b.tats.At(0).Load())
			if tokens == 0 && (probe.Take(0, shape, now+int64(wait)-1) || !probe.Take(0, shape, now+int64(wait))) {
				t.Fatalf("no token, or too early, after the reported wait of %v", wait)
			}
			for range tokens {
				if !probe.Take(0, shape, now) {
					t.Fatalf("fewer tokens than the reported %d", tokens)
				}
			}
			if tokens > 0 && probe.Take(0, shape, now) {
				t.Fatalf("more tokens than the reported %d", tokens)
			}
		}
	})
}
