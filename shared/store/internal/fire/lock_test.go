package fire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestKeyedMutex(t *testing.T) {
	t.Parallel()
	var locks keyedMutex
	const ref = "apps/shop-prod.hello"
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			unlock, err := locks.lock(t.Context(), ref)
			if err != nil || inside.Add(1) != 1 {
				t.Error("got two holders of the lock")
			}
			inside.Add(-1)
			unlock()
		})
	}
	all.Wait()
	unlock, _ := locks.lock(t.Context(), ref)
	other, err := locks.lock(t.Context(), "apps/shop-prod.other")
	if err != nil {
		t.Fatalf("lock of another document: got %v", err)
	}
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.lock(ended, ref); !errors.Is(err, ErrUnavailable) {
		t.Errorf("second holder of the lock: got %v, want ErrUnavailable", err)
	}
	unlock()
	if len(locks.locks) != 0 {
		t.Errorf("got %d documents with locks, want 0", len(locks.locks))
	}
}
