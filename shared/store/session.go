package store

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.sessionRef(tokenID).Set(ctx, sessionDoc{ExpiresAt: expires}); err != nil {
		return fmt.Errorf("sign out: %w", known(err, "session"))
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
