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
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// recordedDoc is a document of apps/{namespace}.{app}/deployments/{revision}. Record names the
// attempt that recorded the revision.
type recordedDoc struct {
	deploy.Revision

	Record string `firestore:"record,omitempty"`
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
	recorded, _, err := s.RecordDeploymentOnce(ctx, ref, hook.Delivery{}, time.Time{}, rule)
	return recorded, err
}

// RecordDeploymentOnce is RecordDeployment for a request that may be sent again: then it
// returns what the first one recorded, and fresh is false. Problem: idempotency_key_reused.
func (s *Store) RecordDeploymentOnce(ctx context.Context, ref app.Ref, d hook.Delivery, now time.Time, rule func(a app.App, current deploy.Revision) (deploy.Revision, error)) (recorded deploy.Revision, fresh bool, err error) {
	id := rand.Text()
	err = s.optimistic(ctx, "record deployment of "+ref.String(), ref, func(ctx context.Context, c current, b *batch, try int) error {
		before, found, err := s.requested(ctx, d, c.doc.value(), now)
		if err != nil {
			return err
		}
		if fresh = !found; found {
			recorded, err = s.Deployment(ctx, ref, before.Revision)
			return err
		}
		if try > 1 { // the commit before may have gone through without an answer
			done, err := find(ctx, s.revisions(ref).Where("record", "==", id).Limit(1), shape[deploy.Revision])
			if err != nil {
				return err
			}
			if len(done) > 0 {
				recorded = done[0]
				return nil
			}
		}
		rev, err := rule(c.doc.value(), c.revision)
		if err != nil {
			return err
		}
		recorded = s.addRevision(ctx, c, b, rev, id)
		s.keepRequest(b, d, c.doc.value(), hook.Answer{Action: hook.Deploy, Revision: recorded.Number}, now)
		return nil
	})
	return recorded, fresh, err
}

// addRevision writes a new current revision of an app and gives it its number. attempt
// names this attempt.
func (s *Store) addRevision(ctx context.Context, c current, b *batch, rev deploy.Revision, attempt string) deploy.Revision {
	rev = rev.After(c.revision, c.doc.Revisions, c.doc.Builds)
	if old, changed := c.revision.Overtaken(rev.Number); changed {
		b.change(s.revisionRef(c.ref, old.Number), c.revision, old)
	}
	b.app = append(b.app,
		firestore.Update{Path: "image", Value: rev.Runs()},
		firestore.Update{Path: "revision", Value: rev.Number},
		firestore.Update{Path: "revisions", Value: rev.Number},
		firestore.Update{Path: "deployed", Value: deployedOf(rev)},
		firestore.Update{Path: "updated_at", Value: rev.DeployedAt},
	)
	b.create(s.revisionRef(c.ref, rev.Number), recordedDoc{Revision: rev, Record: attempt})
	s.record(ctx, b, audit.Change{
		Action: audit.Deploy, Project: c.doc.Project, Old: deploymentView(c.revision), New: deploymentView(rev),
		Resource: audit.Path(appPath(c.doc.value()), "deployments", strconv.FormatInt(rev.Number, 10)),
	})
	return rev
}

// Deployment reads one revision of an app. Problem: not_found.
func (s *Store) Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error) {
	return get(ctx, s.revisionRef(ref, revision), "revision", shape[deploy.Revision])
}

// Deployments lists an app's revisions, newest first.
func (s *Store) Deployments(ctx context.Context, ref app.Ref, page Page) ([]deploy.Revision, string, error) {
	return newest(ctx, s.revisions(ref), "revision", page, shape[deploy.Revision])
}

// UpdateDeployment moves an app's current revision on: change gets what is stored and
// gives what shall be and whether to write it; it may be called more than once. A
// revision that becomes live supersedes the one that was. A revision
// that the change finishes is announced in the same commit. Problems:
// not_found; conflict when the revision is not the app's current one any more.
func (s *Store) UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, change func(deploy.Revision) (deploy.Revision, bool)) (changed deploy.Revision, err error) {
	op := fmt.Sprintf("update revision %d of %s", revision, ref)
	err = s.optimistic(ctx, op, ref, func(ctx context.Context, c current, b *batch, _ int) error {
		if c.doc.Revision != revision {
			return problem.New(problem.Conflict, "Revision %d is not the current one any more.", revision)
		}
		var write bool
		if changed, write = change(c.revision); !write {
			return nil
		}
		return s.setRevision(ctx, c, b, changed)
	})
	return changed, err
}

// SetReady records that a pod of a revision was ready, if no earlier time is recorded. The
// revision need not be the current one. It does nothing if the app or the revision does
// not exist.
func (s *Store) SetReady(ctx context.Context, ref app.Ref, revision int64, at time.Time) error {
	op := fmt.Sprintf("set revision %d of %s ready", revision, ref)
	err := s.optimistic(ctx, op, ref, func(ctx context.Context, _ current, b *batch, _ int) error {
		rev, err := s.Deployment(ctx, ref, revision)
		if err == nil && rev.ReadyAt.IsZero() {
			b.update(s.revisionRef(ref, revision), firestore.Update{Path: "ready_at", Value: at})
		}
		return err
	})
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	return err
}

// setRevision writes what has become of the current revision, and of those that it
// replaces.
func (s *Store) setRevision(ctx context.Context, c current, b *batch, rev deploy.Revision) error {
	turned := rev.Status != c.revision.Status
	first := true
	if turned && rev.Status == deploy.Live {
		live, err := find(ctx, s.revisions(c.ref).Where("status", "==", deploy.Live), shape[deploy.Revision])
		if err != nil {
			return err
		}
		for _, old := range live {
			first = false
			b.change(s.revisionRef(c.ref, old.Number), old, old.Replaced(rev.Number))
		}
	}
	if turned && rev.Finished() {
		s.announce(b, event.OfDeployment(c.doc.value(), rev, first))
	}
	b.app = append(b.app, firestore.Update{Path: "deployed", Value: deployedOf(rev)})
	b.change(s.revisionRef(c.ref, rev.Number), c.revision, rev)
	return nil
}
