package store

import (
	"context"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// deletePage is how many documents of a history one transaction deletes.
const deletePage = 200

// First is what a new app begins with.
type First struct {
	Revision deploy.Revision // of an app that is made with an image
	Build    *deploy.Build   // of a git app, so that it is never lost; nil for none
}

// txFirst writes a new app with what it begins with. One that is made with an image and
// no revision has the plain one that [deploy.First] gives.
func (s *Store) txFirst(ctx context.Context, tx *firestore.Transaction, a app.App, first []First) error {
	d, m, rev := appDoc{}.with(a), &amendment{}, deploy.First(a)
	for _, f := range first {
		rev = f.Revision
		if f.Build != nil {
			d.Builds = s.recordBuild(ctx, head{ref: a.Ref(), doc: d}, m, *f.Build).Number
		}
	}
	if a.Revision > 0 {
		m.create(s.revisionRef(a.Ref(), a.Revision), revisionToDoc(rev))
	}
	if err := tx.Create(s.appRef(a.Ref()), d); err != nil {
		return err
	}
	return m.write(tx)
}

// txDeleteHistory deletes some of an app's revisions and builds, which Firestore would
// keep when the app's document goes: the next app of that name starts with nothing. It
// tells whether these were the last.
func (s *Store) txDeleteHistory(tx *firestore.Transaction, ref app.Ref) (bool, error) {
	revisions, err := tx.Documents(s.revisions(ref).Limit(deletePage)).GetAll()
	if err != nil {
		return false, err
	}
	builds, err := tx.Documents(s.builds(ref).Limit(deletePage)).GetAll()
	if err != nil {
		return false, err
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
			return false, err
		}
	}
	return len(revisions) < deletePage && len(builds) < deletePage, nil
}
