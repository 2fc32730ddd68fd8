package store

import (
	"context"
	"sync"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/problem"
)

// turns lets one change of a document at a time through in this process. That only
// saves attempts that would lose their race, after which the library waits for
// seconds; other processes are not seen.
type turns struct {
	mu   sync.Mutex
	docs map[string]*turn // by the document's path
}

type turn struct {
	free    chan struct{} // holds the one whose turn it is
	waiting int           // that one and those who wait
}

// inTurn is [Store.transact] for a change of one document, when its turn has come.
func (s *Store) inTurn(ctx context.Context, ref *firestore.DocumentRef, f func(ctx context.Context, tx *firestore.Transaction) error) error {
	waiting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	give, ok := s.turns.take(waiting, ref.Path)
	if !ok {
		return problem.Of(problem.Unavailable).Because(waiting.Err())
	}
	defer give()
	return s.transact(ctx, f)
}

// take waits for a document's turn; give gives it back. It tells whether ctx has
// not ended before.
func (t *turns) take(ctx context.Context, doc string) (give func(), ok bool) {
	t.mu.Lock()
	if t.docs == nil {
		t.docs = map[string]*turn{}
	}
	one := t.docs[doc]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		t.docs[doc] = one
	}
	one.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(t.docs, doc)
		}
	}
	select {
	case one.free <- struct{}{}:
		return func() { <-one.free; leave() }, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}
