package store

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// Clients may still send their keys to a released host, so it is reserved for its project.
const (
	HostReserved    = 30 * 24 * time.Hour
	maxReservations = 100 // per project
)

// hostDoc is an app's claim on a host, or a reservation for the project of an app that released it.
// Earlier versions treat a reservation as a claim.
type hostDoc struct {
	App         string    `firestore:"app"` // [app.Ref]; the former app in a reservation
	Project     string    `firestore:"project,omitempty"`
	ProjectMade time.Time `firestore:"project_created_at,omitempty"` // excludes later projects with the same name
	Reserved    bool      `firestore:"reserved,omitempty"`
	Until       time.Time `firestore:"reserved_until,omitempty"`
}

// Reservation is a host that is reserved for a project.
type Reservation struct {
	Host    string
	App     string // namespace.name
	Project string
	Until   time.Time
}

func readReservation(doc fire.Doc) (Reservation, error) {
	d, err := shape[hostDoc](doc)
	return Reservation{Host: doc.ID, App: d.App, Project: d.Project, Until: d.Until}, err
}

func (s *Store) hostRef(host string) fire.Ref { return s.hosts().Doc(host) }

func (s *Store) claimHost(tx fire.Tx, b *batch, a app.App) error {
	docs, err := tx.Get(s.hostRef(a.Host))
	if err != nil {
		return err
	}
	claim := hostDoc{App: a.Ref().String()}
	if !docs[0].Exists {
		b.Create(s.hostRef(a.Host), claim)
		return nil
	}
	held, err := shape[hostDoc](docs[0])
	if err != nil {
		return err
	}
	if !held.Reserved {
		return problem.FromCode(problem.HostTaken)
	}
	if s.now().Before(held.Until) {
		made, err := s.txProjectMade(tx, a.Project)
		if err != nil {
			return err
		}
		if held.Project != a.Project || !sameTime(held.ProjectMade, made) {
			return problem.FromCode(problem.HostReserved)
		}
	}
	b.Set(s.hostRef(a.Host), claim)
	return nil
}

// releaseHost reserves an app's host for its project, and deletes the project's expired
// reservations. It returns too_many_host_reservations if the project has maxReservations.
func (s *Store) releaseHost(tx fire.Tx, b *batch, a app.App) error {
	made, err := s.txProjectMade(tx, a.Project)
	if err != nil {
		return err
	}
	// Expired reservations remain until they are deleted here or by rollup.
	q := s.hosts().Where("project", "==", a.Project).Where("project_created_at", "==", made).Limit(2 * maxReservations)
	docs, err := tx.Find(q)
	if err != nil {
		return err
	}
	now, reserved := s.now().UTC(), 0
	for _, doc := range docs {
		r, err := readReservation(doc)
		switch {
		case err != nil:
			return err
		case now.Before(r.Until):
			reserved++
		default:
			b.Delete(doc.Ref)
		}
	}
	if reserved >= maxReservations {
		return problem.FromCode(problem.TooManyHosts)
	}
	b.Set(s.hostRef(a.Host), hostDoc{App: a.Ref().String(), Project: a.Project, ProjectMade: made, Reserved: true, Until: now.Add(HostReserved).Truncate(time.Microsecond)})
	return nil
}

// txProjectMade returns a project's creation time, which identifies it; zero if it does not exist.
func (s *Store) txProjectMade(tx fire.Tx, project string) (time.Time, error) {
	p, err := orZero(txGet(tx, s.projects().Doc(project), "project", decode[projectDoc]))
	return p.CreatedAt, err
}

// CheckRelease returns too_many_host_reservations if an app cannot release its host.
func (s *Store) CheckRelease(ctx context.Context, a app.App) error {
	return s.transact(ctx, "check the host of "+a.Ref().String(), func(_ context.Context, tx fire.Tx, _ *batch) error {
		return s.releaseHost(tx, &batch{}, a)
	})
}

// Reservations lists the reserved hosts, including expired ones that are not deleted yet.
func (s *Store) Reservations(ctx context.Context, page Page) ([]Reservation, string, error) {
	return list(ctx, s.hosts().Where("reserved", "==", true), page, readReservation)
}

// ReleaseReservation makes a reserved host available to every project.
func (s *Store) ReleaseReservation(ctx context.Context, host string) error {
	none := problem.New(problem.NotFound, "The host is not reserved.")
	if !validID(host) {
		return none
	}
	ref := s.hostRef(host)
	return s.transact(ctx, "release host "+host, func(ctx context.Context, tx fire.Tx, b *batch) error {
		held, err := txGet(tx, ref, "host", shape[hostDoc])
		if problem.Is(err, problem.NotFound) || err == nil && !held.Reserved {
			return none
		}
		if err != nil {
			return err
		}
		b.Delete(ref)
		s.record(ctx, b, audit.Change{
			Action: audit.ReleaseHost, Resource: audit.Path("host-reservations", host), Old: audit.Values{"app": held.App, "project": held.Project, "reserved_until": held.Until},
		})
		return nil
	})
}

// DeleteReservations deletes reservations that ended before the given time.
func (s *Store) DeleteReservations(ctx context.Context, before time.Time, limit int) (int, error) {
	deleted := 0
	err := s.transact(ctx, "delete old reservations", func(_ context.Context, tx fire.Tx, b *batch) error {
		docs, err := tx.Find(s.hosts().Where("reserved_until", "<", before).Limit(limit))
		for _, doc := range docs {
			b.Delete(doc.Ref)
		}
		deleted = len(docs)
		return err
	})
	return deleted, err
}
