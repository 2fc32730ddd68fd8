package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/tests/check"
)

var ref = app.Ref{Namespace: "shop-prod", Name: "hello"}

type bench struct {
	*testing.T
	*Queue[app.Ref]
	failures atomic.Int64
}

func test(t *testing.T, name string, o Options, reconcile func(*bench, context.Context) error, play func(*bench)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &bench{T: t}
			b.Queue = New(o, func(ctx context.Context, _ app.Ref) error { return reconcile(b, ctx) },
				func(context.Context, app.Ref, error) { b.failures.Add(1) })
			play(b)
			b.Close()
		})
	})
}

func (b *bench) keys() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

func (b *bench) pass(keys ...app.Ref) {
	b.Helper()
	err := b.Resync(b.Context(), func(_ context.Context, work func(app.Ref) bool) error {
		for _, key := range keys {
			if !work(key) {
				return context.DeadlineExceeded
			}
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}

func in(t *testing.T, id string) context.Context {
	t.Helper()
	return reqctx.Begin(t.Context(), reqctx.Request{ID: id})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	var looks [4]atomic.Int64
	test(t, "until success", Options{Workers: 1, RetryFor: time.Hour},
		func(*bench, context.Context) error {
			if looks[0].Add(1) == 5 {
				return nil
			}
			return ErrRequeue
		},
		func(b *bench) {
			b.Add(b.Context(), ref)
			time.Sleep(time.Minute)
			if looks[0].Load() != 5 || b.keys() != 0 || b.failures.Load() != 0 {
				b.Errorf("%d looks, %d failures, %d keys", looks[0].Load(), b.failures.Load(), b.keys())
			}
		})
	test(t, "until RetryFor ends", Options{Workers: 1, RetryFor: time.Minute},
		func(*bench, context.Context) error { looks[1].Add(1); return errors.New("broken") },
		func(b *bench) {
			b.Add(b.Context(), ref)
			time.Sleep(time.Minute + 11*time.Second)
			if n := looks[1].Load(); b.keys() != 0 || n < 10 || n > 15 || b.failures.Load() != n {
				b.Errorf("%d looks, %d failures, %d keys", n, b.failures.Load(), b.keys())
			}
		})
	test(t, "a resync tries once", Options{Workers: 1},
		func(*bench, context.Context) error { looks[2].Add(1); return errors.New("broken") },
		func(b *bench) {
			b.pass(ref)
			time.Sleep(time.Minute)
			if looks[2].Load() != 1 || b.keys() != 0 {
				b.Errorf("%d looks, %d keys", looks[2].Load(), b.keys())
			}
		})
	test(t, "a resync does not wait for a pause, and does not change the request", Options{Workers: 1, FirstPause: time.Minute, LongestPause: time.Minute},
		func(b *bench, ctx context.Context) error {
			if reqctx.ID(ctx) != "asked" {
				b.Errorf("request ID: got %q, want asked", reqctx.ID(ctx))
			}
			looks[3].Add(1)
			return errors.New("broken")
		},
		func(b *bench) {
			b.AddAndWait(in(b.T, "asked"), ref)
			b.pass(ref)
			if looks[3].Load() != 2 {
				b.Errorf("%d looks", looks[3].Load())
			}
		})
}

func TestPauses(t *testing.T) {
	t.Parallel()
	start := time.Time{}
	var at []time.Duration
	test(t, "grow by a quarter", Options{Workers: 1, FirstPause: 4 * time.Second, LongestPause: 6 * time.Second, RetryFor: time.Hour},
		func(*bench, context.Context) error {
			at = append(at, time.Since(start))
			return ErrRequeue
		},
		func(b *bench) {
			start = time.Now()
			b.Add(b.Context(), ref)
			time.Sleep(22 * time.Second)
			b.Add(b.Context(), ref) // processed immediately, and resets the pauses
			time.Sleep(5 * time.Second)
			b.Close()
			want := []time.Duration{0, 4 * time.Second, 9 * time.Second, 15 * time.Second, 21 * time.Second, 22 * time.Second, 26 * time.Second}
			check.Equal(b, "tries", want, at)
		})
}

func TestKeyAddedDuringWork(t *testing.T) {
	t.Parallel()
	var again, interrupted atomic.Int64
	test(t, "is processed again", Options{Workers: 2},
		func(b *bench, _ context.Context) error {
			if again.Add(1) == 1 {
				b.Add(b.Context(), ref)
				b.Add(b.Context(), ref)
			}
			return nil
		},
		func(b *bench) {
			b.Add(b.Context(), ref)
			synctest.Wait()
			if again.Load() != 2 || b.keys() != 0 {
				b.Errorf("%d looks, %d keys", again.Load(), b.keys())
			}
		})
	test(t, "interrupts", Options{Workers: 2, Interrupt: true},
		func(b *bench, ctx context.Context) error {
			if interrupted.Add(1) == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if ctx.Err() != nil || reqctx.ID(ctx) != "news" {
				b.Errorf("second run: request ID %q, %v", reqctx.ID(ctx), ctx.Err())
			}
			return nil
		},
		func(b *bench) {
			b.Add(b.Context(), ref)
			synctest.Wait()
			b.pass(ref) // does not interrupt
			if interrupted.Load() != 1 {
				b.Fatalf("%d runs, want 1", interrupted.Load())
			}
			ctx, end := context.WithCancel(in(b.T, "news"))
			b.Add(ctx, ref)
			end()
			synctest.Wait()
			if interrupted.Load() != 2 || b.keys() != 0 || b.failures.Load() != 0 {
				b.Errorf("%d looks, %d failures, %d keys", interrupted.Load(), b.failures.Load(), b.keys())
			}
		})
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	var many []app.Ref
	for i := range 20 {
		many = append(many, app.Ref{Namespace: "shop-prod", Name: fmt.Sprint(i)})
	}
	slow := func(open, most *atomic.Int64) func(*bench, context.Context) error {
		return func(_ *bench, ctx context.Context) error {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return nil
		}
	}
	var open, most [3]atomic.Int64
	test(t, "limited by workers", Options{Workers: 4}, slow(&open[0], &most[0]), func(b *bench) {
		start := time.Now()
		b.AddAndWait(b.Context(), many...)
		if most[0].Load() != 4 || time.Since(start) != 5*time.Second {
			b.Errorf("%d concurrent runs, %v", most[0].Load(), time.Since(start))
		}
	})
	test(t, "a resync leaves workers free", Options{Workers: 4, PassWorkers: 3}, slow(&open[1], &most[1]), func(b *bench) {
		go b.pass(many...)
		synctest.Wait()
		b.pass(many...) // returns: another resync is running
		start := time.Now()
		b.AddAndWait(b.Context(), ref)
		if most[1].Load() != 4 || time.Since(start) != time.Second {
			b.Errorf("%d concurrent runs, Do took %v", most[1].Load(), time.Since(start))
		}
		time.Sleep(time.Minute)
	})
	test(t, "none after Close", Options{Workers: 4}, slow(&open[2], &most[2]), func(b *bench) {
		for _, key := range many {
			b.Add(b.Context(), key)
		}
		b.Close()
		b.AddAndWait(b.Context(), ref)
		if b.keys() != 0 {
			b.Errorf("%d keys", b.keys())
		}
	})
}

// TestPassTimeout tests that a resync ends even if its work does not.
func TestPassTimeout(t *testing.T) {
	t.Parallel()
	test(t, "", Options{Workers: 1}, func(_ *bench, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, func(b *bench) {
		start := time.Now()
		ended := false
		_ = b.Resync(b.Context(), func(_ context.Context, work func(app.Ref) bool) error {
			for i := 0; work(app.Ref{Name: fmt.Sprint(i)}); i++ {
			}
			ended = true
			return nil
		})
		if took := time.Since(start); !ended || took != PassTimeout {
			b.Errorf("ended after %v", took)
		}
	})
}

func TestPanic(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	test(t, "", Options{Workers: 1},
		func(*bench, context.Context) error {
			if runs.Add(1) < 3 {
				panic("x")
			}
			return nil
		},
		func(b *bench) {
			for name, work := range map[string]func(){"Do": func() { b.AddAndWait(b.Context(), ref) }, "Pass": func() { b.pass(ref) }} {
				func() {
					defer func() {
						if recover() == nil {
							b.Errorf("%s did not panic", name)
						}
					}()
					work()
				}()
			}
			if b.AddAndWait(b.Context(), ref); runs.Load() != 3 || b.failures.Load() != 2 || b.keys() != 0 {
				b.Errorf("after a panic: %d runs, %d failures", runs.Load(), b.failures.Load())
			}
		})
}
