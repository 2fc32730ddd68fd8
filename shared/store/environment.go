package store

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// namespaceDoc is the last project that used a namespace without an environment.
type namespaceDoc struct {
	Project     string    `firestore:"project"`
	ProjectMade time.Time `firestore:"project_created_at"` // excludes later projects with the same name
}

func (s *Store) namespaceRef(namespace string) fire.Ref {
	return s.db.Collection("namespaces").Doc(namespace)
}

// environments has one document per namespace, so "a-b"+"c" and "a"+"b-c" conflict. Creations of
// keys and plans write its fields full_at and plan_created_at only to conflict with each other.
func (s *Store) environments() fire.Query { return s.db.Collection("environments") }

func (s *Store) txEnvironment(tx fire.Tx, namespace string) (app.Environment, error) {
	return txGet(tx, s.environments().Doc(namespace), "environment", shape[app.Environment])
}

// CreateEnvironment stores a new environment. It returns namespace_taken if another environment has
// the same namespace, and namespace_not_empty if another project's environment had it
// ([Store.ReleaseNamespace]).
func (s *Store) CreateEnvironment(ctx context.Context, e app.Environment) error {
	return s.transact(ctx, "create environment "+e.Namespace, func(ctx context.Context, tx fire.Tx, b *batch) error {
		p, err := txGet(tx, s.projects().Doc(e.Project), "project", decode[projectDoc])
		if err != nil {
			return err
		}
		if err := s.txNamespace(tx, e.Namespace, p); err != nil {
			return err
		}
		there, err := s.txEnvironment(tx, e.Namespace)
		switch {
		case problem.Is(err, problem.NotFound):
			b.Delete(s.namespaceRef(e.Namespace))
			b.Create(s.environments().Doc(e.Namespace), e)
			s.record(ctx, b, audit.Change{
				Action: audit.CreateEnvironment, Project: e.Project, Resource: environmentPath(e.Project, e.Name), New: environmentView(e),
			})
			return nil
		case err != nil:
			return err
		case there.Project == e.Project && there.Name == e.Name:
			return problem.New(problem.AlreadyExists, "An environment with this name already exists.")
		}
		return problem.FromCode(problem.NamespaceTaken)
	})
}

func (s *Store) txNamespace(tx fire.Tx, namespace string, p app.Project) error {
	last, err := txGet(tx, s.namespaceRef(namespace), "namespace", shape[namespaceDoc])
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	if err == nil && (last.Project != p.Name || !sameTime(last.ProjectMade, p.CreatedAt)) {
		err = problem.FromCode(problem.NamespaceNotEmpty)
	}
	return err
}

// ReleaseNamespace makes an empty namespace available to every project.
func (s *Store) ReleaseNamespace(ctx context.Context, namespace string) error {
	return deleteDoc(ctx, s.namespaceRef(namespace))
}

// Environment returns an environment of a project.
func (s *Store) Environment(ctx context.Context, project, name string) (app.Environment, error) {
	namespace, err := environmentID(project, name)
	if err != nil {
		return app.Environment{}, err
	}
	e, err := get(ctx, s.environments().Doc(namespace), "environment", shape[app.Environment])
	if err == nil && (e.Project != project || e.Name != name) {
		err = noEnvironment()
	}
	return e, err
}

// Environments lists a project's environments.
func (s *Store) Environments(ctx context.Context, project string, page Page) ([]app.Environment, string, error) {
	return list(ctx, s.environments().Where("project", "==", project), page, shape[app.Environment])
}

// DeleteEnvironment deletes an environment and its revoked keys. It returns not_empty if the
// environment has apps, plans or usable keys.
func (s *Store) DeleteEnvironment(ctx context.Context, expected app.Environment) error {
	project, name := expected.Project, expected.Name
	namespace, err := environmentID(project, name)
	if err != nil {
		return err
	}
	for last := false; !last; {
		err := s.transact(ctx, "delete environment "+namespace, func(ctx context.Context, tx fire.Tx, b *batch) error {
			e, err := s.txEnvironment(tx, namespace)
			if err != nil {
				return err
			}
			if e.Project != project || e.Name != name || !sameTime(e.CreatedAt, expected.CreatedAt) {
				return noEnvironment()
			}
			p, err := txGet(tx, s.projects().Doc(project), "project", decode[projectDoc])
			if err != nil {
				return err
			}
			if last, err = s.emptyEnvironment(tx, b, namespace); err != nil || !last {
				return err
			}
			b.Set(s.namespaceRef(namespace), namespaceDoc{Project: project, ProjectMade: p.CreatedAt})
			b.Delete(s.environments().Doc(namespace), s.summaryRef(namespace), s.usedRef(namespace, 0))
			s.record(ctx, b, audit.Change{
				Action: audit.DeleteEnvironment, Project: project, Resource: environmentPath(project, name), Old: environmentView(e),
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// emptyEnvironment deletes some revoked keys, and reports whether these were the last.
func (s *Store) emptyEnvironment(tx fire.Tx, b *batch, namespace string) (last bool, err error) {
	for what, q := range map[string]fire.Query{
		"apps":  s.apps(),
		"plans": s.plans(),
		"keys":  s.keys().Where("status", "in", apikey.Usable()),
	} {
		holds, err := txExists(tx, q.Where("namespace", "==", namespace))
		if err != nil {
			return false, err
		}
		if holds {
			return false, problem.New(problem.NotEmpty, "The environment still has %s. Delete or revoke them first.", what)
		}
	}
	revoked, err := tx.Find(s.keys().Where("namespace", "==", namespace).Limit(deletePage))
	if err != nil {
		return false, err
	}
	for _, k := range revoked {
		b.Delete(k.Ref, s.listRef(k.ID))
	}
	return len(revoked) < deletePage, nil
}

func environmentID(project, name string) (string, error) {
	namespace, err := app.Namespace(project, name)
	if err != nil || !app.ValidNamespace(namespace) {
		return "", noEnvironment()
	}
	return namespace, nil
}

func noEnvironment() error {
	return problem.New(problem.NotFound, "The environment does not exist.")
}
