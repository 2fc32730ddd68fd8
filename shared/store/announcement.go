package store

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// announcementDoc is a document of announcements, the outbox. Field at is the commit time, by the
// store's clock: it orders the outbox and starts the retention.
type announcementDoc struct {
	ID          string    `firestore:"id"`
	Type        string    `firestore:"type"` // "" for a deployment
	Subject     string    `firestore:"subject"`
	Project     string    `firestore:"project"`
	Environment string    `firestore:"environment"`
	At          time.Time `firestore:"at,serverTimestamp"`
	Time        time.Time `firestore:"time"`
	ExpiresAt   time.Time `firestore:"expires_at"` // TTL field, in case no function empties the outbox

	Namespace string            `firestore:"namespace"`
	App       string            `firestore:"app"`
	Outcome   string            `firestore:"outcome"`
	Revision  *deploy.Revision  `firestore:"revision"`
	Key       *announcedKeyDoc  `firestore:"key"` // also set for a quota
	Quota     *event.Quota      `firestore:"quota"`
	Gate      *announcedGateDoc `firestore:"gate"`
	Gates     *event.Gates      `firestore:"gates"`
}

type announcedKeyDoc struct {
	event.Key

	ExpiresAt *time.Time `firestore:"expires_at"`
}

type announcedGateDoc struct {
	Namespace string        `firestore:"namespace"`
	App       string        `firestore:"app"`
	Host      string        `firestore:"host"`
	State     app.GateState `firestore:"state"`
}

// outboxGrace is the time after [event.Retention] at which the TTL deletes an announcement.
const outboxGrace = 24 * time.Hour

func announcementToDoc(n event.OutboxEntry) announcementDoc {
	d := announcementDoc{
		ID: n.ID, Type: string(n.Type), Subject: n.Subject, Project: n.Project, Environment: n.Environment,
		Time: n.At, ExpiresAt: n.At.Add(event.Retention + outboxGrace),
	}
	key := n.Key
	switch {
	case n.Deployment != nil:
		revision := n.Deployment.Revision
		d.Namespace, d.App = n.Deployment.App.Namespace, n.Deployment.App.Name
		d.Outcome, d.Revision = string(n.Deployment.Outcome), &revision
	case n.Quota != nil:
		key, d.Quota = &n.Quota.Key, n.Quota
	case n.Gate != nil:
		d.Gate = &announcedGateDoc{Namespace: n.Gate.App.Namespace, App: n.Gate.App.Name, Host: n.Gate.Host, State: n.Gate.State}
	case n.Gates != nil:
		d.Gates = n.Gates
	}
	if key != nil {
		d.Key = &announcedKeyDoc{Key: *key, ExpiresAt: timeOrNull(key.ExpiresAt)}
	}
	return d
}

func (d announcementDoc) value() event.OutboxEntry {
	n := event.OutboxEntry{
		ID: d.ID, Type: event.Type(d.Type), Subject: d.Subject, Project: d.Project, Environment: d.Environment, At: d.Time,
	}
	var key *event.Key
	if k := d.Key; k != nil {
		key = &k.Key
		key.ExpiresAt = zeroOrTime(k.ExpiresAt)
	}
	switch {
	case d.Revision != nil:
		ref := app.Ref{Namespace: d.Namespace, Name: d.App}
		n.Subject = ref.String()
		n.Deployment = &event.Deployment{App: ref, Outcome: deploy.Outcome(d.Outcome), Revision: *d.Revision}
		n.At = d.Revision.FinishedAt
	case d.Quota != nil && key != nil:
		n.Quota = d.Quota
		n.Quota.Key = *key
	case d.Gate != nil:
		n.Gate = &event.Gate{App: app.Ref{Namespace: d.Gate.Namespace, Name: d.Gate.App}, Host: d.Gate.Host, State: d.Gate.State}
	case d.Gates != nil:
		n.Gates = d.Gates
	default:
		n.Key = key
	}
	return n
}

// Outbox contains the settings of a function that writes events.
type Outbox struct {
	// Events enables events of keys, quotas and gates. It must be off without a sink: no function
	// would empty the outbox.
	Events bool `env:"EVENTS, default=false"`
}

// AnnounceEvents enables or disables events. Call it before any change.
func (s *Store) AnnounceEvents(on bool) { s.announcing = on }

func (s *Store) announce(b *batch, n event.OutboxEntry) {
	if s.announcing {
		b.Create(s.announcements().Doc(n.ID), announcementToDoc(n))
	}
}

func (s *Store) announceKey(b *batch, t event.Type, k apikey.Key) {
	s.announce(b, event.OfKey(t, k, s.now().UTC().Truncate(time.Microsecond)))
}

// Announcements lists announcements after the given position, in commit order. It includes all that
// were committed before the call.
func (s *Store) Announcements(ctx context.Context, after event.Cursor, limit int) ([]event.Pending, error) {
	q := s.announcements().OrderBy("at", fire.ID).Limit(limit)
	if after.ID != "" {
		q = q.After(after.At, after.ID)
	}
	waiting, err := find(ctx, q, func(doc fire.Doc) (event.Pending, error) {
		d, err := shape[announcementDoc](doc)
		return event.Pending{OutboxEntry: d.value(), Place: event.Cursor{At: d.At, ID: doc.ID}, Waited: doc.Read.Sub(d.At)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("list announcements: %w", err)
	}
	return waiting, nil
}

// Announced deletes an announcement that was sent.
func (s *Store) Announced(ctx context.Context, id string) error {
	return deleteDoc(ctx, s.announcements().Doc(id))
}
