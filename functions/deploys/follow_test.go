package deploys

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

func following(f *followers) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.running)
}

func TestFollowers(t *testing.T) {
	t.Parallel()
	ref := app.Ref{Namespace: "shop-prod", Name: "hello"}
	t.Run("until it is over", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64
			f := newFollowers(func(context.Context, app.Ref) bool { return looks.Add(1) == 5 }, time.Second, time.Hour)
			f.follow(t.Context(), ref)
			time.Sleep(time.Minute)
			if looks.Load() != 5 || following(f) != 0 {
				t.Errorf("%d looks, %d run", looks.Load(), following(f))
			}
			f.close()
		})
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFollowers(func(context.Context, app.Ref) bool { return false }, time.Second, time.Minute)
			f.follow(t.Context(), ref)
			time.Sleep(time.Minute + time.Second)
			if following(f) != 0 {
				t.Errorf("%d run", following(f))
			}
			f.close()
		})
	})
	t.Run("again when there is news", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64
			var f *followers
			f = newFollowers(func(context.Context, app.Ref) bool {
				if looks.Add(1) == 1 {
					f.follow(t.Context(), ref)
				}
				return true
			}, time.Second, time.Minute)
			f.follow(t.Context(), ref)
			synctest.Wait()
			if looks.Load() != 2 {
				t.Errorf("%d looks", looks.Load())
			}
			f.close()
		})
	})
	t.Run("no more than there is room for", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFollowers(func(ctx context.Context, _ app.Ref) bool { <-ctx.Done(); return true }, time.Second, time.Hour)
			for i := range 2 * maxFollowers {
				f.follow(t.Context(), app.Ref{Namespace: "shop-prod", Name: fmt.Sprint(i)})
			}
			if following(f) != maxFollowers {
				t.Errorf("%d run", following(f))
			}
			f.close()
			f.follow(t.Context(), ref)
			if following(f) != 0 {
				t.Errorf("%d run after the end", following(f))
			}
		})
	})
}
