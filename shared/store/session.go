package store

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/trace"
)

// sessionDoc is a document of sessions/{token id}: a session that was signed out.
// It is remembered until the token would have expired; the collection's TTL
// policy on expires_at deletes it some time after that.
type sessionDoc struct {
	ExpiresAt time.Time `firestore:"expires_at"`
}

func (s *Store) sessionRef(tokenID string) *firestore.DocumentRef {
	return s.client.Collection("sessions").Doc(tokenID)
}

// SignOut ends a session whose token expires at expires. Doing it twice is
// harmless.
func (s *Store) SignOut(ctx context.Context, tokenID string, expires time.Time) error {
	err := s.transact(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		if err := tx.Set(s.sessionRef(tokenID), sessionDoc{ExpiresAt: expires}); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{Action: audit.SignOut, Resource: userPath(trace.Who(ctx).Name)})
	})
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}

// SignedOut tells whether a session is over before its token expires: it was
// signed out, its user is gone, or the user's password is not of the given
// version any more. It is one read of both documents at one moment.
func (s *Store) SignedOut(ctx context.Context, tokenID, username string, version int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.sessionRef(tokenID), s.users().Doc(username)})
	if err != nil {
		return false, fmt.Errorf("look up session: %w", known(err, "session"))
	}
	ended, owner := snaps[0], snaps[1]
	if ended.Exists() || !owner.Exists() {
		return true, nil
	}
	var d userDoc
	if err := owner.DataTo(&d); err != nil {
		return false, fmt.Errorf("read user %s: %w", username, err)
	}
	return d.Version != version, nil
}
