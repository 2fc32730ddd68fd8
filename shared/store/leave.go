package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// leavePage is the number of projects that one transaction of a removal changes.
const leavePage = 100

// RemoveUser removes a user from all projects and then deletes the user. It returns last_admin if no
// active admin would remain, or last_owner if a project would have no active owner.
//
// Both rules are checked for all projects before the first write. If the user has more than 100
// projects, several transactions are necessary. The first one also deactivates the user, who thus
// counts as neither an admin nor an owner for other changes. The later ones do not check the owners
// again. If one fails, another call continues.
func (s *Store) RemoveUser(ctx context.Context, name string) error {
	ref, err := s.userRef(name)
	if err != nil {
		return err
	}
	for first, more := true, true; more && err == nil; first = false {
		err = s.transactSerially(ctx, "remove user "+name, ref, func(ctx context.Context, tx fire.Tx, b *batch) (err error) {
			more, err = s.leaveProjects(ctx, tx, b, ref, first)
			return err
		})
	}
	return err
}

// leaveProjects removes a user from some projects, and deletes the user if no others remain. first
// is true for the first transaction of a removal.
func (s *Store) leaveProjects(ctx context.Context, tx fire.Tx, b *batch, ref fire.Ref, first bool) (more bool, err error) {
	stored, err := txGet(tx, ref, "user", decode[userDoc])
	if err != nil {
		return false, err
	}
	if err := s.requireAdmin(tx, stored, user.User{}); err != nil {
		return false, err
	}
	all, err := s.txMemberships(tx, stored.Name)
	if err != nil {
		return false, err
	}
	if first {
		if err := s.requireOwners(tx, stored.Name, all); err != nil {
			return false, err
		}
	}
	some := all[:min(len(all), leavePage)]
	for _, m := range some {
		s.changeMembers(ctx, b, m.ref, m.stored, m.left)
	}
	if len(some) < len(all) {
		changed := stored.WithState(user.Deactivated, s.now())
		b.Change(ref, userToDoc(stored), userToDoc(changed))
		s.recordUpdate(ctx, b, userChange(stored, changed))
		return true, nil
	}
	b.Delete(ref)
	s.record(ctx, b, audit.Change{Action: audit.RemoveUser, Resource: userPath(stored.Name), Old: userView(stored)})
	return false, nil
}

// membership is a project of a user, with and without the user.
type membership struct {
	ref          fire.Ref
	stored, left app.Project
}

func (s *Store) txMemberships(tx fire.Tx, username string) ([]membership, error) {
	docs, err := tx.Find(s.projects().Where("usernames", "array-contains", username))
	if err != nil {
		return nil, fmt.Errorf("find projects of %s: %w", username, err)
	}
	return readAll(docs, func(doc fire.Doc) (membership, error) {
		p, err := decode[projectDoc](doc)
		m := membership{ref: doc.Ref, stored: p, left: p}
		m.left.Members = maps.Clone(p.Members)
		delete(m.left.Members, username)
		return m, err
	})
}

// requireOwners returns last_owner with the names of the projects that an owner leaves without an
// active owner.
func (s *Store) requireOwners(tx fire.Tx, username string, all []membership) error {
	owned := slices.DeleteFunc(slices.Clone(all), func(m membership) bool { return m.stored.Members[username] != app.Owner })
	var others []string
	for _, m := range owned {
		others = append(others, app.Owners(m.left.Members)...)
	}
	slices.Sort(others)
	states, err := s.txStates(tx, slices.Compact(others))
	if err != nil {
		return err
	}
	var orphans []string
	for _, m := range owned {
		if !states.HaveActive(app.Owners(m.left.Members)) {
			orphans = append(orphans, m.stored.Name)
		}
	}
	return lastOwner(orphans)
}

const orphansShown = 10

func lastOwner(projects []string) error {
	if len(projects) == 0 {
		return nil
	}
	names := strings.Join(projects[:min(len(projects), orphansShown)], ", ")
	if more := len(projects) - orphansShown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return problem.New(problem.LastOwner, "Projects would have no active owner: %s. Add another owner to each of them first.", names)
}
