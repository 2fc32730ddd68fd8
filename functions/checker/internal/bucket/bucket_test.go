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

// TestAgainstTokens compares with the textbook bucket, which counts tokens.
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
				continue // too close for floating point to tell
			}
			want := tokens >= 1
			if got := b.Take(0, shape, now); got != want {
				t.Fatalf("took %v with %v tokens", got, tokens)
			}
			if want {
				tokens--
				taken++
			}
			if most := shape.Most(time.Duration(now)); taken > most {
				t.Fatalf("took %d in %d ns, more than the most, %d", taken, now, most)
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
			t.Fatal("the burst was not there")
		}
	}
	fast := ShapeOf(plan.Limits{Rate: 10, Burst: 10})
	if b.Take(0, fast, 0) {
		t.Error("an empty bucket gave a token")
	}
	if !b.Take(0, fast, int64(100*time.Millisecond)) {
		t.Error("the new plan's rate does not fill the bucket that the old plan emptied")
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
		t.Errorf("%d tokens taken of a burst of 1000", taken.Load())
	}
}

// TestLeft: what is left can be taken, and no more, at once or after the wait.
func TestLeft(t *testing.T) {
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
			tokens, wait := b.Left(0, shape, now)
			if (tokens == 0) != (wait > 0) || int64(wait) > shape.Token {
				t.Fatalf("%d tokens and a wait of %v", tokens, wait)
			}
			probe := newBuckets()
			probe.full.At(0).Store(b.full.At(0).Load())
			if tokens == 0 && (probe.Take(0, shape, now+int64(wait)-1) || !probe.Take(0, shape, now+int64(wait))) {
				t.Fatalf("the next token is not there after %v", wait)
			}
			for range tokens {
				if !probe.Take(0, shape, now) {
					t.Fatalf("there are not %d tokens", tokens)
				}
			}
			if tokens > 0 && probe.Take(0, shape, now) {
				t.Fatalf("there are more than %d tokens", tokens)
			}
		}
	})
}
