package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/trace"
)

// buildDoc is a document of apps/{namespace}.{app}/builds/{n}.
type buildDoc struct {
	Number      int64        `firestore:"build"`
	Commit      string       `firestore:"commit"`
	Source      gitSourceDoc `firestore:"source"`
	Trigger     string       `firestore:"trigger"`
	Actor       string       `firestore:"actor"`
	Status      string       `firestore:"status"`
	Message     string       `firestore:"message"`
	RunUID      string       `firestore:"run_uid"`
	Image       string       `firestore:"image"`
	Digest      string       `firestore:"digest"`
	Note        string       `firestore:"note"`
	Revision    int64        `firestore:"revision"`
	Seen        []string     `firestore:"seen"`
	RequestedAt time.Time    `firestore:"requested_at"`
	FinishedAt  time.Time    `firestore:"finished_at"`
}

func buildToDoc(b deploy.Build) buildDoc {
	return buildDoc{
		Number: b.Number, Commit: b.Commit,
		Source:  gitSourceDoc{Repository: b.Source.Repository, Branch: b.Source.Branch, Path: b.Source.Path},
		Trigger: string(b.Trigger), Actor: b.Actor, Status: string(b.Status), Message: b.Message, RunUID: b.RunUID,
		Image: b.Image, Digest: b.Digest, Note: b.Note, Revision: b.Revision, Seen: b.Seen,
		RequestedAt: b.RequestedAt, FinishedAt: b.FinishedAt,
	}
}

func (d buildDoc) build() deploy.Build {
	return deploy.Build{
		Number: d.Number, Commit: d.Commit,
		Source:  app.GitSource{Repository: d.Source.Repository, Branch: d.Source.Branch, Path: d.Source.Path},
		Trigger: deploy.Trigger(cmp.Or(d.Trigger, string(deploy.Webhook))), Actor: d.Actor, Status: deploy.BuildStatus(d.Status), Message: d.Message, RunUID: d.RunUID,
		Image: d.Image, Digest: d.Digest, Note: d.Note, Revision: d.Revision, Seen: d.Seen,
		RequestedAt: d.RequestedAt.UTC(), FinishedAt: d.FinishedAt.UTC(),
	}
}

// pendingDoc is a document of pending_builds/{namespace}.{app}.{n}: a build that
// is not final yet. It is written and deleted with the build, so that those who
// look after open builds need not look through every app's history.
type pendingDoc struct {
	Namespace string `firestore:"namespace"`
	App       string `firestore:"app"`
	Number    int64  `firestore:"build"`
}

func (s *Store) builds(ref app.Ref) *firestore.CollectionRef {
	return s.appRef(ref).Collection("builds")
}

func (s *Store) buildRef(ref app.Ref, n int64) *firestore.DocumentRef {
	return s.builds(ref).Doc(strconv.FormatInt(n, 10))
}

func (s *Store) pendingBuilds() *firestore.CollectionRef {
	return s.client.Collection("pending_builds")
}

func (s *Store) pendingRef(ref app.Ref, n int64) *firestore.DocumentRef {
	return s.pendingBuilds().Doc(ref.String() + "." + strconv.FormatInt(n, 10))
}

// RecordBuild adds a build to an app. rule is called with the app and gives the build
// without its number; it may be called more than once. Problems: not_found,
// conflict, and those of rule.
func (s *Store) RecordBuild(ctx context.Context, ref app.Ref, rule func(a app.App) (deploy.Build, error)) (deploy.Build, error) {
	var recorded deploy.Build
	err := s.amend(ctx, ref, func(ctx context.Context, h head, m *amendment, _ int) error {
		b, err := rule(h.doc.app())
		if err != nil {
			return err
		}
		recorded = s.recordBuild(ctx, h, m, b)
		return nil
	})
	if err != nil {
		return deploy.Build{}, fmt.Errorf("record build of %s: %w", ref, err)
	}
	return recorded, nil
}

