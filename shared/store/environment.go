package store

import (
	"context"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
)

// namespaceDoc is a document of namespaces/{namespace}: the project whose environment had the
// namespace last. It exists from the deletion of the environment until the namespace has a
// new one.
type namespaceDoc struct {
	Project     string    `firestore:"project"`
	ProjectMade time.Time `firestore:"project_created_at"` // tells it from a later project of that name
}

func (s *Store) namespaceRef(namespace string) *firestore.DocumentRef {
	return s.client.Collection("namespaces").Doc(namespace)
}

// environments is the collection environments/{namespace}. The id makes a namespace unique:
// "a-b"+"c" and "a"+"b-c" are one document. The fields full_at and plan_created_at are the times
// of the last creation of a key near the limit, and of a plan: these creations write the
// document so that they conflict.
func (s *Store) environments() *firestore.CollectionRef { return s.client.Collection("environments") }

// txEnvironment reads the environment of a namespace inside a transaction. Problem:
// not_found.
func (s *Store) txEnvironment(tx *firestore.Transaction, namespace string) (app.Environment, error) {
	return txGet(tx, s.environments().Doc(namespace), "environment", shape[app.Environment])
}

// CreateEnvironment stores a new environment of a project that exists. Problems:
// not_found for the project; already_exists; namespace_taken when another
// project and environment make the same namespace; namespace_not_empty when a deleted
// environment of another project had it ([Store.ReleaseNamespace]).
func (s *Store) CreateEnvironment(ctx context.Context, e app.Environment) error {
	return s.transact(ctx, "create environment "+e.Namespace, func(ctx context.Context, tx *firestore.Transaction, b *batch) error {
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
			b.delete(s.namespaceRef(e.Namespace))
			b.create(s.environments().Doc(e.Namespace), e)
			s.record(ctx, b, audit.Change{
				Action: audit.CreateEnvironment, Project: e.Project, Resource: environmentPath(e.Project, e.Name), New: environmentView(e),
			})
			return nil
		case err != nil:
			return err
		case there.Project == e.Project && there.Name == e.Name:
			return problem.New(problem.AlreadyExists, "There already is an environment with that name.")
		}
		return problem.Of(problem.NamespaceTaken)
	})
}

// txNamespace makes sure that no other project had a namespace last. Problem:
// namespace_not_empty.
func (s *Store) txNamespace(tx *firestore.Transaction, namespace string, p app.Project) error {
	last, err := txGet(tx, s.namespaceRef(namespace), "namespace", shape[namespaceDoc])
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	if err == nil && (last.Project != p.Name || !sameTime(last.ProjectMade, p.CreatedAt)) {
		err = problem.Of(problem.NamespaceNotEmpty)
	}
	return err
}

// ReleaseNamespace lets any project have a namespace, because nothing is left in it.
func (s *Store) ReleaseNamespace(ctx context.Context, namespace string) error {
	return forget(ctx, s.namespaceRef(namespace))
}

// Environment reads one environment of a project. Problem: not_found.
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
	return list(ctx, s.environments(), s.environments().Where("project", "==", project), page, shape[app.Environment])
}

// DeleteEnvironment deletes an environment that holds no app, plan or key, revoked
// keys aside: those open nothing for good, and go with it, so that an environment of
// that name which somebody makes later does not show them. The check and the deletion
// of the last of them are one transaction; [Store.CreateApp] and [Store.CreatePlan] read
// the environment in their own, and [Store.IssueKey] the plan, so that nothing can be
// left without its environment. Problems: not_found, also for a later environment of that
// name; not_empty.
func (s *Store) DeleteEnvironment(ctx context.Context, expected app.Environment) error {
	project, name := expected.Project, expected.Name
	namespace, err := environmentID(project, name)
	if err != nil {
		return err
	}
	for last := false; !last; {
		err := s.transact(ctx, "delete environment "+namespace, func(ctx context.Context, tx *firestore.Transaction, b *batch) error {
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
			b.set(s.namespaceRef(namespace), namespaceDoc{Project: project, ProjectMade: p.CreatedAt})
			b.delete(s.environments().Doc(namespace), s.summaryRef(namespace), s.usedRef(namespace, 0))
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

// emptyEnvironment deletes some of an environment's revoked keys, if there is nothing else
// in it; it tells whether these were the last. Problem: not_empty.
func (s *Store) emptyEnvironment(tx *firestore.Transaction, b *batch, namespace string) (last bool, err error) {
	for what, q := range map[string]firestore.Query{
		"apps":  s.apps().Query,
		"plans": s.plans().Query,
		"keys":  s.keys().Where("status", "in", apikey.Usable()),
	} {
		holds, err := txExists(tx, q.Where("namespace", "==", namespace))
		if err != nil {
			return false, err
		}
		if holds {
			return false, problem.New(problem.NotEmpty, "The environment still has %s; delete or revoke those first.", what)
		}
	}
	revoked, err := tx.Documents(s.keys().Where("namespace", "==", namespace).Limit(deletePage)).GetAll()
	if err != nil {
		return false, err
	}
	for _, k := range revoked {
		b.delete(k.Ref, s.listRef(k.Ref.ID))
	}
	return len(revoked) < deletePage, nil
}

// environmentID is the document id of an environment; names that cannot make one
// belong to no environment.
func environmentID(project, name string) (string, error) {
	namespace, err := app.Namespace(project, name)
	if err != nil || !app.ValidNamespace(namespace) {
		return "", noEnvironment()
	}
	return namespace, nil
}

func noEnvironment() error {
	return problem.New(problem.NotFound, "There is no such environment.")
}
