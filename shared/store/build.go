package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

func readBuild(doc fire.Doc) (deploy.Build, error) {
	b, err := shape[deploy.Build](doc)
	b.Trigger = cmp.Or(b.Trigger, deploy.Webhook) // empty in documents of earlier versions
	return b, err
}

type pendingDoc struct {
	Namespace string `firestore:"namespace"`
	App       string `firestore:"app"`
	Number    int64  `firestore:"build"`
}

func (s *Store) builds(ref app.Ref) fire.Query { return s.appRef(ref).Collection("builds") }

func (s *Store) buildRef(ref app.Ref, n int64) fire.Ref {
	return s.builds(ref).Doc(strconv.FormatInt(n, 10))
}

func (s *Store) pendingRef(ref app.Ref, n int64) fire.Ref {
	return s.pendingBuilds().Doc(ref.String() + "." + strconv.FormatInt(n, 10))
}

func (d pendingDoc) value() PendingBuild {
	return PendingBuild{App: app.Ref{Namespace: d.Namespace, Name: d.App}, Number: d.Number}
}

// RecordBuild adds a build to an app. rule returns the build without a number. RecordBuild may
// return too_many_builds.
func (s *Store) RecordBuild(ctx context.Context, ref app.Ref, rule func(a app.App) (deploy.Build, error)) (deploy.Build, error) {
	recorded, _, err := s.RecordBuildOnce(ctx, ref, hook.CallID{}, time.Time{}, rule)
	return recorded, err
}

// RecordBuildOnce is RecordBuild for a request that may be repeated. A repeated request returns the
// recorded build, and fresh is false. It returns idempotency_key_reused if the requests differ.
func (s *Store) RecordBuildOnce(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(a app.App) (deploy.Build, error)) (recorded deploy.Build, fresh bool, err error) {
	err = s.optimistic(ctx, "record build of "+ref.String(), ref, func(ctx context.Context, c current, b *batch, _ int) error {
		before, found, err := s.requested(ctx, d, c.doc.value(), now)
		if err != nil {
			return err
		}
		if fresh = !found; found {
			recorded, err = s.Build(ctx, ref, before.Build)
			return err
		}
		build, err := rule(c.doc.value())
		if err != nil {
			return err
		}
		if err := s.checkQueue(ctx, ref); err != nil {
			return err
		}
		recorded = s.addBuild(ctx, c, b, build)
		s.storeRequest(b, d, c.doc.value(), hook.StoredResponse{Action: hook.Build, Build: recorded.Number}, now)
		return nil
	})
	return recorded, fresh, err
}

// checkQueue limits queued builds to [deploy.MaxQueued]. Concurrent calls cannot exceed it, because
// each commit depends on the app's document.
func (s *Store) checkQueue(ctx context.Context, ref app.Ref) error {
	queued, err := find(ctx, s.builds(ref).Where("status", "==", deploy.Queued).Select("build").Limit(deploy.MaxQueued), readBuild)
	if err == nil && len(queued) >= deploy.MaxQueued {
		err = problem.FromCode(problem.TooManyBuilds)
	}
	return err
}

func (s *Store) addBuild(ctx context.Context, c current, b *batch, build deploy.Build) deploy.Build {
	build.Number = c.doc.Builds + 1
	b.app["builds"] = build.Number
	s.setPending(b, c.ref, build)
	b.Create(s.buildRef(c.ref, build.Number), build)
	s.record(ctx, b, audit.Change{
		Action: audit.RequestBuild, Project: c.doc.Project, New: buildView(build),
		Resource: audit.Path(appPath(c.doc.value()), "builds", strconv.FormatInt(build.Number, 10)),
	})
	return build
}

func (s *Store) setPending(b *batch, ref app.Ref, build deploy.Build) {
	pending := s.pendingRef(ref, build.Number)
	if build.Final() {
		b.Delete(pending)
	} else {
		b.Set(pending, pendingDoc{Namespace: ref.Namespace, App: ref.Name, Number: build.Number})
	}
}

// Build returns a build of an app.
func (s *Store) Build(ctx context.Context, ref app.Ref, n int64) (deploy.Build, error) {
	return get(ctx, s.buildRef(ref, n), "build", readBuild)
}

// Builds lists an app's builds, newest first.
func (s *Store) Builds(ctx context.Context, ref app.Ref, page Page) ([]deploy.Build, string, error) {
	return newest(ctx, s.builds(ref), "build", page, readBuild)
}

// OpenBuilds returns the numbers of an app's builds that are not final.
func (s *Store) OpenBuilds(ctx context.Context, ref app.Ref) ([]int64, error) {
	open := []deploy.BuildStatus{deploy.Queued, deploy.Running}
	builds, err := find(ctx, s.builds(ref).Where("status", "in", open).Select("build"), readBuild)
	numbers := make([]int64, len(builds))
	for i, b := range builds {
		numbers[i] = b.Number
	}
	return numbers, err
}

// PendingBuild identifies a build that is not final.
type PendingBuild struct {
	App    app.Ref
	Number int64
}

// PendingBuilds lists all apps' builds that are not final.
func (s *Store) PendingBuilds(ctx context.Context, page Page) ([]PendingBuild, string, error) {
	return list(ctx, s.pendingBuilds(), page, decode[pendingDoc])
}

// ForgetBuild deletes the pending document of a build whose app was deleted.
func (s *Store) ForgetBuild(ctx context.Context, p PendingBuild) error {
	return deleteDoc(ctx, s.pendingRef(p.App, p.Number))
}

// ObserveBuild updates a build from its run. If the run has built an image, the same commit records
// its revision, or that the build is no longer deployed ([deploy.Build.Deploys]). A repeated event
// thus finds a final build. It returns not_found if the build belongs to a later app with the same
// name.
func (s *Store) ObserveBuild(ctx context.Context, ref app.Ref, observed deploy.Build, run deploy.Run, now time.Time) (build deploy.Build, err error) {
	n := observed.Number
	op := fmt.Sprintf("observe build %d of %s", n, ref)
	err = s.optimistic(ctx, op, ref, func(ctx context.Context, c current, b *batch, _ int) error {
		stored, err := s.Build(ctx, ref, n)
		if err != nil {
			return err
		}
		if stored.ID() != observed.ID() {
			return problem.New(problem.NotFound, "The build does not exist.")
		}
		var changed bool
		if build, changed = stored.Observe(run, now); !changed {
			return nil
		}
		if run.Done && !build.Final() {
			build = s.deployBuild(ctx, c, b, build, now)
		}
		s.setPending(b, ref, build)
		b.Change(s.buildRef(ref, n), stored, build)
		return nil
	})
	return build, err
}

func (s *Store) deployBuild(ctx context.Context, c current, b *batch, build deploy.Build, now time.Time) deploy.Build {
	done, rev, deploys := build.Deploys(c.doc.value(), c.revision, now)
	if deploys {
		by := reqctx.WithActor(ctx, reqctx.Actor{Kind: reqctx.Build, Name: rev.Actor})
		done.Revision = s.addRevision(by, c, b, rev, "").Number
	}
	return done
}
