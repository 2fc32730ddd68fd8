package store

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
)

// keyDoc is a document of keys/{key id}. project and environment are there so
// that each list is one query on indexed fields; namespace is what the gate
// compares. Canaries share the collection and have none of the three.
type keyDoc struct {
	apikey.Key

	Secret        []byte     `firestore:"secret"`         // SHA-256 of the full key
	Previous      []byte     `firestore:"previous"`       // of the previous key; may be empty
	PreviousUntil *time.Time `firestore:"previous_until"` // null without a previous key
	ExpiresAt     *time.Time `firestore:"expires_at"`     // null never expires
	Leak          *leakDoc   `firestore:"leak,omitempty"`
}

func keyToDoc(k apikey.Key) keyDoc {
	d := keyDoc{
		Key: k, Secret: k.Secret[:], ExpiresAt: timeOrNull(k.ExpiresAt), PreviousUntil: timeOrNull(k.PreviousUntil), Leak: leakToDoc(k.Leak),
	}
	d.Apps = append([]string{}, k.Apps...) // never null
	if d.PreviousUntil != nil {
		d.Previous = k.Previous[:]
	}
	return d
}

// readKey refuses a document whose hashes are not whole: an array's rest of zeros
// would be a hash of its own.
func readKey(snap *firestore.DocumentSnapshot) (apikey.Key, error) {
	d, err := shape[keyDoc](snap)
	if err != nil {
		return apikey.Key{}, err
	}
	k := d.Key
	k.ExpiresAt, k.PreviousUntil = zeroOrTime(d.ExpiresAt), zeroOrTime(d.PreviousUntil)
	var ok bool
	if k.Secret, ok = hashOf(d.Secret); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: its secret's hash has %d bytes", k.ID(), len(d.Secret))
	}
	if k.Leak, ok = d.Leak.value(); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: its leak's hash has %d bytes", k.ID(), len(d.Leak.Secret))
	}
	if d.PreviousUntil == nil {
		return k, nil
	}
	if k.Previous, ok = hashOf(d.Previous); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: its previous secret's hash has %d bytes", k.ID(), len(d.Previous))
	}
	return k, nil
}

// hashOf reads a hash; ok is false where it is not whole.
func hashOf(b []byte) (h apikey.Hash, ok bool) {
	if len(b) != len(h) {
		return h, false
	}
	return apikey.Hash(b), true
}

func (s *Store) keys() *firestore.CollectionRef { return s.client.Collection("keys") }

// keyRef gives a key's document. An id of another shape names none, least of all
// a canary. Problem: not_found.
func (s *Store) keyRef(id apikey.ID) (*firestore.DocumentRef, error) {
	if _, ok := id.Prefix(); !ok {
		return nil, problem.New(problem.NotFound, "There is no such key.")
	}
	return s.keys().Doc(string(id)), nil
}

// IssueKey stores a new key. It reads the key's plan and the apps of its scope in the same
// transaction, so that no other call deletes them in the meantime.
//
// r is a request that a client may repeat. The transaction also stores that r has issued its
// key. limit is the highest number of usable keys in the environment, or 0 for any number;
// [keysAtOnce] explains how creations stay below it.
//
// It returns an already_exists problem if another key of the installation has the prefix.
// Other problems: unknown_plan, invalid_scope, already_issued, idempotency_key_reused,
// too_many_keys.
func (s *Store) IssueKey(ctx context.Context, k apikey.Key, r apikey.Request, limit int) (checkers.Change, error) {
	op := "create " + string(k.ID())
	ref, err := s.keyRef(k.ID())
	if err != nil {
		return checkers.Change{}, fmt.Errorf("%s: %w", op, err)
	}
	// issue creates the key in a transaction that room may refuse.
	issue := func(room change) change {
		return func(ctx context.Context, tx *firestore.Transaction, b *batch) error {
			if err := s.planExists(tx, b, k.Namespace, k.Plan); err != nil {
				return err
			}
			if err := s.appsExist(tx, k.Namespace, k.Apps); err != nil {
				return err
			}
			if err := s.notIssued(tx, r); err != nil {
				return err
			}
			if err := room(ctx, tx, b); err != nil {
				return err
			}
			b.create(ref, keyToDoc(k))
			s.list(b, k)
			s.noteIssued(b, r, k.ID())
			s.announceKey(b, event.KeyCreated, k)
			s.record(ctx, b, audit.Change{
				Action: audit.CreateKey, Project: k.Project, Resource: keyPath(k), Besides: environmentPath(k.Project, k.Environment), New: keyView(k),
			})
			return nil
		}
	}
	made, err := s.commitBelow(ctx, op, k.Namespace, limit, issue)
	return checkers.Change{ID: made.record, Keys: made.at, Plans: made.plan}, err
}

