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

func (d announcementDoc) value() deploy.Announcement {
	return deploy.Announcement{
		ID: d.ID, App: app.Ref{Namespace: d.Namespace, Name: d.App}, Project: d.Project, Environment: d.Environment,
		Outcome: deploy.Outcome(d.Outcome), Revision: deploy.Revision(d.Revision), At: d.At,
	}
}

func (s *Store) announcements() *firestore.CollectionRef { return s.client.Collection("announcements") }

func (s *Store) announce(b *batch, n deploy.Announcement) {
	id := rand.Text()
	b.create(s.announcements().Doc(id), announcementDoc{
		ID: id, Namespace: n.App.Namespace, App: n.App.Name, Project: n.Project, Environment: n.Environment,
		Outcome: string(n.Outcome), Revision: revisionDoc(n.Revision), At: n.At,
	})
}

// Announcements lists up to limit announcements that wait to be sent, the oldest
// first.
func (s *Store) Announcements(ctx context.Context, limit int) ([]deploy.Announcement, error) {
	waiting, err := find(ctx, s.announcements().OrderBy("at", firestore.Asc).Limit(limit), decode[announcementDoc])
	if err != nil {
		return nil, fmt.Errorf("list announcements: %w", err)
	}
	return waiting, nil
}

// Announced forgets an announcement that was sent. Doing it twice is harmless.
func (s *Store) Announced(ctx context.Context, id string) error {
	return forget(ctx, s.announcements().Doc(id))
}
