package store

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// deletePage is how many documents of a history one transaction deletes.
const deletePage = 200

// txFirstRevision writes the first revision of an app that is made with an image.
func (s *Store) txFirstRevision(tx *firestore.Transaction, a app.App) error {
	if a.Revision == 0 {
		return nil
	}
	return tx.Create(s.revisionRef(a.Ref(), a.Revision), revisionToDoc(deploy.First(a)))
}

// deleteHistory deletes an app's revisions and builds, which Firestore would keep
// when the app's document goes: the next app of that name starts with nothing. It
// deletes nothing of an app that is not there. Problem: not_found.
func (s *Store) deleteHistory(ctx context.Context, ref app.Ref) error {
	for {
		deleted := 0
		err := s.transact(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			var err error
			deleted, err = s.txDeletePage(tx, ref)
			return err
		})
		if err != nil || deleted == 0 {
			return err
		}
	}
}

// txDeletePage deletes some of an app's revisions and builds and tells how many.
func (s *Store) txDeletePage(tx *firestore.Transaction, ref app.Ref) (int, error) {
	if _, err := txGet[appDoc](tx, s.appRef(ref), "app"); err != nil {
		return 0, err
	}
	revisions, err := tx.Documents(s.revisions(ref).Limit(deletePage)).GetAll()
	if err != nil {
		return 0, err
	}
	builds, err := tx.Documents(s.builds(ref).Limit(deletePage)).GetAll()
	if err != nil {
		return 0, err
	}
	var gone []*firestore.DocumentRef
	for _, d := range append(revisions, builds...) {
		gone = append(gone, d.Ref)
	}
	for _, b := range builds {
		gone = append(gone, s.pendingBuilds().Doc(ref.String()+"."+b.Ref.ID))
	}
	for _, d := range gone {
		if err := tx.Delete(d); err != nil {
			return 0, err
		}
	}
	return len(revisions) + len(builds), nil
}

// txNoHistory makes sure that nothing was deployed or built since deleteHistory.
// Problem: conflict.
func (s *Store) txNoHistory(tx *firestore.Transaction, ref app.Ref) error {
	for _, coll := range []*firestore.CollectionRef{s.revisions(ref), s.builds(ref)} {
		some, err := txExists(tx, coll.Query)
		if err != nil {
			return err
		}
		if some {
			return problem.New(problem.Conflict, "The app was deployed while it was being deleted; delete it again.").
				Because(fmt.Errorf("there are %s", coll.ID))
		}
	}
	return nil
}
