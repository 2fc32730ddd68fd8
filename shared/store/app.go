package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

const allPage = 200

type appDoc struct {
	app.App

	Revisions int64 `firestore:"revisions"`
	Builds    int64 `firestore:"builds"` // highest assigned number, like Revisions
}

func deployedOf(r deploy.Revision) app.Deployed {
	return app.Deployed{At: r.DeployedAt, Status: string(r.AppStatus())}
}

// with replaces the app. Revisions stays at least the app's current revision.
func (d appDoc) with(a app.App) appDoc {
	return appDoc{App: a, Revisions: max(d.Revisions, a.Revision), Builds: d.Builds}
}

func (d appDoc) value() app.App {
	d.Preflight = cmp.Or(d.Preflight, app.PreflightApp) // empty in documents of earlier versions
	return d.App
}

func (s *Store) appRef(ref app.Ref) fire.Ref { return s.apps().Doc(ref.String()) }

// InitialState is the initial history of a new app.
type InitialState struct {
	Revision deploy.Revision
	Build    *deploy.Build // of a git app
}

// CreateApp stores a new app with its initial history, and claims its host. It returns host_taken,
// or host_reserved if another project's app released the host recently. It returns name_in_scope if
// a usable key's scope names an app that an earlier version deleted.
func (s *Store) CreateApp(ctx context.Context, a app.App, first InitialState) error {
	ref := a.Ref()
	return s.transactSerially(ctx, "create app "+ref.String(), s.hostRef(a.Host), func(ctx context.Context, tx fire.Tx, b *batch) error {
		e, err := s.txEnvironment(tx, a.Namespace)
		if err != nil {
			return err
		}
		if e.Project != a.Project || e.Name != a.Environment {
			return noEnvironment()
		}
		if err := txAbsent(tx, s.appRef(ref), problem.New(problem.AlreadyExists, "An app with this name already exists.")); err != nil {
			return err
		}
		if err := s.claimHost(tx, b, a); err != nil {
			return err
		}
		named, err := txExists(tx, s.keysNaming(ref))
		if err != nil {
			return err
		}
		if named {
			return problem.FromCode(problem.NameInScope)
		}
		d := appDoc{}.with(a)
		if first.Build != nil {
			d.Builds = s.addBuild(ctx, current{ref: ref, doc: d}, b, *first.Build).Number
		}
		if a.Revision > 0 {
			b.Create(s.revisionRef(ref, a.Revision), first.Revision)
		}
		b.Create(s.appRef(ref), d)
		s.record(ctx, b, audit.Change{Action: audit.CreateApp, Project: a.Project, Resource: appPath(a), New: newAppView(a)})
		return nil
	})
}

func txAbsent(tx fire.Tx, ref fire.Ref, taken error) error {
	docs, err := tx.Get(ref)
	if err == nil && docs[0].Exists {
		return taken
	}
	return err
}

// App returns an app.
func (s *Store) App(ctx context.Context, namespace, name string) (app.App, error) {
	return get(ctx, s.appRef(app.Ref{Namespace: namespace, Name: name}), "app", decode[appDoc])
}

// Apps lists an environment's apps.
func (s *Store) Apps(ctx context.Context, namespace string, page Page) ([]app.App, string, error) {
	return list(ctx, s.apps().Where("namespace", "==", namespace), page, decode[appDoc])
}

// AllApps iterates over all apps until the first error.
func (s *Store) AllApps(ctx context.Context) iter.Seq2[app.App, error] {
	return func(yield func(app.App, error) bool) {
		for page := (Page{Size: allPage}); ; {
			apps, next, err := list(ctx, s.apps(), page, decode[appDoc])
			if err != nil {
				yield(app.App{}, err)
				return
			}
			for _, a := range apps {
				if !yield(a, nil) {
					return
				}
			}
			if page.Token = next; next == "" {
				return
			}
		}
	}
}

// UpdateApp replaces the stored app with the result of change. A new host is claimed, and the
// previous one reserved for the project. UpdateApp then may return host_taken, host_reserved and
// too_many_host_reservations.
func (s *Store) UpdateApp(ctx context.Context, ref app.Ref, change func(app.App) (app.App, error)) (changed app.App, err error) {
	err = s.transactSerially(ctx, "update app "+ref.String(), s.appRef(ref), func(ctx context.Context, tx fire.Tx, b *batch) error {
		d, err := txGet(tx, s.appRef(ref), "app", shape[appDoc])
		if err != nil {
			return err
		}
		before := d.value()
		if changed, err = change(before); err != nil {
			return err
		}
		if changed.Ref() != ref {
			return fmt.Errorf("app %s cannot be renamed to %s", ref, changed.Ref())
		}
		if changed.Host != before.Host {
			if err := errors.Join(s.claimHost(tx, b, changed), s.releaseHost(tx, b, before)); err != nil {
				return err
			}
		}
		b.Change(s.appRef(ref), d, d.with(changed))
		s.recordUpdate(ctx, b, audit.Change{
			Action: audit.UpdateApp, Project: changed.Project, Resource: appPath(changed), Old: appView(d.value()), New: appView(changed),
		})
		if n, ok := event.OfGate(changed, before.Gate.State); ok {
			s.announce(b, n)
		}
		return nil
	})
	return changed, err
}

const deletePage = 200

// DeleteApp deletes an app with its history, and reserves its host for its project. The last
// transaction verifies that no usable key's scope names the app. DeleteApp may return
// too_many_host_reservations.
func (s *Store) DeleteApp(ctx context.Context, expected app.App) error {
	for last := false; !last; {
		err := s.transact(ctx, "delete app "+expected.Ref().String(), func(ctx context.Context, tx fire.Tx, b *batch) (err error) {
			last, err = s.deletePart(ctx, tx, b, expected)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deletePart deletes a part of an app's history, or the last part with the app.
func (s *Store) deletePart(ctx context.Context, tx fire.Tx, b *batch, expected app.App) (last bool, err error) {
	ref := expected.Ref()
	a, err := txGet(tx, s.appRef(ref), "app", decode[appDoc])
	if err != nil {
		return false, err
	}
	if !sameTime(a.CreatedAt, expected.CreatedAt) {
		return false, problem.New(problem.NotFound, "The app does not exist.")
	}
	narrowed, err := s.narrow(ctx, tx, b, ref)
	if err != nil {
		return false, err
	}
	if last, err = s.deleteHistory(tx, b, ref); err != nil || !last || len(narrowed) > 0 {
		return false, err
	}
	if err := s.releaseHost(tx, b, a); err != nil {
		return false, err
	}
	b.Delete(s.appRef(ref))
	s.record(ctx, b, audit.Change{Action: audit.DeleteApp, Project: a.Project, Resource: appPath(a), Old: newAppView(a)})
	return true, nil
}

// deleteHistory deletes revisions and builds, which Firestore does not delete with the app.
func (s *Store) deleteHistory(tx fire.Tx, b *batch, ref app.Ref) (last bool, err error) {
	revisions, err := tx.Find(s.revisions(ref).Limit(deletePage))
	if err != nil {
		return false, err
	}
	builds, err := tx.Find(s.builds(ref).Limit(deletePage))
	if err != nil {
		return false, err
	}
	for _, d := range append(revisions, builds...) {
		b.Delete(d.Ref)
	}
	for _, d := range builds {
		b.Delete(s.pendingBuilds().Doc(ref.String() + "." + d.ID))
	}
	return len(revisions) < deletePage && len(builds) < deletePage, nil
}
