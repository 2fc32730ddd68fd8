package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// allPage is how many apps [Store.AllApps] reads at a time.
const allPage = 200

// appDoc is a document of apps/{namespace}.{app}, the id being its [app.Ref].
type appDoc struct {
	Name          string        `firestore:"name"`
	Project       string        `firestore:"project"`
	Environment   string        `firestore:"environment"`
	Namespace     string        `firestore:"namespace"`
	Host          string        `firestore:"host"`
	Port          int           `firestore:"port"`
	Image         string        `firestore:"image"`
	GitSource     *gitSourceDoc `firestore:"git_source"`
	RequireAPIKey bool          `firestore:"require_api_key"`
	Gate          gateDoc       `firestore:"gate"`
	Revision      int64         `firestore:"revision"`  // the current one
	Revisions     int64         `firestore:"revisions"` // the highest number given out
	Builds        int64         `firestore:"builds"`    // the highest number given out
	Deployed      deployedDoc   `firestore:"deployed"`  // the current one, as in the history
	CreatedAt     time.Time     `firestore:"created_at"`
	UpdatedAt     time.Time     `firestore:"updated_at"`
}

type gitSourceDoc struct {
	Repository string `firestore:"repository"`
	Branch     string `firestore:"branch"`
	Path       string `firestore:"path"`
}

type deployedDoc struct {
	At     time.Time `firestore:"at"`
	Status string    `firestore:"status"`
}

// deployedOf is what an app's document tells about a revision.
func deployedOf(r deploy.Revision) deployedDoc {
	return deployedDoc{At: r.DeployedAt, Status: string(r.Status)}
}

type gateDoc struct {
	State   string    `firestore:"state"`
	Since   time.Time `firestore:"since"`
	Message string    `firestore:"message"`
}

// hostDoc is a document of hosts/{host}: the claim of one app on a host, which
// makes hosts unique in the whole installation.
type hostDoc struct {
	App string `firestore:"app"` // an [app.Ref]
}

// with gives the document the app's fields; the counters, which no app carries,
// stay, except that a revision in use has been given out.
func (d appDoc) with(a app.App) appDoc {
	d.Name, d.Project, d.Environment, d.Namespace = a.Name, a.Project, a.Environment, a.Namespace
	d.Host, d.Port, d.Image = a.Host, a.Port, a.Image
	d.GitSource = nil
	if g := a.GitSource; g != nil {
		d.GitSource = &gitSourceDoc{Repository: g.Repository, Branch: g.Branch, Path: g.Path}
	}
	d.RequireAPIKey = a.RequireAPIKey
	d.Gate = gateDoc{State: string(a.Gate.State), Since: a.Gate.Since, Message: a.Gate.Message}
	d.Revision, d.Revisions = a.Revision, max(d.Revisions, a.Revision)
	d.Deployed = deployedDoc{At: a.Deployed.At, Status: a.Deployed.Status}
	d.CreatedAt, d.UpdatedAt = a.CreatedAt, a.UpdatedAt
	return d
}

func (d appDoc) app() app.App {
	a := app.App{
		Name: d.Name, Project: d.Project, Environment: d.Environment, Namespace: d.Namespace,
		Host: d.Host, Port: d.Port, Image: d.Image, RequireAPIKey: d.RequireAPIKey,
		Gate:     app.Gate{State: app.GateState(d.Gate.State), Since: d.Gate.Since.UTC(), Message: d.Gate.Message},
		Revision: d.Revision, Deployed: app.Deployed{At: d.Deployed.At.UTC(), Status: d.Deployed.Status}, CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
	if g := d.GitSource; g != nil {
		a.GitSource = &app.GitSource{Repository: g.Repository, Branch: g.Branch, Path: g.Path}
	}
	return a
}

func (s *Store) apps() *firestore.CollectionRef { return s.client.Collection("apps") }

func (s *Store) appRef(ref app.Ref) *firestore.DocumentRef { return s.apps().Doc(ref.String()) }

func (s *Store) hostRef(host string) *firestore.DocumentRef {
	return s.client.Collection("hosts").Doc(host)
}

// CreateApp stores a new app with what it begins with, and claims its host, in an
// environment that exists.
// Problems: not_found for the environment; already_exists; host_taken.
func (s *Store) CreateApp(ctx context.Context, a app.App, first ...First) error {
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		e, err := txGet[environmentDoc](tx, s.environments().Doc(a.Namespace), "environment")
		if err != nil {
			return err
		}
		if !e.is(a.Project, a.Environment) {
			return noEnvironment()
		}
		if err := txAbsent(tx, s.appRef(a.Ref()), problem.New(problem.AlreadyExists, "There already is an app with that name.")); err != nil {
			return err
		}
		if err := txAbsent(tx, s.hostRef(a.Host), problem.Of(problem.HostTaken)); err != nil {
			return err
		}
		if err := s.txFirst(ctx, tx, a, first); err != nil {
			return err
		}
		if err := tx.Create(s.hostRef(a.Host), hostDoc{App: a.Ref().String()}); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{Action: audit.CreateApp, Project: a.Project, Resource: appPath(a), New: newAppView(a)})
	})
	if err != nil {
		return fmt.Errorf("create app %s: %w", a.Ref(), err)
	}
	return nil
}