// DeleteRevokedKeys deletes up to limit keys that were revoked before a time, and tells
// how many. Nothing changes a revoked key: its last change is its revocation.
func (s *Store) DeleteRevokedKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "keys", s.keys().Where("status", "==", string(apikey.Revoked)).Where("updated_at", "<", before), limit, s.listRef)
}

// Key reads one key. Problem: not_found.
func (s *Store) Key(ctx context.Context, id apikey.ID) (apikey.Key, error) {
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, err
	}
	return get(ctx, ref, "key", readKey)
}

// Holds reports whether a list with this filter has a key.
func (f KeyFilter) Holds(k apikey.Key) bool {
	return k.Project == f.Project && (f.Environment == "" || k.Environment == f.Environment) &&
		(f.Plan == "" || k.Plan == f.Plan) && (f.Status == "" || k.Status == f.Status)
}

// KeyFilter tells which keys a list has: those of a project, and, where they are not
// "", of one of its environments, of a plan, and with a stored status.
type KeyFilter struct {
	Project     string
	Environment string
	Plan        plan.ID
	Status      apikey.Status
}

// Keys lists keys.
func (s *Store) Keys(ctx context.Context, f KeyFilter, page Page) ([]apikey.Key, string, error) {
	return list(ctx, s.keys(), s.filtered(f), page, readKey)
}

// EachKey goes through the keys of a filter in the order of their IDs. It reads them as they
// are needed and keeps none.
func (s *Store) EachKey(ctx context.Context, f KeyFilter) iter.Seq2[apikey.Key, error] {
	return each(ctx, s.filtered(f).OrderBy(firestore.DocumentID, firestore.Asc), readKey)
}

// EachListed is [Store.EachKey] for the keys after an ID, unless that is "". The keys have
// their prefix, name, scope, status and expiry, and nothing else.
func (s *Store) EachListed(ctx context.Context, f KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error] {
	q := s.filtered(f).OrderBy(firestore.DocumentID, firestore.Asc)
	if after != "" {
		q = q.StartAfter(s.keys().Doc(string(after)))
	}
	return each(ctx, q.Select("prefix", "name", "apps", "status", "expires_at"), func(snap *firestore.DocumentSnapshot) (apikey.Key, error) {
		d, err := shape[keyDoc](snap)
		d.Key.ExpiresAt = zeroOrTime(d.ExpiresAt)
		return d.Key, err
	})
}

func (s *Store) filtered(f KeyFilter) firestore.Query { return f.on(s.keys().Query) }

// on narrows a query of a collection whose documents have the fields of a filter.
func (f KeyFilter) on(q firestore.Query) firestore.Query {
	q = q.Where("project", "==", f.Project)
	if f.Environment != "" {
		q = q.Where("environment", "==", f.Environment)
	}
	if f.Plan != "" {
		q = q.Where("plan", "==", f.Plan)
	}
	if f.Status != "" {
		q = q.Where("status", "==", string(f.Status))
	}
	return q
}

// ReissueKey changes a key in a transaction: change gets what is stored and gives
// what shall be; it may run more than once. A plan or a scope that changes is
// looked up as in [Store.IssueKey]; one that stays is not, so that a key whose
// app is gone can still be disabled. Giving back what was stored writes nothing. r is as
// in [Store.IssueKey]. Problems: not_found, unknown_plan, invalid_scope, already_issued,
// idempotency_key_reused and those of change.
func (s *Store) ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (changed apikey.Key, c checkers.Change, err error) {
	op := "update " + string(id)
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, c, fmt.Errorf("%s: %w", op, err)
	}
	var last time.Time // when the key was changed last
	made, err := s.commitAlone(ctx, op, ref, func(ctx context.Context, tx *firestore.Transaction, b *batch) error {
		stored, err := txGet(tx, ref, "key", readKey, &last)
		if err != nil {
			return err
		}
		if err := s.notIssued(tx, r); err != nil {
			return err
		}
		if changed, err = change(stored); err != nil {
			return err
		}
		if reflect.DeepEqual(keyToDoc(changed), keyToDoc(stored)) {
			return nil
		}
		if err := s.checkMoved(tx, b, stored, changed); err != nil {
			return err
		}
		b.change(ref, keyToDoc(stored), keyToDoc(changed))
		s.relist(b, changed)
		s.noteIssued(b, r, id)
		s.recordUpdate(ctx, b, keyChange(stored, changed))
		if t, ok := event.OfKeyChange(stored, changed); ok {
			s.announceKey(b, t, changed)
		}
		last = time.Time{}
		return nil
	})
	c = checkers.Change{ID: made.record, Keys: made.at, Plans: made.plan}
	if !last.IsZero() {
		c.Keys = last
	}
	return changed, c, err
}

