package store

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

type keyDoc struct {
	apikey.Key

	Secret        []byte     `firestore:"secret"` // SHA-256 of the full key
	Previous      []byte     `firestore:"previous"`
	PreviousUntil *time.Time `firestore:"previous_until"`
	ExpiresAt     *time.Time `firestore:"expires_at"`
	Leak          *leakDoc   `firestore:"leak,omitempty"`
}

func keyToDoc(k apikey.Key) keyDoc {
	d := keyDoc{
		Key: k, Secret: k.Secret[:], ExpiresAt: timeOrNull(k.ExpiresAt), PreviousUntil: timeOrNull(k.PreviousUntil), Leak: leakToDoc(k.Leak),
	}
	d.Apps = append([]string{}, k.Apps...)
	if d.PreviousUntil != nil {
		d.Previous = k.Previous[:]
	}
	return d
}

// readKey rejects incomplete hashes: padded with zeros, they would be valid.
func readKey(doc fire.Doc) (apikey.Key, error) {
	d, err := shape[keyDoc](doc)
	if err != nil {
		return apikey.Key{}, err
	}
	k := d.Key
	k.ExpiresAt, k.PreviousUntil = zeroOrTime(d.ExpiresAt), zeroOrTime(d.PreviousUntil)
	var ok bool
	if k.Secret, ok = hashOf(d.Secret); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: hash of the secret has %d bytes", k.ID(), len(d.Secret))
	}
	if k.Leak, ok = d.Leak.value(); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: hash of the leaked secret has %d bytes", k.ID(), len(d.Leak.Secret))
	}
	if d.PreviousUntil == nil {
		return k, nil
	}
	if k.Previous, ok = hashOf(d.Previous); !ok {
		return apikey.Key{}, fmt.Errorf("read %s: hash of the previous secret has %d bytes", k.ID(), len(d.Previous))
	}
	return k, nil
}

func hashOf(b []byte) (h apikey.Hash, ok bool) {
	if len(b) != len(h) {
		return h, false
	}
	return apikey.Hash(b), true
}

// keyRef rejects IDs of other documents, such as canaries.
func (s *Store) keyRef(id apikey.ID) (fire.Ref, error) {
	if _, ok := id.Prefix(); !ok {
		return fire.Ref{}, problem.New(problem.NotFound, "The key does not exist.")
	}
	return s.keys().Doc(string(id)), nil
}

// IssueKey stores a new key. r is a request that a client may repeat; the transaction records its
// key. limit is the maximum number of usable keys in the environment, or 0 for no limit (see
// [keysAtOnce]).
//
// It returns already_exists if the prefix is in use, unknown_plan, invalid_scope, already_issued,
// idempotency_key_reused or too_many_keys.
func (s *Store) IssueKey(ctx context.Context, k apikey.Key, r apikey.Request, limit int) (checkers.Change, error) {
	op := "create " + string(k.ID())
	ref, err := s.keyRef(k.ID())
	if err != nil {
		return checkers.Change{}, fmt.Errorf("%s: %w", op, err)
	}
	// issue creates the key unless room returns an error.
	issue := func(room change) change {
		return func(ctx context.Context, tx fire.Tx, b *batch) error {
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
			b.Create(ref, keyToDoc(k))
			s.list(b, k)
			s.recordIssued(b, r, k.ID())
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

// DeleteRevokedKeys deletes keys that were revoked before the given time.
func (s *Store) DeleteRevokedKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "keys", s.keys().Where("status", "==", string(apikey.Revoked)).Where("updated_at", "<", before), limit, s.listRef)
}

// Key returns a key.
func (s *Store) Key(ctx context.Context, id apikey.ID) (apikey.Key, error) {
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, err
	}
	return get(ctx, ref, "key", readKey)
}

// Holds reports whether the filter selects a key.
func (f KeyFilter) Holds(k apikey.Key) bool {
	return k.Project == f.Project && (f.Environment == "" || k.Environment == f.Environment) &&
		(f.Plan == "" || k.Plan == f.Plan) && (f.Status == "" || k.Status == f.Status) && (!f.Usable || k.Status != apikey.Revoked)
}

// KeyFilter selects the keys of a project and, unless they are "", of an environment, a plan and a
// stored status.
type KeyFilter struct {
	Project     string
	Environment string
	Plan        plan.ID
	Status      apikey.Status
	Usable      bool // without revoked keys
}

// Keys lists keys.
func (s *Store) Keys(ctx context.Context, f KeyFilter, page Page) ([]apikey.Key, string, error) {
	return list(ctx, f.on(s.keys()), page, readKey)
}

// EachKey iterates over the keys of a filter by ID.
func (s *Store) EachKey(ctx context.Context, f KeyFilter) iter.Seq2[apikey.Key, error] {
	return each(ctx, f.on(s.keys()).OrderBy(fire.ID), readKey)
}