// recordBuild puts a new build into an amendment and gives it its number.
func (s *Store) recordBuild(ctx context.Context, h head, m *amendment, b deploy.Build) deploy.Build {
	b.Number = h.doc.Builds + 1
	m.app = append(m.app, firestore.Update{Path: "builds", Value: b.Number})
	s.setBuild(m, h.ref, b)
	m.record(ctx, s, audit.Change{
		Action: audit.RequestBuild, Project: h.doc.Project, Resource: audit.Path(appPath(h.doc.app()), "builds", strconv.FormatInt(b.Number, 10)),
		New: buildView(b),
	})
	return b
}

// Build reads one build of an app. Problem: not_found.
func (s *Store) Build(ctx context.Context, ref app.Ref, n int64) (deploy.Build, error) {
	d, err := get[buildDoc](ctx, s.buildRef(ref, n), "build")
	if err != nil {
		return deploy.Build{}, err
	}
	return d.build(), nil
}

// Builds lists an app's builds, newest first.
func (s *Store) Builds(ctx context.Context, ref app.Ref, page Page) ([]deploy.Build, string, error) {
	docs, next, err := newest(ctx, s.builds(ref), "build", page, func(d buildDoc) int64 { return d.Number })
	if err != nil {
		return nil, "", fmt.Errorf("list builds of %s: %w", ref, err)
	}
	builds := make([]deploy.Build, len(docs))
	for i, d := range docs {
		builds[i] = d.build()
	}
	return builds, next, nil
}

// PendingBuild names a build that is not final.
type PendingBuild struct {
	App    app.Ref
	Number int64
}

// PendingBuilds lists the builds of all apps that are not final.
func (s *Store) PendingBuilds(ctx context.Context, page Page) ([]PendingBuild, string, error) {
	docs, next, err := list[pendingDoc](ctx, s.pendingBuilds(), s.pendingBuilds().Query, page)
	if err != nil {
		return nil, "", err
	}
	pending := make([]PendingBuild, len(docs))
	for i, d := range docs {
		pending[i] = PendingBuild{App: app.Ref{Namespace: d.Namespace, Name: d.App}, Number: d.Number}
	}
	return pending, next, nil
}

// ForgetBuild takes a build off the list of those that are not final, which a
// build does by itself when it ends: this is for one whose app is gone.
func (s *Store) ForgetBuild(ctx context.Context, p PendingBuild) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.pendingRef(p.App, p.Number).Delete(ctx); err != nil {
		return fmt.Errorf("forget build %d of %s: %w", p.Number, p.App, known(err, "build"))
	}
	return nil
}

// ObserveBuild moves a build on by what is known about its run. When the run has
// built an image, the same commit records the build's revision or that it deploys
// nothing any more ([deploy.Build.Deploys]), so that an event that comes again finds
// a build that is final. Problem: not_found.
func (s *Store) ObserveBuild(ctx context.Context, ref app.Ref, n int64, run deploy.Run, now time.Time) (deploy.Build, error) {
	var b deploy.Build
	err := s.amend(ctx, ref, func(ctx context.Context, h head, m *amendment, _ int) error {
		d, err := get[buildDoc](ctx, s.buildRef(ref, n), "build")
		if err != nil {
			return err
		}
		var changed bool
		if b, changed = d.build().Observe(run, now); !changed {
			return nil
		}
		if run.Done && !b.Final() {
			b = s.deployBuild(ctx, h, m, b, now)
		}
		s.setBuild(m, ref, b)
		return nil
	})
	if err != nil {
		return deploy.Build{}, fmt.Errorf("observe build %d of %s: %w", n, ref, err)
	}
	return b, nil
}

func (s *Store) deployBuild(ctx context.Context, h head, m *amendment, b deploy.Build, now time.Time) deploy.Build {
	done, rev, deploys := b.Deploys(h.doc.app(), h.current, now)
	if deploys {
		by := trace.As(ctx, trace.Actor{Kind: trace.Build, Name: rev.Actor})
		done.Revision = s.record(by, h, m, rev, "").Number
	}
	return done
}

func (s *Store) setBuild(m *amendment, ref app.Ref, b deploy.Build) {
	pending := s.pendingRef(ref, b.Number)
	if b.Final() {
		m.delete(pending)
	} else {
		m.set(pending, pendingDoc{Namespace: ref.Namespace, App: ref.Name, Number: b.Number})
	}
	m.set(s.buildRef(ref, b.Number), buildToDoc(b))
}
