package store

import (
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

// keyRequestDoc is a document of deliveries/{id}, beside those of webhooks: which
// key a request was issued a full key of.
type keyRequestDoc struct {
	Key       string    `firestore:"key"`
	ExpiresAt time.Time `firestore:"expires_at"` // the collection's TTL field
}

// notIssued refuses a request that was issued a full key before. Problem:
// already_issued.
func (s *Store) notIssued(tx *firestore.Transaction, r apikey.Request) error {
	if r.ID == "" {
		return nil
	}
	d, err := txGet[keyRequestDoc](tx, s.deliveryRef(r.ID), "request")
	switch {
	case problem.Is(err, problem.NotFound):
		return nil
	case err != nil:
		return err
	case r.At.Before(d.ExpiresAt):
		return problem.New(problem.AlreadyIssued, "This very request has issued the full key of %s before; it was shown that once.", d.Key)
	}
	return nil
}

// noteIssued keeps that a request was issued a full key.
func (s *Store) noteIssued(tx *firestore.Transaction, r apikey.Request, id apikey.ID) error {
	if r.ID == "" {
		return nil
	}
	return tx.Set(s.deliveryRef(r.ID), keyRequestDoc{Key: string(id), ExpiresAt: r.At.Add(apikey.RequestRemembered)})
}
