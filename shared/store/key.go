package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
)

// keyDoc is a document of keys/{key id}. project and environment are there so
// that each list is one query on indexed fields; namespace is what the gate
// compares. Canaries share the collection and have none of the three.
type keyDoc struct {
	Prefix        string     `firestore:"prefix"`
	Project       string     `firestore:"project"`
	Environment   string     `firestore:"environment"`
	Namespace     string     `firestore:"namespace"`
	Plan          string     `firestore:"plan"`
	Name          string     `firestore:"name"`
	Apps          []string   `firestore:"apps"`
	Status        string     `firestore:"status"`
	Secret        []byte     `firestore:"secret"`         // SHA-256 of the full key
	Previous      []byte     `firestore:"previous"`       // the one before it; empty without one
	PreviousUntil *time.Time `firestore:"previous_until"` // null without a previous one
	ExpiresAt     *time.Time `firestore:"expires_at"`     // null never expires
	CreatedAt     time.Time  `firestore:"created_at"`
	CreatedBy     string     `firestore:"created_by"`
	UpdatedAt     time.Time  `firestore:"updated_at"`
}

func keyToDoc(k apikey.Key) keyDoc {
	d := keyDoc{
		Prefix: string(k.Prefix), Project: k.Project, Environment: k.Environment, Namespace: k.Namespace,
		Plan: string(k.Plan), Name: k.Name, Apps: append([]string{}, k.Apps...), Status: string(k.Status),
		Secret:    k.Secret[:],
		ExpiresAt: timeOrNull(k.ExpiresAt), PreviousUntil: timeOrNull(k.PreviousUntil),
		CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, UpdatedAt: k.UpdatedAt,
	}
	if d.PreviousUntil != nil {
		d.Previous = k.Previous[:]
	}
	return d
}

// key refuses a document whose hashes are not whole: an array's rest of zeros
// would be a hash of its own.
func (d keyDoc) key() (apikey.Key, error) {
	k := apikey.Key{
		Prefix: apikey.Prefix(d.Prefix), Project: d.Project, Environment: d.Environment, Namespace: d.Namespace,
		Plan: plan.ID(d.Plan), Name: d.Name, Apps: d.Apps, Status: apikey.Status(d.Status),
		ExpiresAt: zeroOrTime(d.ExpiresAt), PreviousUntil: zeroOrTime(d.PreviousUntil),
		CreatedAt: d.CreatedAt.UTC(), CreatedBy: d.CreatedBy, UpdatedAt: d.UpdatedAt.UTC(),
	}
	if copy(k.Secret[:], d.Secret) != len(k.Secret) || len(d.Secret) != len(k.Secret) {
		return apikey.Key{}, fmt.Errorf("read %s: its secret's hash has %d bytes", k.ID(), len(d.Secret))
	}
	if d.PreviousUntil == nil {
		return k, nil
	}
	if copy(k.Previous[:], d.Previous) != len(k.Previous) || len(d.Previous) != len(k.Previous) {
		return apikey.Key{}, fmt.Errorf("read %s: its previous secret's hash has %d bytes", k.ID(), len(d.Previous))
	}
	return k, nil
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

// CreateKey stores a new key. The prefix is unique in the whole installation:
// already_exists means that it is taken and another one should be drawn. Its plan
// and the apps of its scope are read in the same transaction, so that none can
// be deleted meanwhile. Problems: already_exists, unknown_plan, invalid_scope.
func (s *Store) CreateKey(ctx context.Context, k apikey.Key) error {
	return s.IssueKey(ctx, k, apikey.Request{}, 0)
}

// IssueKey is [Store.CreateKey] for a request that may come again: the same
// transaction keeps that it was issued its key. With it its environment has at most so
// many keys, revoked ones aside; 0 is any number. Problems besides: already_issued,
// too_many_keys.
//
// The transaction counts, so that no number is kept that could come to be wrong, or that
// every revocation would have to write. Keys of an environment that are created at once
// are told apart by its document, which is read by all of them and written by those that
// come near the limit.
func (s *Store) IssueKey(ctx context.Context, k apikey.Key, r apikey.Request, most int) error {
	ref, err := s.keyRef(k.ID())
	if err != nil {
		return fmt.Errorf("create %s: %w", k.ID(), err)
	}
	err = s.inTurn(ctx, s.environments().Doc(k.Namespace), func(ctx context.Context, tx *firestore.Transaction) error {
		if err := s.planExists(tx, k.Namespace, k.Plan); err != nil {
			return err
		}
		if err := s.appsExist(tx, k.Namespace, k.Apps); err != nil {
			return err
		}
		if err := s.notIssued(tx, r); err != nil {
			return err
		}
		if err := s.roomForKey(ctx, tx, k.Namespace, most); err != nil {
			return err
		}
		if err := tx.Create(ref, keyToDoc(k)); err != nil {
			return err
		}
		if err := s.noteIssued(tx, r, k.ID()); err != nil {
			return err
		}
		return s.txRecord(ctx, tx, audit.Change{Action: audit.CreateKey, Project: k.Project, Resource: keyPath(k), New: keyView(k)})
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", k.ID(), err)
	}
	return nil
}

// keysAtOnce is more keys than are created in one environment at one time.
const keysAtOnce = 100

// roomForKey counts an environment's keys inside a transaction, after its last read. A
// query says nothing about the keys that others are about to create: where those could
// pass the limit, the environment's document is written, which lets one through at a
// time. Problem: too_many_keys.
func (s *Store) roomForKey(ctx context.Context, tx *firestore.Transaction, namespace string, most int) error {
	if most == 0 {
		return nil
	}
	ref := s.environments().Doc(namespace)
	if _, err := s.txEnvironment(tx, namespace); err != nil {
		return err
	}
	const name = "keys"
	counted := s.keys().Where("namespace", "==", namespace).Where("status", "in", apikey.Usable()).Limit(most)
	found, err := counted.NewAggregationQuery().WithCount(name).Transaction(tx).Get(ctx)
	if err != nil {
		return fmt.Errorf("count keys: %w", known(err, "key"))
	}
	n, ok := found[name].(*pb.Value)
	switch {
	case !ok:
		return fmt.Errorf("count keys: got %T", found[name])
	case n.GetIntegerValue() >= int64(most):
		return problem.New(problem.TooManyKeys, "The environment has %d keys, as many as it may; revoke some that are not needed.", most)
	case n.GetIntegerValue() >= int64(most-keysAtOnce):
		return tx.Update(ref, []firestore.Update{{Path: "full_at", Value: firestore.ServerTimestamp}})
	}
	return nil
}

// DeleteRevokedKeys deletes up to limit keys that were revoked before a time, and tells
// how many. Nothing changes a revoked key: its last change is its revocation.
func (s *Store) DeleteRevokedKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	snaps, err := s.keys().Where("status", "==", string(apikey.Revoked)).Where("updated_at", "<", before).
		Select().Limit(limit).Documents(ctx).GetAll()
	if err != nil {
		return 0, fmt.Errorf("find revoked keys: %w", known(err, "key"))
	}
	for i, snap := range snaps {
		if _, err := snap.Ref.Delete(ctx); err != nil {
			return i, fmt.Errorf("delete %s: %w", snap.Ref.ID, known(err, "key"))
		}
	}
	return len(snaps), nil
}

// Key reads one key. Problem: not_found.
func (s *Store) Key(ctx context.Context, id apikey.ID) (apikey.Key, error) {
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, err
	}
	d, err := get[keyDoc](ctx, ref, "key")
	if err != nil {
		return apikey.Key{}, err
	}
	return d.key()
}

