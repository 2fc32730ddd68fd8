package store

import (
	"context"
	"sync"

	"github.com/sluicegate/sluice/shared/app"
)

// turns lets one amendment of an app at a time through in this process. That only
// saves attempts that would lose their race; other processes are not seen.
type turns struct {
	mu   sync.Mutex
	apps map[app.Ref]*turn
}

type turn struct {
	free    chan struct{} // holds the one whose turn it is
	waiting int           // that one and those who wait
}

// take waits for an app's turn; give gives it back. It tells whether ctx has not
// ended before.
func (t *turns) take(ctx context.Context, ref app.Ref) (give func(), ok bool) {
	t.mu.Lock()
	if t.apps == nil {
		t.apps = map[app.Ref]*turn{}
	}
	one := t.apps[ref]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		t.apps[ref] = one
	}
	one.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(t.apps, ref)
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