// checkMoved looks up what a key newly refers to.
func (s *Store) checkMoved(tx *firestore.Transaction, b *batch, stored, changed apikey.Key) error {
	if changed.Plan != stored.Plan {
		if err := s.planExists(tx, b, changed.Namespace, changed.Plan); err != nil {
			return err
		}
	}
	if slices.Equal(changed.Apps, stored.Apps) {
		return nil
	}
	return s.appsExist(tx, changed.Namespace, changed.Apps)
}

// planExists reads a plan inside a transaction, and notes in b when it was changed last.
// Problem: unknown_plan.
func (s *Store) planExists(tx *firestore.Transaction, b *batch, namespace string, id plan.ID) error {
	if !plan.ValidID(string(id)) { // it would become a part of the path
		return problem.Of(problem.UnknownPlan)
	}
	_, err := txGet(tx, s.planRef(namespace, id), "plan", decode[planDoc], &b.plan)
	if problem.Is(err, problem.NotFound) {
		return problem.Of(problem.UnknownPlan)
	}
	return err
}

// appsExist reads the apps of a scope inside a transaction. Problem:
// invalid_scope, naming the first app that the environment lacks.
func (s *Store) appsExist(tx *firestore.Transaction, namespace string, apps []string) error {
	refs := make([]*firestore.DocumentRef, len(apps))
	for i, name := range apps {
		if !app.ValidLabel(name) {
			return unknownApp(name)
		}
		refs[i] = s.appRef(app.Ref{Namespace: namespace, Name: name})
	}
	if len(refs) == 0 {
		return nil
	}
	snaps, err := tx.GetAll(refs)
	if err != nil {
		return fmt.Errorf("look up apps: %w", problemOf(err, "app"))
	}
	for i, snap := range snaps {
		if !snap.Exists() {
			return unknownApp(apps[i])
		}
	}
	return nil
}

func unknownApp(name string) error {
	return problem.New(problem.InvalidScope, "There is no app %.40q in the key's environment.", name)
}

// timeOrNull stores the zero time as null rather than as the year 1.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func zeroOrTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// keyRequestDoc is a document of deliveries/{id}, beside those of webhooks: which
// key a request was issued a full key of.
type keyRequestDoc struct {
	Key       string    `firestore:"key"`
	Content   string    `firestore:"content"`    // what it asked for
	ExpiresAt time.Time `firestore:"expires_at"` // the collection's TTL field
}

// notIssued refuses a request that was issued a full key before, or whose name another one
// had. Problems: already_issued, idempotency_key_reused.
func (s *Store) notIssued(tx *firestore.Transaction, r apikey.Request) error {
	if r.ID == "" {
		return nil
	}
	d, err := txGet(tx, s.deliveryRef(r.ID), "request", shape[keyRequestDoc])
	switch {
	case problem.Is(err, problem.NotFound):
		return nil
	case err != nil:
		return err
	case !r.At.Before(d.ExpiresAt):
		return nil
	case d.Content != r.Content:
		return problem.Of(problem.IdempotencyKeyReused)
	default:
		return problem.New(problem.AlreadyIssued, "This very request has issued the full key of %s before; it was shown that once.", d.Key)
	}
}

// noteIssued keeps that a request was issued a full key.
func (s *Store) noteIssued(b *batch, r apikey.Request, id apikey.ID) {
	if r.ID != "" {
		b.set(s.deliveryRef(r.ID), keyRequestDoc{Key: string(id), Content: r.Content, ExpiresAt: r.At.Add(apikey.RequestRemembered)})
	}
}
