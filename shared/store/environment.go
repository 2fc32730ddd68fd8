package store

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
)

// environmentDoc is a document of environments/{namespace}. The id is what makes
// a namespace unique: "a-b"+"c" and "a"+"b-c" are one document.
type environmentDoc struct {
	Project   string    `firestore:"project"`
	Name      string    `firestore:"name"`
	Namespace string    `firestore:"namespace"`
	CreatedAt time.Time `firestore:"created_at"`
	FullAt    time.Time `firestore:"full_at,omitempty"` // when a key was last created near the limit of how many there may be
}

func environmentToDoc(e app.Environment) environmentDoc {
	return environmentDoc{Project: e.Project, Name: e.Name, Namespace: e.Namespace, CreatedAt: e.CreatedAt}
}

func (d environmentDoc) environment() app.Environment {
	return app.Environment{Project: d.Project, Name: d.Name, Namespace: d.Namespace, CreatedAt: d.CreatedAt.UTC()}
}

func (d environmentDoc) is(project, name string) bool { return d.Project == project && d.Name == name }

func (s *Store) environments() *firestore.CollectionRef { return s.client.Collection("environments") }

// CreateEnvironment stores a new environment of a project that exists. Problems:
// not_found for the project; already_exists; namespace_taken when another
// project and environment make the same namespace.
func (s *Store) CreateEnvironment(ctx context.Context, e app.Environment) error {
	ref := s.environments().Doc(e.Namespace)
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		if _, err := txGet[projectDoc](tx, s.projects().Doc(e.Project), "project"); err != nil {
			return err
		}
		d, err := txGet[environmentDoc](tx, ref, "environment")
		switch {
		case problem.Is(err, problem.NotFound):
			return s.txCreateEnvironment(ctx, tx, environmentToDoc(e))
		case err != nil:
			return err
		case d.is(e.Project, e.Name):
			return problem.New(problem.AlreadyExists, "There already is an environment with that name.")
		}
		return problem.Of(problem.NamespaceTaken)
	})
	if err != nil {
		return fmt.Errorf("create environment %s: %w", e.Namespace, err)
	}
	return nil
}

func (s *Store) txCreateEnvironment(ctx context.Context, tx *firestore.Transaction, d environmentDoc) error {
	if err := tx.Create(s.environments().Doc(d.Namespace), d); err != nil {
		return err
	}
	return s.txRecord(ctx, tx, audit.Change{
		Action: audit.CreateEnvironment, Project: d.Project, Resource: environmentPath(d.Project, d.Name), New: environmentView(d),
	})
}

// Environment reads one environment of a project. Problem: not_found.
func (s *Store) Environment(ctx context.Context, project, name string) (app.Environment, error) {
	namespace, err := environmentID(project, name)
	if err != nil {
		return app.Environment{}, err
	}
	d, err := get[environmentDoc](ctx, s.environments().Doc(namespace), "environment")
	if err != nil {
		return app.Environment{}, err
	}
	if !d.is(project, name) {
		return app.Environment{}, noEnvironment()
	}
	return d.environment(), nil
}

// Environments lists a project's environments.
func (s *Store) Environments(ctx context.Context, project string, page Page) ([]app.Environment, string, error) {
	docs, next, err := list[environmentDoc](ctx, s.environments(), s.environments().Where("project", "==", project), page)
	if err != nil {
		return nil, "", err
	}
	environments := make([]app.Environment, len(docs))
	for i, d := range docs {
		environments[i] = d.environment()
	}
	return environments, next, nil
}

// DeleteEnvironment deletes an environment that holds no app, plan or key, revoked
// keys aside: those open nothing for good, and go with it, so that an environment of
// that name which somebody makes later does not show them. The check and the deletion
// of the last of them are one transaction; [Store.CreateApp] and [Store.CreatePlan] read
// the environment in their own, and [Store.CreateKey] the plan, so that nothing can be
// left without its environment. Problems: not_found, not_empty.
func (s *Store) DeleteEnvironment(ctx context.Context, project, name string) error {
	namespace, err := environmentID(project, name)
	if err != nil {
		return err
	}
	for last := false; !last; {
		err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) (err error) {
			last, err = s.txDeleteEnvironment(ctx, tx, namespace, project, name)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete environment %s: %w", namespace, err)
		}
	}
	return nil
}

// txDeleteEnvironment deletes some of an environment's revoked keys, and the environment
// with the last of them; it tells whether it did.
func (s *Store) txDeleteEnvironment(ctx context.Context, tx *firestore.Transaction, namespace, project, name string) (bool, error) {
	ref := s.environments().Doc(namespace)
	d, err := txGet[environmentDoc](tx, ref, "environment")
	if err != nil {
		return false, err
	}
	if !d.is(project, name) {
		return false, noEnvironment()
	}
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
		if err := tx.Delete(k.Ref); err != nil {
			return false, err
		}
	}
	if len(revoked) == deletePage {
		return false, nil
	}
	if err := tx.Delete(ref); err != nil {
		return false, err
	}
	return true, s.txRecord(ctx, tx, audit.Change{
		Action: audit.DeleteEnvironment, Project: project, Resource: environmentPath(project, name), Old: environmentView(d),
	})
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
