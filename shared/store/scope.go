package store

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

const (
	narrowPage    = 100 // keys that one transaction changes
	narrowedShown = 100
)

// Narrowed is the result of removing an app from the scopes of keys.
type Narrowed struct {
	Count int
	Keys  []apikey.Key // the first narrowedShown keys, after the change
}

func (s *Store) keysNaming(ref app.Ref) fire.Query {
	return s.keys().Where("namespace", "==", ref.Namespace).Where("apps", "array-contains", ref.Name).Where("status", "in", apikey.Usable())
}

// LeaveScopes removes an app from the scopes of all usable keys, before its deletion.
func (s *Store) LeaveScopes(ctx context.Context, expected app.App) (Narrowed, error) {
	ref := expected.Ref()
	var all Narrowed
	for {
		var some []apikey.Key
		err := s.transact(ctx, "remove "+ref.String()+" from scopes", func(ctx context.Context, tx fire.Tx, b *batch) (err error) {
			a, err := txGet(tx, s.appRef(ref), "app", decode[appDoc])
			if err != nil {
				return err
			}
			if !sameTime(a.CreatedAt, expected.CreatedAt) {
				return problem.New(problem.NotFound, "The app does not exist.")
			}
			some, err = s.narrow(ctx, tx, b, ref)
			return err
		})
		if err != nil || len(some) == 0 {
			return all, err
		}
		all.Count += len(some)
		all.Keys = append(all.Keys, some[:min(len(some), narrowedShown-len(all.Keys))]...)
	}
}

// narrow preserves fields of later versions.
func (s *Store) narrow(ctx context.Context, tx fire.Tx, b *batch, ref app.Ref) ([]apikey.Key, error) {
	docs, err := tx.Find(s.keysNaming(ref).Limit(narrowPage))
	if err != nil {
		return nil, err
	}
	keys, err := readAll(docs, readKey)
	if err != nil {
		return nil, err
	}
	for i, stored := range keys {
		keys[i] = stored.WithoutApp(ref.Name, s.now().UTC().Truncate(time.Microsecond))
		b.Update(docs[i].Ref, fire.Fields{"apps": keys[i].Apps, "updated_at": keys[i].UpdatedAt})
		s.relist(b, keys[i])
		s.recordUpdate(ctx, b, keyChange(stored, keys[i]))
	}
	return keys, nil
}
