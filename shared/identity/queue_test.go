package identity

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2)
		var came []string
		wait := func(ctx context.Context, lane Lane, name string) {
			go func() {
				if q.enter(ctx, lane) == nil {
					came = append(came, name)
				}
			}()
			synctest.Wait()
		}
		giveUp, cancel := context.WithCancel(t.Context())
		wait(t.Context(), Unknown, "the first") // the other place is reserved
		wait(giveUp, Unknown, "a canceled client")
		wait(t.Context(), Failing, "a guesser")
		wait(t.Context(), Unknown, "an unknown client")
		wait(t.Context(), Known, "ada")
		wait(t.Context(), Known, "bob") // both places are taken
		check.Equal(t, "in at once", []string{"the first", "ada"}, came)
		cancel()
		synctest.Wait()
		for range 4 {
			q.leave()
			synctest.Wait()
		}
		check.Equal(t, "in all", []string{"the first", "ada", "bob", "an unknown client", "a guesser"}, came)
		if q.free != 1 {
			t.Errorf("free places: got %d", q.free)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1) // none is reserved
		check.OK(t, q.enter(t.Context(), Unknown))
		errs := make(chan error, maxWaiting)
		for range maxWaiting {
			go func() { errs <- q.enter(t.Context(), Failing) }()
		}
		synctest.Wait()
		begin := time.Now()
		wantCode(t, q.enter(t.Context(), Failing), problem.RateLimited)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("rejected after %s, want immediately", waited)
		}
		go func() {
			if err := q.enter(t.Context(), Unknown); err != nil {
				t.Errorf("another lane: %v", err)
			}
		}()
		synctest.Wait()
		q.leave()
		synctest.Wait()
		begin = time.Now()
		for range maxWaiting {
			wantCode(t, <-errs, problem.RateLimited)
		}
		if waited := time.Since(begin); waited != maxUnknownWait {
			t.Errorf("unknown clients: got a wait of %s", waited)
		}
	})
}