// KeyFilter tells which keys a list has: those of a project, and, where they are not
// "", of one of its environments and of a plan.
type KeyFilter struct {
	Project     string
	Environment string
	Plan        plan.ID
}

// Keys lists keys.
func (s *Store) Keys(ctx context.Context, f KeyFilter, page Page) ([]apikey.Key, string, error) {
	q := s.keys().Where("project", "==", f.Project)
	if f.Environment != "" {
		q = q.Where("environment", "==", f.Environment)
	}
	if f.Plan != "" {
		q = q.Where("plan", "==", string(f.Plan))
	}
	docs, next, err := list[keyDoc](ctx, s.keys(), q, page)
	if err != nil {
		return nil, "", err
	}
	keys := make([]apikey.Key, len(docs))
	for i, d := range docs {
		if keys[i], err = d.key(); err != nil {
			return nil, "", err
		}
	}
	return keys, next, nil
}

// UpdateKey changes a key in a transaction: change gets what is stored and gives
// what shall be; it may run more than once. A plan or a scope that changes is
// looked up as in [Store.CreateKey]; one that stays is not, so that a key whose
// app is gone can still be disabled. Giving back what was stored writes nothing.
// Problems: not_found, unknown_plan, invalid_scope and those of change.
func (s *Store) UpdateKey(ctx context.Context, id apikey.ID, change func(apikey.Key) (apikey.Key, error)) (apikey.Key, error) {
	return s.ReissueKey(ctx, id, apikey.Request{}, change)
}

// ReissueKey is [Store.UpdateKey] for a request that may come again: the same
// transaction keeps that it was issued its key. Problem besides: already_issued.
func (s *Store) ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (apikey.Key, error) {
	var changed apikey.Key
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, fmt.Errorf("update %s: %w", id, err)
	}
	err = s.inTurn(ctx, ref, func(ctx context.Context, tx *firestore.Transaction) error {
		d, err := txGet[keyDoc](tx, ref, "key")
		if err != nil {
			return err
		}
		stored, err := d.key()
		if err != nil {
			return err
		}
		if changed, err = change(stored); err != nil {
			return err
		}
		if reflect.DeepEqual(keyToDoc(changed), keyToDoc(stored)) {
			return nil
		}
		if err := s.checkMoved(tx, stored, changed); err != nil {
			return err
		}
		if err := s.notIssued(tx, r); err != nil {
			return err
		}
		if err := tx.Set(ref, keyToDoc(changed)); err != nil {
			return err
		}
		if err := s.noteIssued(tx, r, id); err != nil {
			return err
		}
		return s.txRecordUpdate(ctx, tx, keyChange(stored, changed))
	})
	if err != nil {
		return apikey.Key{}, fmt.Errorf("update %s: %w", id, err)
	}
	return changed, nil
}

// checkMoved looks up what a key newly refers to.
func (s *Store) checkMoved(tx *firestore.Transaction, stored, changed apikey.Key) error {
	if changed.Plan != stored.Plan {
		if err := s.planExists(tx, changed.Namespace, changed.Plan); err != nil {
			return err
		}
	}
	if slices.Equal(changed.Apps, stored.Apps) {
		return nil
	}
	return s.appsExist(tx, changed.Namespace, changed.Apps)
}

// planExists reads a plan inside a transaction. Problem: unknown_plan.
func (s *Store) planExists(tx *firestore.Transaction, namespace string, id plan.ID) error {
	if !plan.ValidID(string(id)) { // it would become a part of the path
		return problem.Of(problem.UnknownPlan)
	}
	_, err := txGet[planDoc](tx, s.planRef(namespace, id), "plan")
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
		return fmt.Errorf("look up apps: %w", known(err, "app"))
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
	return t.UTC()
}
