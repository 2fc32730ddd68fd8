package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// recordedDoc is a revision. Record identifies the attempt that recorded it.
type recordedDoc struct {
	deploy.Revision

	Record string `firestore:"record,omitempty"`
}

func (s *Store) revisions(ref app.Ref) fire.Query { return s.appRef(ref).Collection("deployments") }

func (s *Store) revisionRef(ref app.Ref, n int64) fire.Ref {
	return s.revisions(ref).Doc(strconv.FormatInt(n, 10))
}

// RecordDeployment adds a revision to an app and makes it the current one. rule receives the
// current revision, zero before the first, and returns the new one without a number.
func (s *Store) RecordDeployment(ctx context.Context, ref app.Ref, rule func(a app.App, current deploy.Revision) (deploy.Revision, error)) (deploy.Revision, error) {
	recorded, _, err := s.RecordDeploymentOnce(ctx, ref, hook.CallID{}, time.Time{}, rule)
	return recorded, err
}

// RecordDeploymentOnce is RecordDeployment for a request that may be repeated, like
// [Store.RecordBuildOnce].
func (s *Store) RecordDeploymentOnce(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(a app.App, current deploy.Revision) (deploy.Revision, error)) (recorded deploy.Revision, fresh bool, err error) {
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
		if try > 1 { // the previous attempt may have succeeded although its response was lost
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
		s.storeRequest(b, d, c.doc.value(), hook.StoredResponse{Action: hook.Deploy, Revision: recorded.Number}, now)
		return nil
	})
	return recorded, fresh, err
}

func (s *Store) addRevision(ctx context.Context, c current, b *batch, rev deploy.Revision, attempt string) deploy.Revision {
	rev = rev.After(c.revision, c.doc.Revisions, c.doc.Builds)
	if old, changed := c.revision.Supersede(rev.Number); changed {
		b.Change(s.revisionRef(c.ref, old.Number), c.revision, old)
	}
	maps.Copy(b.app, fire.Fields{
		"image": rev.Runs(), "revision": rev.Number, "revisions": rev.Number, "deployed": deployedOf(rev), "updated_at": rev.DeployedAt,
	})
	b.Create(s.revisionRef(c.ref, rev.Number), recordedDoc{Revision: rev, Record: attempt})
	s.record(ctx, b, audit.Change{
		Action: audit.Deploy, Project: c.doc.Project, Old: deploymentView(c.revision), New: deploymentView(rev),
		Resource: audit.Path(appPath(c.doc.value()), "deployments", strconv.FormatInt(rev.Number, 10)),
	})
	return rev
}

// Deployment returns a revision of an app.
func (s *Store) Deployment(ctx context.Context, ref app.Ref, revision int64) (deploy.Revision, error) {
	return get(ctx, s.revisionRef(ref, revision), "revision", shape[deploy.Revision])
}

// Deployments lists an app's revisions, newest first.
func (s *Store) Deployments(ctx context.Context, ref app.Ref, page Page) ([]deploy.Revision, string, error) {
	return newest(ctx, s.revisions(ref), "revision", page, shape[deploy.Revision])
}

// UpdateDeployment replaces an app's current revision with the result of change, which reports
// whether to write it. A revision that becomes live supersedes the previous one. A revision that
// finishes is announced in the same commit. UpdateDeployment returns a conflict problem if the
// revision is not current.
func (s *Store) UpdateDeployment(ctx context.Context, ref app.Ref, revision int64, change func(deploy.Revision) (deploy.Revision, bool)) (changed deploy.Revision, err error) {
	op := fmt.Sprintf("update revision %d of %s", revision, ref)
	err = s.optimistic(ctx, op, ref, func(ctx context.Context, c current, b *batch, _ int) error {
		if c.doc.Revision != revision {
			return problem.New(problem.Conflict, "Revision %d is no longer the current revision.", revision)
		}
		var write bool
		if changed, write = change(c.revision); !write {
			return nil
		}
		return s.setRevision(ctx, c, b, changed)
	})
	return changed, err
}

// SetReady records the first time at which a pod of any revision was ready. It does nothing if the
// app or revision does not exist.
func (s *Store) SetReady(ctx context.Context, ref app.Ref, revision int64, at time.Time) error {
	op := fmt.Sprintf("set revision %d of %s ready", revision, ref)
	err := s.optimistic(ctx, op, ref, func(ctx context.Context, _ current, b *batch, _ int) error {
		rev, err := s.Deployment(ctx, ref, revision)
		if err == nil && rev.ReadyAt.IsZero() {
			b.Update(s.revisionRef(ref, revision), fire.Fields{"ready_at": at})
		}
		return err
	})
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	return err
}

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
			b.Change(s.revisionRef(c.ref, old.Number), old, old.Replaced(rev.Number))
		}
	}
	if turned && rev.Finished() {
		s.announce(b, event.OfDeployment(c.doc.value(), rev, first))
	}
	b.app["deployed"] = deployedOf(rev)
	b.Change(s.revisionRef(c.ref, rev.Number), c.revision, rev)
	return nil
}
