package store

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// CreateUser stores a new user.
func (s *Store) CreateUser(ctx context.Context, u user.User) error {
	return s.createRecorded(ctx, s.users().Doc(u.Name), u, "user",
		audit.Change{Action: audit.CreateUser, Resource: userPath(u.Name), New: userView(u)})
}

// User returns a user.
func (s *Store) User(ctx context.Context, name string) (user.User, error) {
	return get(ctx, s.users().Doc(name), "user", shape[user.User])
}

// Users lists all users by name.
func (s *Store) Users(ctx context.Context, page Page) ([]user.User, string, error) {
	return list(ctx, s.users(), page, shape[user.User])
}

// UpdateUser replaces the stored user with the result of change.
func (s *Store) UpdateUser(ctx context.Context, name string, change func(user.User) (user.User, error)) error {
	ref := s.users().Doc(name)
	return s.transactSerially(ctx, "update user "+name, ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
		stored, err := txGet(tx, ref, "user", shape[user.User])
		if err != nil {
			return err
		}
		changed, err := change(stored)
		if err != nil {
			return err
		}
		b.Change(ref, stored, changed)
		s.recordUpdate(ctx, b, userChange(stored, changed))
		return nil
	})
}

// UsersExist returns the names that are not users, in their order.
func (s *Store) UsersExist(ctx context.Context, names []string) (missing []string, err error) {
	var refs []fire.Ref
	for _, name := range names {
		if user.ValidName(name) {
			refs = append(refs, s.users().Doc(name))
		}
	}
	docs, err := s.getAll(ctx, refs...)
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	there := map[string]bool{}
	for _, doc := range docs {
		there[doc.ID] = doc.Exists
	}
	for _, name := range names {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
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

// SignedOut reports whether a session ended before its token expires: it was signed out, the user
// was deleted, or the password has another version. It reads both documents in one snapshot.
func (s *Store) SignedOut(ctx context.Context, tokenID, username string, version int64) (bool, error) {
	docs, err := s.getAll(ctx, s.sessionRef(tokenID), s.users().Doc(username))
	if err != nil {
		return false, fmt.Errorf("look up session: %w", err)
	}
	ended, owner := docs[0], docs[1]
	if ended.Exists || !owner.Exists {
		return true, nil
	}
	u, err := shape[user.User](owner)
	return u.Version != version, err
}
