package store

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	var turns turns
	const ref = "apps/shop-prod.hello"
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			give, ok := turns.take(t.Context(), ref)
			if !ok || inside.Add(1) != 1 {
				t.Error("it is another one's turn")
			}
			inside.Add(-1)
			give()
		})
	}
	all.Wait()
	give, _ := turns.take(t.Context(), ref)
	other, ok := turns.take(t.Context(), "apps/shop-prod.other")
	if !ok {
		t.Fatal("another document waits")
	}
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := turns.take(ended, ref); ok {
		t.Error("two have a turn")
	}
	give()
	if len(turns.docs) != 0 {
		t.Errorf("%d documents are remembered", len(turns.docs))
	}
}
