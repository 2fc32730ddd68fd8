package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// projectDoc also has the field token_at. Creations of service tokens write it only to conflict
// with each other.
type projectDoc struct {
	app.Project

	Usernames []string `firestore:"usernames"`
}

func projectToDoc(p app.Project) projectDoc {
	return projectDoc{Project: p, Usernames: slices.Sorted(maps.Keys(p.Members))}
}

func (d projectDoc) value() app.Project {
	d.LeakPolicy = cmp.Or(d.LeakPolicy, apikey.LeakDisable)
	return d.Project
}

// CreateProject stores a new project. It returns unauthenticated if the creating user was removed or
// deactivated in the meantime.
func (s *Store) CreateProject(ctx context.Context, p app.Project) error {
	return s.transact(ctx, "create "+p.Name, func(ctx context.Context, tx fire.Tx, b *batch) error {
		if by := reqctx.ActorFrom(ctx); by.Kind == reqctx.User {
			states, err := s.txStates(tx, []string{by.Name})
			if err != nil {
				return err
			}
			if states[by.Name] != user.Active {
				return problem.FromCode(problem.Unauthenticated)
			}
		}
		b.what = "project"
		b.Create(s.projects().Doc(p.Name), projectToDoc(p))
		s.record(ctx, b, audit.Change{Action: audit.CreateProject, Resource: projectPath(p.Name), New: membersView(p.Members)})
		return nil
	})
}

// Project returns a project.
func (s *Store) Project(ctx context.Context, name string) (app.Project, error) {
	return get(ctx, s.projects().Doc(name), "project", decode[projectDoc])
}

// Projects lists the projects that a user is a member of, or all if member is "".
func (s *Store) Projects(ctx context.Context, member string, page Page) ([]app.Project, string, error) {
	return list(ctx, s.projects().WhereSet("usernames", "array-contains", member), page, decode[projectDoc])
}

// ReadStates reads the states of users in a transaction.
type ReadStates func(usernames []string) (user.ByName, error)

// ChangeMembers returns the new members of a project.
type ChangeMembers func(stored map[string]app.Role, states ReadStates) (map[string]app.Role, error)

// UpdateMembers replaces a project's members with the result of change.
func (s *Store) UpdateMembers(ctx context.Context, name string, change ChangeMembers) (changed app.Project, err error) {
	ref := s.projects().Doc(name)
	err = s.transactSerially(ctx, "update members of "+name, ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, err := txGet(tx, ref, "project", decode[projectDoc])
		if err != nil {
			return err
		}
		changed = stored
		states := func(usernames []string) (user.ByName, error) { return s.txStates(tx, usernames) }
		if changed.Members, err = change(maps.Clone(stored.Members), states); err != nil {
			return err
		}
		s.changeMembers(ctx, b, ref, stored, changed)
		return nil
	})
	return changed, err
}

func (s *Store) changeMembers(ctx context.Context, b *batch, ref fire.Ref, stored, changed app.Project) {
	b.Change(ref, projectToDoc(stored), projectToDoc(changed))
	s.recordUpdate(ctx, b, audit.Change{
		Action: audit.SetMembers, Project: stored.Name, Resource: audit.Path(projectPath(stored.Name), "members"),
		Old: membersView(stored.Members), New: membersView(changed.Members),
	})
}

// UpdateProject replaces a project's settings with the result of change. Unchanged settings are not
// written.
func (s *Store) UpdateProject(ctx context.Context, name string, change func(app.Project) (app.Project, error)) (changed app.Project, err error) {
	ref := s.projects().Doc(name)
	err = s.transactSerially(ctx, "update project "+name, ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, err := txGet(tx, ref, "project", decode[projectDoc])
		if err != nil {
			return err
		}
		if changed, err = change(stored); err != nil || changed.LeakPolicy == stored.LeakPolicy && slices.Equal(changed.Registries, stored.Registries) {
			return err
		}
		b.Update(ref, fire.Fields{"leak_policy": string(changed.LeakPolicy), "registries": changed.Registries})
		s.record(ctx, b, audit.Change{
			Action: audit.UpdateProject, Project: name, Resource: audit.Path(projectPath(name), "settings"),
			Old: settingsView(stored, changed), New: settingsView(changed, stored),
		})
		return nil
	})
	return changed, err
}

// DeleteProject deletes a project and its service tokens. It returns not_empty if the project has
// environments.
func (s *Store) DeleteProject(ctx context.Context, expected app.Project) error {
	name := expected.Name
	ref := s.projects().Doc(name)
	return s.transact(ctx, "delete project "+name, func(ctx context.Context, tx fire.Tx, b *batch) error {
		p, err := txGet(tx, ref, "project", decode[projectDoc])
		if err != nil {
			return err
		}
		if !sameTime(p.CreatedAt, expected.CreatedAt) {
			return problem.New(problem.NotFound, "The project does not exist.")
		}
		holds, err := txExists(tx, s.environments().Where("project", "==", name))
		if err != nil {
			return err
		}
		if holds {
			return problem.New(problem.NotEmpty, "The project still has environments. Delete them first.")
		}
		docs, err := tx.Find(s.tokensOf(name))
		if err != nil {
			return err
		}
		tokens, err := readAll(docs, readToken)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			s.revoke(ctx, b, t)
		}
		b.Delete(ref)
		s.record(ctx, b, audit.Change{Action: audit.DeleteProject, Resource: projectPath(name), Old: membersView(p.Members)})
		return nil
	})
}
