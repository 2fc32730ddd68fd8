package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
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
	Tags        []string `firestore:"tags"`
	Words       []string `firestore:"words"`
	Expires     string   `firestore:"expires"`
	LeakUntil   string   `firestore:"leak_until"` // of [apikey.Key.LeakShownUntil]
	Name        string   `firestore:"name"`       // of [apikey.Key.SortName]
	LastSeen    string   `firestore:"last_seen"`  // YYYY-MM-DD; "" never; written by rollup
}

// everyApp is not a valid app name.
const everyApp = "*"

func listedToDoc(k apikey.Key) listedDoc {
	d := listedDoc{
		Project: k.Project, Environment: k.Environment, Plan: string(k.Plan), Status: string(k.Status),
		Apps: k.Apps, Tags: k.Tags, Words: k.SearchTerms(), Expires: sortable(k.ExpiresAt),
		LeakUntil: sortable(k.LeakShownUntil()), Name: k.SortName(),
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

func (s *Store) listRef(id string) fire.Ref { return s.keylist().Doc(id) }

func (s *Store) list(b *batch, k apikey.Key) { b.Set(s.listRef(string(k.ID())), listedToDoc(k)) }

// relist preserves the day of last use and the fields of later releases.
func (s *Store) relist(b *batch, k apikey.Key) {
	b.Merge(s.listRef(string(k.ID())), listedToDoc(k), "project", "environment", "plan", "status", "apps", "tags", "words", "expires", "leak_until", "name")
}

// KeySearch selects keys. Zero fields select all.
type KeySearch struct {
	KeyFilter

	Text      string // result of [apikey.SearchText]
	Tag       string
	App       string
	Expired   time.Time
	Unexpired time.Time
	Since     time.Time // with Expired: expires after this time
	Leaked    time.Time

	// Name sorts by [apikey.Key.SortName], and LastSeen by the day of last use, latest first. Otherwise,
	// Leaked sorts by leak, latest first, and Expired by expiry. The default is the order of IDs.
	Name     bool
	LastSeen bool
	Unseen   usage.Day // with LastSeen: last used before this day, or never; 0 for all
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
	docs, err := documents(ctx, s.searched(q, after).Select("apps", "tags", "words", "expires", "leak_until", "last_seen", "name").Limit(limit))
	if err != nil {
		return nil, fmt.Errorf("find keys: %w", err)
	}
	return readAll(docs, q.candidate)
}

// A Firestore query can filter only one array, so [KeySearch.selects] also compares tag and app.
func (s *Store) searched(q KeySearch, after KeyPlace) fire.Query {
	f := q.on(s.keylist())
	switch {
	case q.Text != "":
		f = f.Where("words", "array-contains", apikey.SearchTerm(strings.ToValidUTF8(q.Text, "\uFFFD")))
	case q.Tag != "":
		f = f.Where("tags", "array-contains", q.Tag)
	case q.App != "":
		f = f.Where("apps", "array-contains-any", []string{everyApp, q.App})
	}
	switch q.order() {
	case "name":
		f = f.OrderBy("name", fire.ID)
	case "last_seen":
		if q.Unseen != 0 {
			f = f.Where("last_seen", "<", q.Unseen.String())
		}
		f = f.OrderByDesc("last_seen", fire.ID)
	case "expires":
		f = f.Where("expires", ">", sortable(q.Since)).Where("expires", "<=", sortable(q.Expired)).OrderBy("expires", fire.ID)
	case "leak_until":
		f = f.Where("leak_until", ">", sortable(q.Leaked)).OrderByDesc("leak_until", fire.ID)
	default:
		f = f.OrderBy(fire.ID)
	}
	switch {
	case after.ID == "":
		return f
	case q.order() == "":
		return f.After(string(after.ID))
	}
	return f.After(after.Value, string(after.ID))
}

// maxListed is the maximum number of counted keys. Firestore counts a thousand keys for one read.
const maxListed = 40_000

// CountListed returns the number of listed keys that a filter selects. ok is false if the number is
// unknown, because there are too many.
func (s *Store) CountListed(ctx context.Context, f KeyFilter) (n int, ok bool, err error) {
	n, err = count(ctx, f.on(s.keylist()).Limit(maxListed))
	return n, n < maxListed, err
}

func (q KeySearch) order() string {
	switch {
	case q.Name:
		return "name"
	case q.LastSeen:
		return "last_seen"
	case !q.Leaked.IsZero():
		return "leak_until"
	case !q.Expired.IsZero():
		return "expires"
	}
	return ""
}

func (q KeySearch) candidate(doc fire.Doc) (Candidate, error) {
	d, err := shape[listedDoc](doc)
	prefix, _ := apikey.ID(doc.ID).Prefix()
	c := Candidate{Prefix: prefix, Place: KeyPlace{ID: apikey.ID(doc.ID)}, Selected: q.selects(d)}
	c.Place.Value, _ = doc.Field(q.order()).(string)
	return c, err
}

func (q KeySearch) selects(d listedDoc) bool {
	return (q.Tag == "" || slices.Contains(d.Tags, q.Tag)) &&
		(q.App == "" || slices.Contains(d.Apps, everyApp) || slices.Contains(d.Apps, q.App)) &&
		(q.Expired.IsZero() || d.Expires != "" && d.Expires <= sortable(q.Expired)) &&
		(q.Unexpired.IsZero() || d.Expires == "" || d.Expires > sortable(q.Unexpired))
}

// listVersion is the version of the fields of [listedDoc]. After an upgrade, the list is used only
// once rollup has compared all keys again.
const listVersion = 2

type listDoc struct {
	ListState

	Version int `firestore:"version"`
}

// value returns the start of a pass if another release wrote the entries.
func (d listDoc) value() ListState {
	if d.Version != listVersion {
		d.After, d.Day = "", ""
	}
	return d.ListState
}

// ListState is the progress of rollup's comparison of the entries with the keys.
type ListState struct {
	After   apikey.ID `firestore:"after"` // last key compared in this pass; "" between passes
	Day     string    `firestore:"day"`
	Changed time.Time `firestore:"changed"` // all changes of keys before this time are in the list
	Settled usage.Day `firestore:"settled"` // last finalized day at the last pass
}

// listStale is the age at which the list is no longer used. An earlier release changes keys without
// changing the list.
const listStale = 15 * time.Minute

// KeyListReady reports whether rollup has compared all keys once, and all changes except those in
// the last listStale by the store's clock.
func (s *Store) KeyListReady(ctx context.Context) (bool, error) {
	return orZero(get(ctx, s.mark("keylist"), "mark", func(doc fire.Doc) (bool, error) {
		l, err := decode[listDoc](doc)
		return l.Day != "" && doc.Read.Sub(l.Changed) < listStale, err
	}))
}

// KeyList returns the progress of rollup; zero before the first run. After an upgrade that changes
// the list, it returns the start of a pass.
func (s *Store) KeyList(ctx context.Context) (ListState, error) {
	return orZero(get(ctx, s.mark("keylist"), "mark", decode[listDoc]))
}

// SetKeyList stores the progress of rollup.
func (s *Store) SetKeyList(ctx context.Context, l ListState) error {
	return s.transact(ctx, "store the state of the key list", func(_ context.Context, _ fire.Tx, b *batch) error {
		b.Set(s.mark("keylist"), listDoc{l, listVersion})
		return nil
	})
}

// RelistKeys compares up to limit keys after an ID with the list. It corrects the list, and deletes
// entries without a key. It calls use for each undamaged key with its rollup. It returns the last
// compared ID, or "" after the last key.
func (s *Store) RelistKeys(ctx context.Context, after apikey.ID, limit int, use func(apikey.Key, usage.History)) (last apikey.ID, corrected int, err error) {
	from := max(string(after), "key-") // canaries have lower IDs
	page := func(all fire.Query) ([]fire.Doc, error) {
		return documents(ctx, all.OrderBy(fire.ID).After(from).Limit(limit))
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
	for _, docs := range [][]fire.Doc{keys, entries} {
		if len(docs) == limit {
			if id := docs[limit-1].ID; end == "" || id < end {
				end = id
			}
		}
	}
	within := func(docs []fire.Doc) []fire.Doc {
		return slices.DeleteFunc(docs, func(doc fire.Doc) bool { return end != "" && doc.ID > end })
	}
	corrected, err = s.compareList(ctx, within(keys), within(entries), use)
	return apikey.ID(end), corrected, err
}

// RelistChanged is like RelistKeys, for keys that changed at since or later, in the order of the
// changes. It returns the time of the last change.
func (s *Store) RelistChanged(ctx context.Context, since time.Time, limit int) (last time.Time, compared, corrected int, err error) {
	keys, err := documents(ctx, s.keys().Where("updated_at", ">=", since).OrderBy("updated_at").Limit(limit))
	if err != nil || len(keys) == 0 {
		return since, 0, 0, err
	}
	refs := make([]fire.Ref, len(keys))
	for i, doc := range keys {
		refs[i] = s.listRef(doc.ID)
		if at, ok := doc.Field("updated_at").(time.Time); ok {
			last = at
		}
	}
	entries, err := s.getAll(ctx, refs...)
	if err == nil {
		corrected, err = s.compareList(ctx, keys, entries, func(apikey.Key, usage.History) {})
	}
	return last, len(keys), corrected, err
}

// compareList corrects the entries that differ from their keys. A damaged key retains its entry.
func (s *Store) compareList(ctx context.Context, keys, entries []fire.Doc, use func(apikey.Key, usage.History)) (corrected int, err error) {
	listed := map[string]fire.Doc{}
	for _, entry := range entries {
		listed[entry.ID] = entry
	}
	var rollups []fire.Ref
	for _, key := range keys {
		rollups = append(rollups, s.rollups().Doc(key.ID))
	}
	used, err := s.getAll(ctx, rollups...)
	if err != nil {
		return 0, fmt.Errorf("read rollups: %w", err)
	}
	var wrong []string
	for i, key := range keys {
		if !entryMatches(key, used[i], listed[key.ID]) {
			wrong = append(wrong, key.ID)
		}
		k, damaged := readKey(key)
		h, lost := readRollup(used[i])
		if damaged == nil && lost == nil {
			use(k, h)
		}
		delete(listed, key.ID)
	}
	for id := range listed {
		if listed[id].Exists {
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

func entryMatches(key, rollup, entry fire.Doc) bool {
	var is listedDoc
	absent := !entry.Exists || entry.Decode(&is) != nil
	want, err := entryOf(key, rollup, is)
	if err != nil {
		return true
	}
	if absent {
		return false
	}
	return entry.Field("last_seen") != nil && // sorted lists omit entries without last_seen
		reflect.DeepEqual(is, want)
}

// entryOf retains the last use if the rollup is damaged.
func entryOf(key, rollup fire.Doc, is listedDoc) (listedDoc, error) {
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
	return s.transact(ctx, fmt.Sprintf("correct %d entries of the list of keys", len(ids)), func(_ context.Context, tx fire.Tx, b *batch) error {
		var refs []fire.Ref
		for _, id := range ids {
			refs = append(refs, s.keys().Doc(id), s.rollups().Doc(id), s.listRef(id))
		}
		docs, err := tx.Get(refs...)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(docs, 3) {
			key, rollup, entry := some[0], some[1], some[2]
			if !key.Exists {
				b.Delete(entry.Ref)
				continue
			}
			var is listedDoc
			absent := !entry.Exists || entry.Decode(&is) != nil
			want, err := entryOf(key, rollup, is)
			switch {
			case err != nil:
			case absent:
				b.Set(entry.Ref, want)
			default: // last_seen may be missing
				changes := fire.Changed(is, want)
				changes["last_seen"] = want.LastSeen
				b.Update(entry.Ref, changes)
			}
		}
		return nil
	})
}

// setLastSeen writes into existing entries, by ID. The transaction must not have written yet.
func (s *Store) setLastSeen(tx fire.Tx, b *batch, last map[string]string) error {
	refs := make([]fire.Ref, 0, len(last))
	for id := range last {
		refs = append(refs, s.listRef(id))
	}
	if len(refs) == 0 {
		return nil
	}
	docs, err := tx.Get(refs...)
	if err != nil {
		return err
	}
	for _, doc := range docs {
		if doc.Exists {
			b.Update(doc.Ref, fire.Fields{"last_seen": last[doc.ID]})
		}
	}
	return nil
}
