package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
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
	HeldBuild   int64     `firestore:"held_build"`
	Record      string    `firestore:"record,omitempty"` // the attempt that recorded it
}

func revisionToDoc(r deploy.Revision) revisionDoc {
	return revisionDoc{
		Number: r.Number, Image: r.Image, Digest: r.Digest, Commit: r.Commit,
		Trigger: string(r.Trigger), Actor: r.Actor, Source: r.Source, Note: r.Note,
		Status: string(r.Status), Message: r.Message, DeployedAt: r.DeployedAt, AppliedAt: r.AppliedAt, SettledAt: r.SettledAt,
		Build: r.Build, NewestBuild: r.NewestBuild, HeldBuild: r.HeldBuild,
	}
}

func (d revisionDoc) revision() deploy.Revision {
	return deploy.Revision{
		Number: d.Number, Image: d.Image, Digest: d.Digest, Commit: d.Commit,
		Trigger: deploy.Trigger(d.Trigger), Actor: d.Actor, Source: d.Source, Note: d.Note,
		Status: deploy.Status(d.Status), Message: d.Message, DeployedAt: d.DeployedAt.UTC(), AppliedAt: d.AppliedAt.UTC(), SettledAt: d.SettledAt.UTC(),
		Build: d.Build, NewestBuild: d.NewestBuild, HeldBuild: d.HeldBuild,
	}
}

func (s *Store) revisions(ref app.Ref) *firestore.CollectionRef {
	return s.appRef(ref).Collection("deployments")
}

func (s *Store) revisionRef(ref app.Ref, n int64) *firestore.DocumentRef {
	return s.revisions(ref).Doc(strconv.FormatInt(n, 10))
}

// RecordDeployment adds a revision to an app and makes it the current one, in one
// commit with the app's document, so that two at once get two numbers. rule is
// called with the app and its current revision, the zero Revision before the first,
// and gives the new one without its number; it may be called more than once.
// Problems: not_found, conflict, and those of rule.
func (s *Store) RecordDeployment(ctx context.Context, ref app.Ref, rule func(a app.App, current deploy.Revision) (deploy.Revision, error)) (deploy.Revision, error) {
	var recorded deploy.Revision
	id := rand.Text()
	err := s.amend(ctx, ref, func(ctx context.Context, h head, m *amendment, try int) error {
		if try > 1 { // the commit before may have gone through without an answer
			done, err := documents[revisionDoc](ctx, s.revisions(ref).Where("record", "==", id).Limit(1))
			if err != nil {
				return err
			}
			if len(done) > 0 {
				recorded = done[0].revision()
				return nil
			}
		}
		rev, err := rule(h.doc.app(), h.current)
		if err != nil {
			return err
		}
		recorded = s.record(ctx, h, m, rev, id)
		return nil
	})
	if err != nil {
		return deploy.Revision{}, fmt.Errorf("record deployment of %s: %w", ref, err)
	}
	return recorded, nil
}

// record puts a new current revision into an amendment and gives it its number. id
// names the attempt.
func (s *Store) record(ctx context.Context, h head, m *amendment, rev deploy.Revision, id string) deploy.Revision {
	rev = rev.After(h.current, h.doc.Revisions, h.doc.Builds)
	if old, changed := h.current.Overtaken(rev.Number); changed {
		m.set(s.revisionRef(h.ref, old.Number), revisionToDoc(old))
	}
	m.app = append(m.app,
		firestore.Update{Path: "image", Value: rev.Runs()},
		firestore.Update{Path: "revision", Value: rev.Number},
		firestore.Update{Path: "revisions", Value: rev.Number},
		firestore.Update{Path: "deployed", Value: deployedOf(rev)},
		firestore.Update{Path: "updated_at", Value: rev.DeployedAt},
	)
	d := revisionToDoc(rev)
	d.Record = id
	m.create(s.revisionRef(h.ref, rev.Number), d)
	m.record(ctx, s, audit.Change{
		Action: audit.Deploy, Project: h.doc.Project, Resource: audit.Path(appPath(h.doc.app()), "deployments", strconv.FormatInt(rev.Number, 10)),
		Old: deploymentView(h.current), New: deploymentView(rev),
	})
	return rev
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

// UpdateDeployment moves an app's current revision on: change gets what is stored and
// gives what shall be and whether to write it; it may be called more than once. A
// revision that becomes live supersedes the one that was. With announce, a revision
// that the change finishes is put into the outbox in the same commit. Problems:
// not_found; conflict when the revision is not the app's current one any more.
func (s *Store) UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, announce bool, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error) {
	var changed deploy.Revision
	err := s.amend(ctx, ref, func(ctx context.Context, h head, m *amendment, _ int) error {
		if h.doc.Revision != revision {
			return problem.New(problem.Conflict, "Revision %d is not the current one any more.", revision)
		}
		var write bool
		if changed, write = change(h.current); !write {
			return nil
		}
		return s.settle(ctx, h, m, changed, announce)
	})
	if err != nil {
		return deploy.Revision{}, fmt.Errorf("update revision %d of %s: %w", revision, ref, err)
	}
	return changed, nil
}

// settle puts what has become of the current revision, and of those that it
// replaces, into an amendment.
func (s *Store) settle(ctx context.Context, h head, m *amendment, rev deploy.Revision, announce bool) error {
	turned := rev.Status != h.current.Status
	first := true
	if turned && rev.Status == deploy.Live {
		live, err := documents[revisionDoc](ctx, s.revisions(h.ref).Where("status", "==", string(deploy.Live)))
		if err != nil {
			return err
		}
		for _, d := range live {
			first = false
			m.set(s.revisionRef(h.ref, d.Number), revisionToDoc(d.revision().Replaced(rev.Number)))
		}
	}
	if announce && turned && rev.Finished() {
		s.announce(m, deploy.Announce(h.doc.app(), rev, first))
	}
	m.app = append(m.app, firestore.Update{Path: "deployed", Value: deployedOf(rev)})
	m.set(s.revisionRef(h.ref, rev.Number), revisionToDoc(rev))
	return nil
}
