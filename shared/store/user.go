package store

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
)

// userDoc is a document of users/{username}.
type userDoc struct {
	Name      string    `firestore:"username"`
	Hash      string    `firestore:"hash"`
	Version   int64     `firestore:"version"`
	Admin     bool      `firestore:"admin"`
	CreatedAt time.Time `firestore:"created_at"`
}

func userToDoc(u user.User) userDoc {
	return userDoc{Name: u.Name, Hash: u.Hash, Version: u.Version, Admin: u.Admin, CreatedAt: u.CreatedAt}
}

func (d userDoc) user() user.User {
	return user.User{Name: d.Name, Hash: d.Hash, Version: d.Version, Admin: d.Admin, CreatedAt: d.CreatedAt.UTC()}
}

func (s *Store) users() *firestore.CollectionRef { return s.client.Collection("users") }

// CreateUser stores a new user. Problem: already_exists.
func (s *Store) CreateUser(ctx context.Context, u user.User) error {
	return s.createRecorded(ctx, s.users().Doc(u.Name), userToDoc(u), "user",
		audit.Change{Action: audit.CreateUser, Resource: userPath(u.Name), New: userView(u)})
}

// User reads one user. Problem: not_found.
func (s *Store) User(ctx context.Context, name string) (user.User, error) {
	d, err := get[userDoc](ctx, s.users().Doc(name), "user")
	if err != nil {
		return user.User{}, err
	}
	return d.user(), nil
}

// Users lists all users by name.
func (s *Store) Users(ctx context.Context, page Page) ([]user.User, string, error) {
	docs, next, err := list[userDoc](ctx, s.users(), s.users().Query, page)
	if err != nil {
		return nil, "", err
	}
	users := make([]user.User, len(docs))
	for i, d := range docs {
		users[i] = d.user()
	}
	return users, next, nil
}

// UpdateUser changes a user in a transaction: change gets what is stored and
// gives what shall be. Problem: not_found.
func (s *Store) UpdateUser(ctx context.Context, name string, change func(user.User) (user.User, error)) error {
	ref := s.users().Doc(name)
	err := s.inTurn(ctx, ref, func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[userDoc](tx, ref, "user")
		if err != nil {
			return err
		}
		changed, err := change(d.user())
		if err != nil {
			return err
		}
		if err := tx.Set(ref, userToDoc(changed)); err != nil {
			return err
		}
		return s.txRecordUpdate(ctx, tx, userChange(d.user(), changed))
	})
	if err != nil {
		return fmt.Errorf("update user %s: %w", name, err)
	}
	return nil
}

// UsersExist gives those of names that are no user's, in their order; none means
// that all exist. What cannot be a username is never looked up.
func (s *Store) UsersExist(ctx context.Context, names []string) (missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var refs []*firestore.DocumentRef
	for _, name := range names {
		if user.ValidName(name) {
			refs = append(refs, s.users().Doc(name))
		}
	}
	snaps, err := s.client.GetAll(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", known(err, "user"))
	}
	there := map[string]bool{}
	for _, snap := range snaps {
		there[snap.Ref.ID] = snap.Exists()
	}
	for _, name := range names {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