// EachListed iterates over the keys after an ID, or all if it is "". It returns only their prefix,
// name, plan, scope, tags, status, expiry and time of creation.
func (s *Store) EachListed(ctx context.Context, f KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error] {
	q := f.on(s.keys()).OrderBy(fire.ID)
	if after != "" {
		q = q.After(string(after))
	}
	return each(ctx, q.Select("prefix", "name", "plan", "apps", "tags", "status", "expires_at", "created_at"), func(doc fire.Doc) (apikey.Key, error) {
		d, err := shape[keyDoc](doc)
		d.Key.ExpiresAt = zeroOrTime(d.ExpiresAt)
		return d.Key, err
	})
}

func (f KeyFilter) on(q fire.Query) fire.Query {
	if f.Usable {
		q = q.Where("status", "in", apikey.Usable())
	}
	return q.Where("project", "==", f.Project).WhereSet("environment", "==", f.Environment).
		WhereSet("plan", "==", f.Plan).WhereSet("status", "==", f.Status)
}

// ReissueKey replaces a key with the result of change. A new plan or scope is verified as in
// [Store.IssueKey]; an unchanged one is not, so a key with a deleted app can still be disabled. An
// unchanged key is not written; c is then its last change.
func (s *Store) ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (changed apikey.Key, c checkers.Change, err error) {
	op := "update " + string(id)
	ref, err := s.keyRef(id)
	if err != nil {
		return apikey.Key{}, c, fmt.Errorf("%s: %w", op, err)
	}
	var last time.Time
	made, err := s.commitSerially(ctx, op, ref, func(ctx context.Context, tx fire.Tx, b *batch) error {
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
		if err := s.checkReferences(tx, b, stored, changed); err != nil {
			return err
		}
		b.Change(ref, keyToDoc(stored), keyToDoc(changed))
		s.relist(b, changed)
		s.recordIssued(b, r, id)
		s.recordUpdate(ctx, b, keyChange(stored, changed))
		if t, ok := event.OfKeyChange(stored, changed); ok {
			s.announceKey(b, t, changed)
		}
		last = time.Time{}
		return nil
	})
	if err != nil {
		return apikey.Key{}, c, err
	}
	c = checkers.Change{ID: made.record, Keys: made.at, Plans: made.plan}
	if !last.IsZero() {
		c.Keys = last
	}
	return changed, c, nil
}

func (s *Store) checkReferences(tx fire.Tx, b *batch, stored, changed apikey.Key) error {
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

// planExists sets b.plan.
func (s *Store) planExists(tx fire.Tx, b *batch, namespace string, id plan.ID) error {
	if !plan.ValidID(string(id)) { // it would become a part of the path
		return problem.FromCode(problem.UnknownPlan)
	}
	_, err := txGet(tx, s.planRef(namespace, id), "plan", decode[planDoc], &b.plan)
	if problem.Is(err, problem.NotFound) {
		return problem.FromCode(problem.UnknownPlan)
	}
	return err
}

func (s *Store) appsExist(tx fire.Tx, namespace string, apps []string) error {
	refs := make([]fire.Ref, len(apps))
	for i, name := range apps {
		if !app.ValidLabel(name) {
			return unknownApp(name)
		}
		refs[i] = s.appRef(app.Ref{Namespace: namespace, Name: name})
	}
	if len(refs) == 0 {
		return nil
	}
	docs, err := tx.Get(refs...)
	if err != nil {
		return fmt.Errorf("look up apps: %w", problemOf(err, "app"))
	}
	for i, doc := range docs {
		if !doc.Exists {
			return unknownApp(apps[i])
		}
	}
	return nil
}

func unknownApp(name string) error {
	return problem.New(problem.InvalidScope, "The app %.40q does not exist in the key's environment.", name)
}

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

type keyRequestDoc struct {
	Key       string    `firestore:"key"`
	Content   string    `firestore:"content"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

// notIssued returns already_issued if the request issued a key, or idempotency_key_reused if
// another request had its ID.
func (s *Store) notIssued(tx fire.Tx, r apikey.Request) error {
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
		return problem.FromCode(problem.IdempotencyKeyReused)
	default:
		return problem.New(problem.AlreadyIssued, "This request already issued the full key of %s. A full key is shown only once. If it is lost, rotate the key.", d.Key)
	}
}

func (s *Store) recordIssued(b *batch, r apikey.Request, id apikey.ID) {
	if r.ID != "" {
		b.Set(s.deliveryRef(r.ID), keyRequestDoc{Key: string(id), Content: r.Content, ExpiresAt: r.At.Add(apikey.RequestRemembered)})
	}
}
