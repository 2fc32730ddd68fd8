package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// revisionDoc is a document of apps/{namespace}.{app}/deployments/{revision}.
type revisionDoc struct {
	Number      int64     `firestore:"revision"`
	Image       string    `firestore:"image"`
	Digest      string    `firestore:"digest"`
	Commit      string    `firestore:"commit"`
	Trigger     string    `firestore:"trigger"`
	Actor       string    `firestore:"actor"`
	Source      int64     `firestore:"source_revision"`
	Note        string    `firestore:"note"`
	Status      string    `firestore:"status"`
	Message     string    `firestore:"message"`
	DeployedAt  time.Time `firestore:"deployed_at"`
	AppliedAt   time.Time `firestore:"applied_at"`
	SettledAt   time.Time `firestore:"settled_at"`
	Build       int64     `firestore:"build"`
	NewestBuild int64     `firestore:"newest_build"`
}

func revisionToDoc(r deploy.Revision) revisionDoc {
	return revisionDoc{
		Number: r.Number, Image: r.Image, Digest: r.Digest, Commit: r.Commit,
		Trigger: string(r.Trigger), Actor: r.Actor, Source: r.Source, Note: r.Note,
		Status: string(r.Status), Message: r.Message, DeployedAt: r.DeployedAt, AppliedAt: r.AppliedAt, SettledAt: r.SettledAt,
		Build: r.Build, NewestBuild: r.NewestBuild,
	}
}

func (d revisionDoc) revision() deploy.Revision {
	return deploy.Revision{
		Number: d.Number, Image: d.Image, Digest: d.Digest, Commit: d.Commit,
		Trigger: deploy.Trigger(d.Trigger), Actor: d.Actor, Source: d.Source, Note: d.Note,
		Status: deploy.Status(d.Status), Message: d.Message, DeployedAt: d.DeployedAt.UTC(), AppliedAt: d.AppliedAt.UTC(), SettledAt: d.SettledAt.UTC(),
		Build: d.Build, NewestBuild: d.NewestBuild,
	}
}

func (s *Store) revisions(ref app.Ref) *firestore.CollectionRef {
	return s.appRef(ref).Collection("deployments")
}

func (s *Store) revisionRef(ref app.Ref, n int64) *firestore.DocumentRef {
	return s.revisions(ref).Doc(strconv.FormatInt(n, 10))
}

// RecordDeployment adds a revision to an app and makes it the current one, in one
// transaction on the app's document, so that two at once get two numbers. rule is
// called in it with the app and its current revision, the zero Revision before the
// first, and gives the new one without its number. Problems: not_found, conflict,
// and those of rule.
func (s *Store) RecordDeployment(ctx context.Context, ref app.Ref, rule func(a app.App, current deploy.Revision) (deploy.Revision, error)) (deploy.Revision, error) {
	var recorded deploy.Revision
	err := s.transact(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		head, err := s.txHead(tx, ref)
		if err != nil {
			return err
		}
		rev, err := rule(head.doc.app(), head.current)
		if err != nil {
			return err
		}
		recorded, err = s.txRecord(tx, head, rev)
		return err
	})
	if err != nil {
		return deploy.Revision{}, fmt.Errorf("record deployment of %s: %w", ref, err)
	}
	return recorded, nil
}

// head is an app with its current revision, as read in a transaction.
type head struct {
	ref     app.Ref
	doc     appDoc
	current deploy.Revision // zero before the first
}

func (s *Store) txHead(tx *firestore.Transaction, ref app.Ref) (head, error) {
	h := head{ref: ref}
	var err error
	if h.doc, err = txGet[appDoc](tx, s.appRef(ref), "app"); err != nil {
		return head{}, err
	}
	if h.doc.Revision == 0 {
		return h, nil
	}
	d, err := txGet[revisionDoc](tx, s.revisionRef(ref, h.doc.Revision), "revision")
	if err != nil {
		if problem.Is(err, problem.NotFound) { // the app is being deleted, which begins with its history
			h.current = deploy.First(h.doc.app())
			return h, nil
		}
		return head{}, err
	}
	h.current = d.revision()
	return h, nil
}

// txRecord writes a new current revision; all reads of the transaction lie before it.
func (s *Store) txRecord(tx *firestore.Transaction, h head, rev deploy.Revision) (deploy.Revision, error) {
	rev = rev.After(h.current, h.doc.Revisions)
	if old, changed := h.current.Overtaken(rev.Number); changed {
		if err := tx.Set(s.revisionRef(h.ref, old.Number), revisionToDoc(old)); err != nil {
			return deploy.Revision{}, err
		}
	}
	d := h.doc
	d.Image, d.Revision, d.Revisions, d.UpdatedAt = rev.Runs(), rev.Number, rev.Number, rev.DeployedAt
	if err := tx.Set(s.appRef(h.ref), d); err != nil {
		return deploy.Revision{}, err
	}
	return rev, tx.Create(s.revisionRef(h.ref, rev.Number), revisionToDoc(rev))
}

// Deployment reads one revision of an app. Problem: not_found.
func (s *Store) Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error) {
	d, err := get[revisionDoc](ctx, s.revisionRef(ref, revision), "revision")
	if err != nil {
		return deploy.Revision{}, err
	}
	return d.revision(), nil
}

// Deployments lists an app's revisions, newest first.
func (s *Store) Deployments(ctx context.Context, ref app.Ref, page Page) ([]deploy.Revision, string, error) {
	docs, next, err := newest(ctx, s.revisions(ref), "revision", page, func(d revisionDoc) int64 { return d.Number })
	if err != nil {
		return nil, "", fmt.Errorf("list deployments of %s: %w", ref, err)
	}
	revisions := make([]deploy.Revision, len(docs))
	for i, d := range docs {
		revisions[i] = d.revision()
	}
	return revisions, next, nil
}

// UpdateDeployment moves a revision on in a transaction: change gets what is stored
// and gives what shall be and whether to write it. A revision that becomes live
// supersedes the one that was. With announce, a revision that the change finishes
// is put into the outbox in the same transaction. Problems: not_found; conflict
// when the revision is not the app's current one any more.
func (s *Store) UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, announce bool, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error) {
	var changed deploy.Revision
	err := s.transact(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		h, err := s.txHead(tx, ref)
		if err != nil {
			return err
		}
		if h.doc.Revision != revision {
			return problem.New(problem.Conflict, "Revision %d is not the current one any more.", revision)
		}
		var write bool
		if changed, write = change(h.current); !write {
			return nil
		}
		return s.txSettle(tx, h, changed, announce)
	})
	if err != nil {
		return deploy.Revision{}, fmt.Errorf("update revision %d of %s: %w", revision, ref, err)
	}
	return changed, nil
}

// txSettle writes what has become of the current revision, and of those that it
// replaces.
func (s *Store) txSettle(tx *firestore.Transaction, h head, rev deploy.Revision, announce bool) error {
	turned := rev.Status != h.current.Status
	first := true
	if turned && rev.Status == deploy.Live {
		live, err := txDocuments[revisionDoc](tx, s.revisions(h.ref).Where("status", "==", string(deploy.Live)))
		if err != nil {
			return err
		}
		for _, d := range live {
			first = false
			if err := tx.Set(s.revisionRef(h.ref, d.Number), revisionToDoc(d.revision().Replaced(rev.Number))); err != nil {
				return err
			}
		}
	}
	if announce && turned && rev.Finished() {
		if err := s.txAnnounce(tx, deploy.Announce(h.doc.app(), rev, first)); err != nil {
			return err
		}
	}
	return tx.Set(s.revisionRef(h.ref, rev.Number), revisionToDoc(rev))
}
