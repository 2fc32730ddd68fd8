package fire

import (
	"context"
	"fmt"
	"sync"
)

// Lock serializes a document's changes within this process. This avoids lost races, after which the
// library waits for seconds. It returns [ErrUnavailable] if ctx ends first.
func (db *DB) Lock(ctx context.Context, r Ref) (unlock func(), err error) {
	return db.locks.lock(ctx, r.doc.Path)
}

type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	held chan struct{}
	open int // holders and waiters
}

func (m *keyedMutex) lock(ctx context.Context, doc string) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = map[string]*keyLock{}
	}
	l := m.locks[doc]
	if l == nil {
		l = &keyLock{held: make(chan struct{}, 1)}
		m.locks[doc] = l
	}
	l.open++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.open--; l.open == 0 {
			delete(m.locks, doc)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}
