package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
)

// projectDoc is a document of projects/{project}.
type projectDoc struct {
	Name      string            `firestore:"name"`
	Members   map[string]string `firestore:"members"`   // role by username
	Usernames []string          `firestore:"usernames"` // the members' names again, which a query can look for
	CreatedAt time.Time         `firestore:"created_at"`
}

func projectToDoc(p app.Project) projectDoc {
	d := projectDoc{
		Name: p.Name, Members: make(map[string]string, len(p.Members)),
		Usernames: slices.Sorted(maps.Keys(p.Members)), CreatedAt: p.CreatedAt,
	}
	for name, role := range p.Members {
		d.Members[name] = string(role)
	}
	return d
}

func (d projectDoc) project() app.Project {
	p := app.Project{Name: d.Name, Members: make(map[string]app.Role, len(d.Members)), CreatedAt: d.CreatedAt.UTC()}
	for name, role := range d.Members {
		p.Members[name] = app.Role(role)
	}
	return p
}

func (s *Store) projects() *firestore.CollectionRef { return s.client.Collection("projects") }

// CreateProject stores a new project. Problem: already_exists.
func (s *Store) CreateProject(ctx context.Context, p app.Project) error {
	return s.createRecorded(ctx, s.projects().Doc(p.Name), projectToDoc(p), "project",
		audit.Change{Action: audit.CreateProject, Resource: projectPath(p.Name), New: membersView(p.Members)})
}

// Project reads one project. Problem: not_found.
func (s *Store) Project(ctx context.Context, name string) (app.Project, error) {
	d, err := get[projectDoc](ctx, s.projects().Doc(name), "project")
	if err != nil {
		return app.Project{}, err
	}
	return d.project(), nil
}

// Projects lists the projects that a user is a member of, or all of them when
// member is "".
func (s *Store) Projects(ctx context.Context, member string, page Page) ([]app.Project, string, error) {
	q := s.projects().Query
	if member != "" {
		q = q.Where("usernames", "array-contains", member)
	}
	docs, next, err := list[projectDoc](ctx, s.projects(), q, page)
	if err != nil {
		return nil, "", err
	}
	projects := make([]app.Project, len(docs))
	for i, d := range docs {
		projects[i] = d.project()
	}
	return projects, next, nil
}

// UpdateMembers changes a project's members in a transaction: change gets what is
// stored and gives what shall be. Problem: not_found.
func (s *Store) UpdateMembers(ctx context.Context, name string, change func(map[string]app.Role) (map[string]app.Role, error)) (app.Project, error) {
	var changed app.Project
	ref := s.projects().Doc(name)
	err := s.inTurn(ctx, ref, func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[projectDoc](tx, ref, "project")
		if err != nil {
			return err
		}
		changed = d.project()
		before := membersView(changed.Members)
		if changed.Members, err = change(changed.Members); err != nil {
			return err
		}
		if err := tx.Set(ref, projectToDoc(changed)); err != nil {
			return err
		}
		return s.txRecordUpdate(ctx, tx, audit.Change{
			Action: audit.SetMembers, Project: name, Resource: audit.Path(projectPath(name), "members"),
			Old: before, New: membersView(changed.Members),
		})
	})
	if err != nil {
		return app.Project{}, fmt.Errorf("update members of %s: %w", name, err)
	}
	return changed, nil
}

// DeleteProject deletes a project that holds no environment. The check and the
// deletion are one transaction, and [Store.CreateEnvironment] reads the project
// in its own, so that no environment can be left without its project. Problems:
// not_found, not_empty.
func (s *Store) DeleteProject(ctx context.Context, name string) error {
	ref := s.projects().Doc(name)
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[projectDoc](tx, ref, "project")
		if err != nil {
			return err
		}
		holds, err := txExists(tx, s.environments().Where("project", "==", name))
		if err != nil {
			return err
		}
		if holds {
			return problem.New(problem.NotEmpty, "The project still has environments; delete those first.")
		}
		if err := tx.Delete(ref); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{
			Action: audit.DeleteProject, Resource: projectPath(name), Old: membersView(d.project().Members),
		})
	})
	if err != nil {
		return fmt.Errorf("delete project %s: %w", name, err)
	}
	return nil
}

// txExists tells whether a query finds any document, inside a transaction.
func txExists(tx *firestore.Transaction, q firestore.Query) (bool, error) {
	docs, err := tx.Documents(q.Limit(1)).GetAll()
	return len(docs) > 0, err
}
