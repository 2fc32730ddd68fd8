package checker

import (
	"log/slog"
	"sync/atomic"

	"github.com/sluicegate/sluice/shared/store"
)

// unreadable are the documents of a collection that are none of Sluice's, or are
// damaged: other fields, other types, the id of another one. They open nothing, and
// they keep nothing else from being heard. Each is logged once. Only the listener of
// the collection uses it, apart from count.
type unreadable struct {
	what  store.CanaryType
	log   *slog.Logger
	ids   map[string]bool
	count atomic.Int64
}

// takeIn notes which documents of a batch cannot be read.
func takeIn[T any](u *unreadable, b store.Batch[T]) {
	before := u.ids
	if b.Reset || u.ids == nil {
		u.ids = map[string]bool{}
	}
	for _, c := range b.Changes {
		if c.Err == nil {
			delete(u.ids, c.ID)
			continue
		}
		if !before[c.ID] {
			u.log.Error("unreadable document opens nothing", "collection", string(u.what), "id", c.ID, "error", c.Err)
		}
		u.ids[c.ID] = true
	}
	u.count.Store(int64(len(u.ids)))
}
