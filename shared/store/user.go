package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

type userDoc struct {
	user.User

	LastSignIn *time.Time `firestore:"last_sign_in"`
}

func userToDoc(u user.User) userDoc { return userDoc{User: u, LastSignIn: timeOrNull(u.LastSignIn)} }

// value returns the user. A user of an earlier release has no state and is active.
func (d userDoc) value() user.User {
	d.State, d.User.LastSignIn = cmp.Or(d.State, user.Active), zeroOrTime(d.LastSignIn)
	return d.User
}

func noUser() error { return problem.New(problem.NotFound, "The user does not exist.") }

func (s *Store) userRef(name string) (fire.Ref, error) {
	if !user.ValidName(name) {
		return fire.Ref{}, noUser()
	}
	return s.users().Doc(name), nil
}

// CreateUser stores a new user.
func (s *Store) CreateUser(ctx context.Context, u user.User) error {
	return s.createUser(ctx, u, false)
}

// CreateFirstUser stores a new user and the mark of the first user. It returns already_exists if
// the mark exists.
func (s *Store) CreateFirstUser(ctx context.Context, u user.User) error {
	return s.createUser(ctx, u, true)
}

func (s *Store) createUser(ctx context.Context, u user.User, first bool) error {
	return s.transact(ctx, "create "+u.Name, func(ctx context.Context, _ fire.Tx, b *batch) error {
		b.what = "user"
		if first {
			b.Create(s.firstUser(), firstUserDoc{At: s.now().UTC()})
		}
		b.Create(s.users().Doc(u.Name), userToDoc(u))
		s.record(ctx, b, audit.Change{Action: audit.CreateUser, Resource: userPath(u.Name), New: userView(u)})
		return nil
	})
}

// firstUserDoc marks that a user was created. It remains when all users are removed.
type firstUserDoc struct {
	At time.Time `firestore:"at"`
}

func (s *Store) firstUser() fire.Ref { return s.mark("first_user") }

// HadUsers reports whether any user was ever created. It writes the mark that an earlier release
// did not write.
func (s *Store) HadUsers(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	marks, err := s.getAll(ctx, s.firstUser())
	if err != nil {
		return false, fmt.Errorf("read mark of the first user: %w", err)
	}
	if marks[0].Exists {
		return true, nil
	}
	users, err := documents(ctx, s.users().Limit(1))
	if err != nil || len(users) == 0 {
		return false, err
	}
	_, err = s.firstUser().Set(ctx, firstUserDoc{At: s.now().UTC()})
	return true, problemOf(err, "mark")
}

// User returns a user.
func (s *Store) User(ctx context.Context, name string) (user.User, error) {
	ref, err := s.userRef(name)
	if err != nil {
		return user.User{}, err
	}
	return get(ctx, ref, "user", decode[userDoc])
}

// Users lists all users by name.
func (s *Store) Users(ctx context.Context, page Page) ([]user.User, string, error) {
	return list(ctx, s.users(), page, decode[userDoc])
}

// UpdateUser replaces the stored user with the result of change. It returns last_admin if no active
// admin would remain.
func (s *Store) UpdateUser(ctx context.Context, name string, change func(user.User) (user.User, error)) (changed user.User, err error) {
	ref, err := s.userRef(name)
	if err != nil {
		return user.User{}, err
	}
	err = s.transactSerially(ctx, "update user "+name, ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, err := txGet(tx, ref, "user", decode[userDoc])
		if err != nil {
			return err
		}
		if changed, err = change(stored); err != nil {
			return err
		}
		if err := s.requireAdmin(tx, stored, changed); err != nil {
			return err
		}
		b.Change(ref, userToDoc(stored), userToDoc(changed))
		s.recordUpdate(ctx, b, userChange(stored, changed))
		return nil
	})
	return changed, err
}

// requireAdmin returns last_admin if a change of a user leaves no active admin. Its query makes
// concurrent changes of two admins conflict.
func (s *Store) requireAdmin(tx fire.Tx, stored, changed user.User) error {
	if !stored.ActiveAdmin() || changed.ActiveAdmin() {
		return nil
	}
	docs, err := tx.Find(s.users().Where("admin", "==", true))
	if err != nil {
		return fmt.Errorf("find admins: %w", err)
	}
	admins, err := readAll(docs, decode[userDoc])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(admins, func(u user.User) bool { return u.Name != stored.Name && u.ActiveAdmin() }) {
		return problem.FromCode(problem.LastAdmin)
	}
	return nil
}

// SignedIn stores the time of a user's last sign-in.
func (s *Store) SignedIn(ctx context.Context, name string, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	if _, err := s.users().Doc(name).Update(ctx, fire.Fields{"last_sign_in": at}); err != nil {
		return fmt.Errorf("record sign-in of %s: %w", name, problemOf(err, "user"))
	}
	return nil
}

// txStates reads the states of users. Users who do not exist are absent from the result.
func (s *Store) txStates(tx fire.Tx, names []string) (user.ByName, error) {
	var refs []fire.Ref
	for _, name := range names {
		if ref, err := s.userRef(name); err == nil {
			refs = append(refs, ref)
		}
	}
	states := user.ByName{}
	if len(refs) == 0 {
		return states, nil
	}
	docs, err := tx.Get(refs...)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	users, err := readAll(existing(docs), decode[userDoc])
	for _, u := range users {
		states[u.Name] = u.State
	}
	return states, err
}

// sessionDoc is a session that was signed out.
type sessionDoc struct {
	ExpiresAt time.Time `firestore:"expires_at"`
}

// SignOut ends a session whose token expires at expires.
func (s *Store) SignOut(ctx context.Context, tokenID string, expires time.Time) error {
	return s.transact(ctx, "sign out", func(ctx context.Context, _ fire.Tx, b *batch) error {
		b.Set(s.sessionRef(tokenID), sessionDoc{ExpiresAt: expires})
		s.record(ctx, b, audit.Change{Action: audit.SignOut, Resource: userPath(reqctx.ActorFrom(ctx).Name)})
		return nil
	})
}

// Standing returns the current rights of a session. It is over if it was signed out, or if its user
// does not exist, is not active, or has another version. It reads both documents in one snapshot.
func (s *Store) Standing(ctx context.Context, tokenID, username string, version int64) (user.Standing, error) {
	docs, err := s.getAll(ctx, s.sessionRef(tokenID), s.users().Doc(username))
	if err != nil {
		return user.Standing{}, fmt.Errorf("look up session: %w", err)
	}
	ended, owner := docs[0], docs[1]
	if ended.Exists || !owner.Exists {
		return user.Standing{Over: true}, nil
	}
	u, err := decode[userDoc](owner)
	return u.Standing(version), err
}
