package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// recordDoc is a document of audit. Its ID begins with the time, counted backwards, so that the
// newest record is first.
type recordDoc struct {
	audit.Record

	ActorKind string    `firestore:"actor_kind"`
	Actor     string    `firestore:"actor"`
	Address   string    `firestore:"address"`
	RequestID string    `firestore:"request_id"`
	Within    []string  `firestore:"within"` // the resource, its parents, and another affected resource
	Old       string    `firestore:"old"`    // JSON; "" if the object did not exist
	New       string    `firestore:"new"`
	ExpiresAt time.Time `firestore:"expires_at"`

	// PlanAt is the update time of the plan assigned to a key. Checkers reject the key until they
	// have that version.
	PlanAt *time.Time `firestore:"plan_at,omitempty"`
}

func readRecord(doc fire.Doc) (audit.Record, error) {
	d, err := shape[recordDoc](doc)
	if err != nil {
		return audit.Record{}, err
	}
	r := d.Record
	r.ID, r.Actor = doc.ID, reqctx.Actor{Kind: reqctx.Kind(d.ActorKind), Name: d.Actor}
	r.Origin = reqctx.Request{ID: d.RequestID, Address: d.Address}
	if err := errors.Join(decodeValues(d.Old, &r.Old), decodeValues(d.New, &r.New)); err != nil {
		return audit.Record{}, fmt.Errorf("read record %s: %w", doc.ID, err)
	}
	return r, nil
}

func encodeValues(v audit.Values) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func decodeValues(text string, v *audit.Values) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), v)
}

func (s *Store) newRecord(ctx context.Context, c audit.Change) (fire.Ref, recordDoc) {
	at := s.now().UTC().Truncate(time.Microsecond)
	who := reqctx.ActorFrom(ctx)
	origin, _ := reqctx.FromContext(ctx)
	if c.Outcome == "" {
		c.Outcome = audit.Succeeded
	}
	id := drawID(at)
	within := audit.Within(c.Resource)
	if c.Besides != "" {
		within = append(within, c.Besides)
	}
	return s.records().Doc(id), recordDoc{
		Record:    audit.Record{At: at, Action: c.Action, Outcome: c.Outcome, Project: c.Project, Resource: c.Resource},
		ActorKind: string(who.Kind), Actor: who.Name, Address: origin.Address, RequestID: origin.ID, Within: within,
		Old: encodeValues(c.Old), New: encodeValues(c.New), ExpiresAt: at.Add(audit.Retention),
	}
}

func timeID(at time.Time) string { return fmt.Sprintf("%016x", math.MaxInt64-at.UnixMicro()) }

func drawID(at time.Time) string { return timeID(at) + strings.ToLower(rand.Text()[:12]) }

func (s *Store) record(ctx context.Context, b *batch, c audit.Change) {
	ref, d := s.newRecord(ctx, c)
	d.PlanAt = timeOrNull(b.plan)
	b.Create(ref, d)
	b.record = ref.ID
}

// Change returns the times at which an audited change updated keys and plans. It returns not_found
// for changes of other projects or objects.
func (s *Store) Change(ctx context.Context, project, id string) (checkers.Change, error) {
	none := problem.New(problem.NotFound, "The change does not exist.")
	if !validID(id) {
		return checkers.Change{}, none
	}
	return get(ctx, s.records().Doc(id), "change", func(doc fire.Doc) (checkers.Change, error) {
		d, err := shape[recordDoc](doc)
		if err != nil || d.Project != project {
			return checkers.Change{}, errors.Join(err, none)
		}
		c := checkers.Change{ID: id, Plans: zeroOrTime(d.PlanAt)}
		switch kind, _, _ := strings.Cut(string(d.Action), "."); kind {
		case "key":
			c.Keys = doc.Created
		case "plan":
			c.Plans = doc.Created
		default:
			return checkers.Change{}, none
		}
		return c, nil
	})
}

func (s *Store) recordUpdate(ctx context.Context, b *batch, c audit.Change) {
	if c.Old, c.New = audit.Diff(c.Old, c.New); len(c.Old)+len(c.New) > 0 {
		s.record(ctx, b, c)
	}
}

// Record records a change, or an attempt, of an object outside the store. It returns an ID for
// [Store.CompleteRecord].
func (s *Store) Record(ctx context.Context, c audit.Change) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ref, d := s.newRecord(ctx, c)
	if _, err := ref.Create(ctx, d); err != nil {
		return "", fmt.Errorf("record %s of %s: %w", c.Action, c.Resource, problemOf(err, "record"))
	}
	return ref.ID, nil
}

// CompleteRecord sets the outcome of a recorded change.
func (s *Store) CompleteRecord(ctx context.Context, id string, o audit.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.records().Doc(id).Update(ctx, fire.Fields{"outcome": string(o)}); err != nil {
		return fmt.Errorf("complete record %s: %w", id, problemOf(err, "record"))
	}
	return nil
}

// Records lists records, newest first.
func (s *Store) Records(ctx context.Context, q audit.Query, page Page) ([]audit.Record, string, error) {
	// Firestore merges its built-in indexes for equality filters, one array and the order of IDs.
	query := between(s.records().Where("project", "==", q.Project), q.From, q.To).
		WhereSet("actor", "==", q.Actor).WhereSet("action", "in", q.Actions).WhereSet("within", "array-contains", q.Resource)
	return list(ctx, query, page, readRecord)
}

// between filters IDs by time, both ends included. A zero time is no bound.
func between(query fire.Query, from, to time.Time) fire.Query {
	if !to.IsZero() {
		query = query.Where(fire.ID, ">=", timeID(to))
	}
	if !from.IsZero() {
		query = query.Where(fire.ID, "<=", timeID(from)+"~") // after all IDs of that microsecond
	}
	return query
}

// DeleteRecords deletes records from before the given time.
func (s *Store) DeleteRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "records", s.records().Where(fire.ID, ">", timeID(before)+"~"), limit)
}