// txAbsent makes sure in a transaction that a document is not there; otherwise
// the error is taken.
func txAbsent(tx *firestore.Transaction, ref *firestore.DocumentRef, taken error) error {
	snaps, err := tx.GetAll([]*firestore.DocumentRef{ref})
	if err == nil && snaps[0].Exists() {
		return taken
	}
	return err
}

// App reads one app. Problem: not_found.
func (s *Store) App(ctx context.Context, namespace, name string) (app.App, error) {
	d, err := get[appDoc](ctx, s.appRef(app.Ref{Namespace: namespace, Name: name}), "app")
	if err != nil {
		return app.App{}, err
	}
	return d.app(), nil
}

// Apps lists an environment's apps.
func (s *Store) Apps(ctx context.Context, namespace string, page Page) ([]app.App, string, error) {
	return s.listApps(ctx, s.apps().Where("namespace", "==", namespace), page)
}

// AllApps goes through every app of the installation, page by page. An error is
// the last thing it yields.
func (s *Store) AllApps(ctx context.Context) iter.Seq2[app.App, error] {
	return func(yield func(app.App, error) bool) {
		page := Page{Size: allPage}
		for {
			apps, next, err := s.listApps(ctx, s.apps().Query, page)
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

func (s *Store) listApps(ctx context.Context, q firestore.Query, page Page) ([]app.App, string, error) {
	docs, next, err := list[appDoc](ctx, s.apps(), q, page)
	if err != nil {
		return nil, "", err
	}
	apps := make([]app.App, len(docs))
	for i, d := range docs {
		apps[i] = d.app()
	}
	return apps, next, nil
}

// UpdateApp changes an app in a transaction: change gets what is stored and gives
// what shall be. The name and the host stay what they are. Problem: not_found.
func (s *Store) UpdateApp(ctx context.Context, ref app.Ref, change func(app.App) (app.App, error)) (app.App, error) {
	var changed app.App
	err := s.inTurn(ctx, s.appRef(ref), func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[appDoc](tx, s.appRef(ref), "app")
		if err != nil {
			return err
		}
		before := d.app()
		if changed, err = change(before); err != nil {
			return err
		}
		if changed.Ref() != ref || changed.Host != before.Host {
			return fmt.Errorf("%s may not become %s on %s", ref, changed.Ref(), changed.Host)
		}
		if err := tx.Set(s.appRef(ref), d.with(changed)); err != nil {
			return err
		}
		return s.txRecordUpdate(ctx, tx, audit.Change{
			Action: audit.UpdateApp, Project: changed.Project, Resource: appPath(changed), Old: appView(d.app()), New: appView(changed),
		})
	})
	if err != nil {
		return app.App{}, fmt.Errorf("update app %s: %w", ref, err)
	}
	return changed, nil
}

// DeleteApp deletes an app with its history and gives up its host. The last of the
// history goes in one transaction with the app, so that what is deployed meanwhile
// goes too. Problem: not_found.
func (s *Store) DeleteApp(ctx context.Context, ref app.Ref) error {
	for {
		var last bool
		err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
			var err error
			last, err = s.txDeleteApp(ctx, tx, ref)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete app %s: %w", ref, err)
		}
		if last {
			return nil
		}
	}
}

// txDeleteApp deletes some of an app's history, and the app with the last of it; it
// tells whether it did.
func (s *Store) txDeleteApp(ctx context.Context, tx *firestore.Transaction, ref app.Ref) (bool, error) {
	d, err := txGet[appDoc](tx, s.appRef(ref), "app")
	if err != nil {
		return false, err
	}
	last, err := s.txDeleteHistory(tx, ref)
	if err != nil || !last {
		return false, err
	}
	if err := tx.Delete(s.hostRef(d.Host)); err != nil {
		return false, err
	}
	if err := tx.Delete(s.appRef(ref)); err != nil {
		return false, err
	}
	return true, s.txRecord(ctx, tx, audit.Change{Action: audit.DeleteApp, Project: d.Project, Resource: appPath(d.app()), Old: newAppView(d.app())})
}
