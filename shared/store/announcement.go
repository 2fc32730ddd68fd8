package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// announcementDoc is a document of announcements/{id}: the outbox. It is written
// in the transaction that finishes a deployment and deleted once it has been sent.
type announcementDoc struct {
	ID          string      `firestore:"id"`
	Namespace   string      `firestore:"namespace"`
	App         string      `firestore:"app"`
	Project     string      `firestore:"project"`
	Environment string      `firestore:"environment"`
	Outcome     string      `firestore:"outcome"`
	Revision    revisionDoc `firestore:"revision"`
	At          time.Time   `firestore:"at"`
}

func (d announcementDoc) announcement() deploy.Announcement {
	return deploy.Announcement{
		ID: d.ID, App: app.Ref{Namespace: d.Namespace, Name: d.App}, Project: d.Project, Environment: d.Environment,
		Outcome: deploy.Outcome(d.Outcome), Revision: d.Revision.revision(), At: d.At.UTC(),
	}
}

func (s *Store) announcements() *firestore.CollectionRef { return s.client.Collection("announcements") }

// announce puts an announcement into an amendment.
func (s *Store) announce(m *amendment, n deploy.Announcement) {
	id := rand.Text()
	m.create(s.announcements().Doc(id), announcementDoc{
		ID: id, Namespace: n.App.Namespace, App: n.App.Name, Project: n.Project, Environment: n.Environment,
		Outcome: string(n.Outcome), Revision: revisionToDoc(n.Revision), At: n.At,
	})
}

// Announcements lists up to limit announcements that wait to be sent, the oldest
// first.
func (s *Store) Announcements(ctx context.Context, limit int) ([]deploy.Announcement, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := s.announcements().OrderBy("at", firestore.Asc).Limit(limit).Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("list announcements: %w", known(err, "announcement"))
	}
	waiting := make([]deploy.Announcement, len(snaps))
	for i, snap := range snaps {
		var d announcementDoc
		if err := snap.DataTo(&d); err != nil {
			return nil, fmt.Errorf("read announcement %s: %w", snap.Ref.ID, err)
		}
		waiting[i] = d.announcement()
	}
	return waiting, nil
}

// Announced forgets an announcement that was sent. Doing it twice is harmless.
func (s *Store) Announced(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.announcements().Doc(id).Delete(ctx); err != nil {
		return fmt.Errorf("forget announcement %s: %w", id, known(err, "announcement"))
	}
	return nil
}
