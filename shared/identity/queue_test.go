package identity

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

// TestQueue: the known come first and have a place that strangers cannot take; no more
// wait than there is room for; who gives up is passed over.
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
		wait(t.Context(), Stranger, "the first") // the other place is kept
		wait(giveUp, Stranger, "a stranger who goes")
		wait(t.Context(), Failing, "a guesser")
		wait(t.Context(), Stranger, "a stranger")
		wait(t.Context(), Known, "ada")
		wait(t.Context(), Known, "bob") // waits: both places are taken
		check.Equal(t, "in at once", []string{"the first", "ada"}, came)
		cancel()
		synctest.Wait()
		for range 4 {
			q.leave()
			synctest.Wait()
		}
		check.Equal(t, "in all", []string{"the first", "ada", "bob", "a stranger", "a guesser"}, came)
		if q.free != 1 {
			t.Errorf("%d places are free", q.free)
		}
	})
}

// TestQueueIsBounded: who comes when it is full is told so at once, and a lane that is
// full is no other's matter.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1) // none is kept of one
		check.OK(t, q.enter(t.Context(), Stranger))
		errs := make(chan error, maxWaiting)
		for range maxWaiting {
			go func() { errs <- q.enter(t.Context(), Failing) }()
		}
		synctest.Wait()
		begin := time.Now()
		wantCode(t, q.enter(t.Context(), Failing), problem.RateLimited)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("sent away after %s", waited)
		}
		go func() {
			if err := q.enter(t.Context(), Stranger); err != nil {
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
		if waited := time.Since(begin); waited != maxStrangerWait {
			t.Errorf("strangers wait for %s", waited)
		}
	})
}
