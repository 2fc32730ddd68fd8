package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

// listedDoc contains the searchable fields of a key, and is written together with it. It can change
// with each use, because no checker listens to it.
type listedDoc struct {
	Project     string   `firestore:"project"`
	Environment string   `firestore:"environment"`
	Plan        string   `firestore:"plan"`
	Status      string   `firestore:"status"`
	Apps        []string `firestore:"apps"` // of the scope; [everyApp] if it covers all apps
	Words       []string `firestore:"words"`
	Expires     string   `firestore:"expires"`
	LeakUntil   string   `firestore:"leak_until"` // of [apikey.Key.LeakShownUntil]
	LastSeen    string   `firestore:"last_seen"`  // YYYY-MM-DD; "" never; written by rollup
}

// everyApp is not a valid app name.
const everyApp = "*"

func listedToDoc(k apikey.Key) listedDoc {
	d := listedDoc{
		Project: k.Project, Environment: k.Environment, Plan: string(k.Plan), Status: string(k.Status),
		Apps: k.Apps, Words: k.SearchTerms(), Expires: sortable(k.ExpiresAt),
		LeakUntil: sortable(k.LeakShownUntil()),
	}
	if len(d.Apps) == 0 {
		d.Apps = []string{everyApp}
	}
	return d
}

func sortable(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func lastDay(h usage.History) string {
	if len(h) == 0 {
		return ""
	}
	return h[len(h)-1].Day.String()
}

func (s *Store) keylist() *firestore.CollectionRef { return s.client.Collection("keylist") }

func (s *Store) listRef(id string) *firestore.DocumentRef { return s.keylist().Doc(id) }

func (s *Store) list(b *batch, k apikey.Key) { b.set(s.listRef(string(k.ID())), listedToDoc(k)) }

// relist preserves the day of last use and the fields of later releases.
func (s *Store) relist(b *batch, k apikey.Key) {
	fields := firestore.Merge(
		[]string{"project"}, []string{"environment"}, []string{"plan"}, []string{"status"}, []string{"apps"}, []string{"words"}, []string{"expires"}, []string{"leak_until"},
	)
	b.writes = append(b.writes, func(tx *firestore.Transaction) error {
		return tx.Set(s.listRef(string(k.ID())), listedToDoc(k), fields)
	})
}

// KeySearch selects keys. Zero fields select all.
type KeySearch struct {
	KeyFilter

	Text      string // result of [apikey.SearchText]
	App       string
	Expired   time.Time
	Unexpired time.Time
	Since     time.Time // with Expired: expires after this time
	Leaked    time.Time

	// LastSeen sorts by the day of last use, latest first. Otherwise, Leaked sorts by leak, latest
	// first, and Expired by expiry. The default is the order of IDs.
	LastSeen bool
}

// KeyPlace is the position of a key in a sorted list; zero is the start.
type KeyPlace struct {
	Value string // of the sort field
	ID    apikey.ID
}

// Candidate is a key that a search has read, selected or not.
type Candidate struct {
	Prefix   apikey.Prefix
	Place    KeyPlace
	Selected bool
}

// FindKeys reads up to limit entries after a place. Entries may be older than the keys. FindKeys
// returns a conflict problem if the database lacks an index.
func (s *Store) FindKeys(ctx context.Context, q KeySearch, after KeyPlace, limit int) ([]Candidate, error) {
	snaps, err := snapshots(ctx, s.searched(q, after).Select("apps", "words", "expires", "leak_until", "last_seen").Limit(limit))
	if err != nil {
		return nil, fmt.Errorf("find keys: %w", err)
	}
	return readAll(snaps, q.candidate)
}

// A Firestore query can filter only one array, so [KeySearch.selects] also compares the app.
func (s *Store) searched(q KeySearch, after KeyPlace) firestore.Query {
	f := q.on(s.keylist().Query)
	switch {
	case q.Text != "":
		f = f.Where("words", "array-contains", apikey.SearchTerm(strings.ToValidUTF8(q.Text, "\uFFFD")))
	case q.App != "":
		f = f.Where("apps", "array-contains-any", []string{everyApp, q.App})
	}
	switch q.order() {
	case "last_seen":
		f = f.OrderBy("last_seen", firestore.Desc).OrderBy(firestore.DocumentID, firestore.Desc)
	case "expires":
		f = f.Where("expires", ">", sortable(q.Since)).Where("expires", "<=", sortable(q.Expired)).OrderBy("expires", firestore.Asc).OrderBy(firestore.DocumentID, firestore.Asc)
	case "leak_until":
		f = f.Where("leak_until", ">", sortable(q.Leaked)).OrderBy("leak_until", firestore.Desc).OrderBy(firestore.DocumentID, firestore.Desc)
	default:
		f = f.OrderBy(firestore.DocumentID, firestore.Asc)
	}
	switch {
	case after.ID == "":
		return f
	case q.order() == "":
		return f.StartAfter(s.listRef(string(after.ID)))
	}
	return f.StartAfter(after.Value, s.listRef(string(after.ID)))
}

func (q KeySearch) order() string {
	switch {
	case q.LastSeen:
		return "last_seen"
	case !q.Leaked.IsZero():
		return "leak_until"
	case !q.Expired.IsZero():
		return "expires"
	}
	return ""
}

func (q KeySearch) candidate(snap *firestore.DocumentSnapshot) (Candidate, error) {
	d, err := shape[listedDoc](snap)
	prefix, _ := apikey.ID(snap.Ref.ID).Prefix()
	c := Candidate{Prefix: prefix, Place: KeyPlace{ID: apikey.ID(snap.Ref.ID)}, Selected: q.selects(d)}
	switch q.order() {
	case "last_seen":
		c.Place.Value = d.LastSeen
	case "leak_until":
		c.Place.Value = d.LeakUntil
	case "expires":
		c.Place.Value = d.Expires
	}
	return c, err
}

func (q KeySearch) selects(d listedDoc) bool {
	return (q.App == "" || slices.Contains(d.Apps, everyApp) || slices.Contains(d.Apps, q.App)) &&
		(q.Expired.IsZero() || d.Expires != "" && d.Expires <= sortable(q.Expired)) &&
		(q.Unexpired.IsZero() || d.Expires == "" || d.Expires > sortable(q.Unexpired))
}

type listDoc struct {
	After   string    `firestore:"after"`
	Day     string    `firestore:"day"`
	Changed time.Time `firestore:"changed"`
	Settled int       `firestore:"settled"`
}

// ListState is the progress of rollup's comparison of the entries with the keys.
type ListState struct {
	After   apikey.ID // last key compared in this pass; "" between passes
	Day     string
	Changed time.Time // all changes of keys before this time are in the list
	Settled usage.Day // last finalized day at the last pass
}

// listStale is the age at which the list is no longer used. An earlier release changes keys without
// changing the list.
const listStale = 15 * time.Minute

// KeyListReady reports whether rollup has compared all keys once, and all changes except those in
// the last listStale by the store's clock.
func (s *Store) KeyListReady(ctx context.Context) (bool, error) {
	ready, err := get(ctx, s.mark("keylist"), "mark", func(snap *firestore.DocumentSnapshot) (bool, error) {
		d, err := shape[listDoc](snap)
		return d.Day != "" && snap.ReadTime.Sub(d.Changed) < listStale, err
	})
	if problem.Is(err, problem.NotFound) {
		return false, nil
	}
	return ready, err
}

// KeyList returns the progress of rollup; zero before the first run.
func (s *Store) KeyList(ctx context.Context) (ListState, error) {
	d, err := get(ctx, s.mark("keylist"), "mark", shape[listDoc])
	if problem.Is(err, problem.NotFound) {
		return ListState{}, nil
	}
	return ListState{apikey.ID(d.After), d.Day, d.Changed, usage.Day(d.Settled)}, err //nolint:gosec // a day
}

// SetKeyList stores the progress of rollup.
func (s *Store) SetKeyList(ctx context.Context, l ListState) error {
	return s.transact(ctx, "store the state of the key list", func(_ context.Context, _ *firestore.Transaction, b *batch) error {
		b.set(s.mark("keylist"), listDoc{string(l.After), l.Day, l.Changed, int(l.Settled)})
		return nil
	})
}

// RelistKeys compares up to limit keys after an ID with the list. It corrects the list, and deletes
// entries without a key. It calls use for each undamaged key with its rollup. It returns the last
// compared ID, or "" after the last key.
func (s *Store) RelistKeys(ctx context.Context, after apikey.ID, limit int, use func(apikey.Key, usage.History)) (last apikey.ID, corrected int, err error) {
	from := max(string(after), "key-") // canaries have lower IDs
	page := func(coll *firestore.CollectionRef) ([]*firestore.DocumentSnapshot, error) {
		return snapshots(ctx, coll.OrderBy(firestore.DocumentID, firestore.Asc).StartAfter(coll.Doc(from)).Limit(limit))
	}
	keys, err := page(s.keys())
	if err != nil {
		return "", 0, fmt.Errorf("read keys: %w", err)
	}
	entries, err := page(s.keylist())
	if err != nil {
		return "", 0, fmt.Errorf("read the list of keys: %w", err)
	}
	end := ""
	for _, snaps := range [][]*firestore.DocumentSnapshot{keys, entries} {
		if len(snaps) == limit {
			if id := snaps[limit-1].Ref.ID; end == "" || id < end {
				end = id
			}
		}
	}
	within := func(snaps []*firestore.DocumentSnapshot) []*firestore.DocumentSnapshot {
		return slices.DeleteFunc(snaps, func(snap *firestore.DocumentSnapshot) bool { return end != "" && snap.Ref.ID > end })
	}
	corrected, err = s.compareList(ctx, within(keys), within(entries), use)
	return apikey.ID(end), corrected, err
}

// RelistChanged is like RelistKeys, for keys that changed at since or later, in the order of the
// changes. It returns the time of the last change.
func (s *Store) RelistChanged(ctx context.Context, since time.Time, limit int) (last time.Time, compared, corrected int, err error) {
	keys, err := snapshots(ctx, s.keys().Where("updated_at", ">=", since).OrderBy("updated_at", firestore.Asc).Limit(limit))
	if err != nil || len(keys) == 0 {
		return since, 0, 0, err
	}
	refs := make([]*firestore.DocumentRef, len(keys))
	for i, snap := range keys {
		refs[i] = s.listRef(snap.Ref.ID)
		if at, ok := snap.Data()["updated_at"].(time.Time); ok {
			last = at
		}
	}
	entries, err := s.getAll(ctx, refs)
	if err == nil {
		corrected, err = s.compareList(ctx, keys, entries, func(apikey.Key, usage.History) {})
	}
	return last, len(keys), corrected, err
}

func (s *Store) getAll(ctx context.Context, refs []*firestore.DocumentRef) ([]*firestore.DocumentSnapshot, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snaps, err := s.client.GetAll(ctx, refs)
	return snaps, problemOf(err, "document")
}

// compareList corrects the entries that differ from their keys. A damaged key retains its entry.
func (s *Store) compareList(ctx context.Context, keys, entries []*firestore.DocumentSnapshot, use func(apikey.Key, usage.History)) (corrected int, err error) {
	listed := map[string]*firestore.DocumentSnapshot{}
	for _, entry := range entries {
		listed[entry.Ref.ID] = entry
	}
	var rollups []*firestore.DocumentRef
	for _, key := range keys {
		rollups = append(rollups, s.rollups().Doc(key.Ref.ID))
	}
	used, err := s.getAll(ctx, rollups)
	if err != nil {
		return 0, fmt.Errorf("read rollups: %w", err)
	}
	var wrong []string
	for i, key := range keys {
		if !entryMatches(key, used[i], listed[key.Ref.ID]) {
			wrong = append(wrong, key.Ref.ID)
		}
		k, damaged := readKey(key)
		h, lost := readRollup(used[i])
		if damaged == nil && lost == nil {
			use(k, h)
		}
		delete(listed, key.Ref.ID)
	}
	for id := range listed {
		if listed[id].Exists() {
			wrong = append(wrong, id)
		}
	}
	slices.Sort(wrong)
	for some := range slices.Chunk(wrong, narrowPage) {
		if err := s.correctList(ctx, some); err != nil {
			return corrected, err
		}
		corrected += len(some)
	}
	return corrected, nil
}

func entryMatches(key, rollup, entry *firestore.DocumentSnapshot) bool {
	var is listedDoc
	absent := entry == nil || !entry.Exists() || entry.DataTo(&is) != nil
	want, err := entryOf(key, rollup, is)
	if err != nil {
		return true
	}
	if absent {
		return false
	}
	_, unordered := entry.DataAt("last_seen") // sorted lists omit entries without last_seen
	return unordered == nil && reflect.DeepEqual(is, want)
}

// entryOf retains the last use if the rollup is damaged.
func entryOf(key, rollup *firestore.DocumentSnapshot, is listedDoc) (listedDoc, error) {
	k, err := readKey(key)
	if err != nil {
		return listedDoc{}, err
	}
	d := listedToDoc(k)
	d.LastSeen = is.LastSeen
	if h, err := readRollup(rollup); err == nil {
		d.LastSeen = lastDay(h)
	}
	return d, nil
}

func (s *Store) correctList(ctx context.Context, ids []string) error {
	return s.transact(ctx, fmt.Sprintf("correct %d entries of the list of keys", len(ids)), func(_ context.Context, tx *firestore.Transaction, b *batch) error {
		var refs []*firestore.DocumentRef
		for _, id := range ids {
			refs = append(refs, s.keys().Doc(id), s.rollups().Doc(id), s.listRef(id))
		}
		snaps, err := tx.GetAll(refs)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(snaps, 3) {
			key, rollup, entry := some[0], some[1], some[2]
			if !key.Exists() {
				b.delete(entry.Ref)
				continue
			}
			var is listedDoc
			absent := !entry.Exists() || entry.DataTo(&is) != nil
			want, err := entryOf(key, rollup, is)
			switch {
			case err != nil:
			case absent:
				b.set(entry.Ref, want)
			default: // last_seen may be missing
				changes := changedFields(is, want)
				if is.LastSeen == want.LastSeen {
					changes = append(changes, firestore.Update{Path: "last_seen", Value: want.LastSeen})
				}
				b.update(entry.Ref, changes...)
			}
		}
		return nil
	})
}

// setLastSeen writes into existing entries. The transaction must not have written yet.
func (s *Store) setLastSeen(tx *firestore.Transaction, b *batch, last map[*firestore.DocumentRef]string) error {
	refs := make([]*firestore.DocumentRef, 0, len(last))
	for ref := range last {
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil
	}
	snaps, err := tx.GetAll(refs)
	if err != nil {
		return err
	}
	for i, snap := range snaps {
		if snap.Exists() {
			b.update(refs[i], firestore.Update{Path: "last_seen", Value: last[refs[i]]})
		}
	}
	return nil
}
