package keys

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

const maxSearch = 200 // characters

// query is a search at a time.
type query struct {
	api.KeysOf

	now   time.Time
	since time.Time // without requests since this time; zero for all keys
}

// The limits of [api.KeysOf.Unused]. Usage is stored for 92 days.
const (
	minUnused = 24 * time.Hour
	maxUnused = usage.RetentionDays * 24 * time.Hour
)

func newQuery(q api.KeysOf, now time.Time) (query, error) {
	checked := query{KeysOf: q, now: now}
	if q.Unused == "" {
		return checked, checkSearch(q)
	}
	d, err := time.ParseDuration(q.Unused)
	if err != nil || d < minUnused || d > maxUnused {
		return query{}, problem.New(problem.InvalidParameter, "unused_for must be a duration from 24h to 2208h.")
	}
	checked.since = now.Add(-d)
	return checked, checkSearch(q)
}

func checkSearch(q api.KeysOf) error {
	switch {
	case utf8.RuneCountInString(q.Search) > maxSearch:
		return problem.New(problem.InvalidParameter, "search must have at most %d characters.", maxSearch)
	case q.App != "" && !app.ValidLabel(q.App):
		return problem.New(problem.InvalidParameter, "app must be the name of an app.")
	case q.Tag != "" && !apikey.ValidTag(q.Tag):
		return problem.New(problem.InvalidParameter, "tag must have 1 to 32 characters of a-z, 0-9 and -.")
	}
	return nil
}

func (q query) narrows() bool {
	return q.Search != "" || q.Status != "" || q.App != "" || q.Tag != "" || q.order() != nil
}

// byUse reports whether the keys are sorted by last use.
func (q query) byUse() bool { return q.Sort == wire.SortLastSeen || !q.since.IsZero() }

// seen reports whether a key with a last day of use, or "", is not selected. A key that was used on
// the day of q.since may have been used later on that day.
func (q query) seen(day string) bool {
	return !q.since.IsZero() && day >= usage.DayOf(q.since).String()
}

func (s *Service) search(ctx context.Context, f store.KeyFilter, q query, ready bool) (wire.KeyList, error) {
	after, err := placeOf(q.Token)
	if err != nil {
		return wire.KeyList{}, err
	}
	if f.Status = apikey.Status(q.Status); q.Status == expired {
		f.Status = apikey.Active // stored as active
	}
	found, next, err := s.find(ctx, f, q, after, ready)
	if err != nil {
		return wire.KeyList{}, err
	}
	part, err := s.store.KeysOf(ctx, found)
	if err != nil {
		return wire.KeyList{}, err
	}
	// The list of keys may be older than the keys.
	part = slices.DeleteFunc(part, func(k apikey.Key) bool { return !f.Holds(k) || !q.matches(k) })
	items, err := s.wireKeys(ctx, part, q.now)
	if err != nil {
		return wire.KeyList{}, err
	}
	items = slices.DeleteFunc(items, func(k wire.Key) bool { return q.seen(httpapi.Deref(k.LastSeen)) })
	total, err := s.total(ctx, f, q, ready)
	return wire.KeyList{List: wire.List[wire.Key]{Items: items, NextPageToken: next}, Total: total}, err
}

// total returns the number of keys on all pages, or nil if it is unknown or costs too much: on later
// pages, with filters that the list of keys evaluates in memory, and until the list is complete.
func (s *Service) total(ctx context.Context, f store.KeyFilter, q query, ready bool) (*int, error) {
	expires := q.Status == expired || q.Status == string(apikey.Active)
	if !ready || q.Token != "" || q.Search != "" || q.App != "" || q.Tag != "" || !q.since.IsZero() || expires {
		return nil, nil //nolint:nilnil // unknown
	}
	n, ok, err := s.store.CountListed(ctx, f)
	if !ok || err != nil {
		return nil, err
	}
	return &n, nil
}

func (s *Service) find(ctx context.Context, f store.KeyFilter, q query, after place, ready bool) (found []apikey.Prefix, next string, err error) {
	if ready {
		found, next, err = s.searchList(ctx, searchOf(f, q), q.Size, after)
		if !problem.Is(err, problem.Conflict) {
			return found, next, err
		}
		s.log.WarnContext(ctx, "search key list failed", "error", err)
	}
	leave, err := s.scans.enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	if order := q.order(); order != nil {
		return s.searchSorted(ctx, f, q, order, after)
	}
	return s.searchByID(ctx, f, q, after.ID)
}

func searchOf(f store.KeyFilter, q query) store.KeySearch {
	search := store.KeySearch{KeyFilter: f, Text: apikey.SearchText(q.Search), Tag: q.Tag, App: q.App, Name: q.Sort == wire.SortName && !q.byUse(), LastSeen: q.byUse()}
	switch q.Status {
	case expired:
		search.Expired = q.now
	case string(apikey.Active):
		search.Unexpired = q.now
	}
	if !q.since.IsZero() {
		search.Unseen = usage.DayOf(q.since)
	}
	return search
}

const maxCandidates = 200

// candidates returns the maximum number of entries for a page. Each key costs two more reads, so a
// page of up to 60 keys costs about 200 reads.
func candidates(size int) int { return min(max(size+1, maxCandidates-10-2*size), maxCandidates) }

func (s *Service) searchList(ctx context.Context, search store.KeySearch, size int, after place) (found []apikey.Prefix, next string, err error) {
	limit := size + 1 // one more, to detect a next page
	for left := candidates(size); left > 0; {
		limit = min(limit, left)
		some, err := s.store.FindKeys(ctx, search, store.KeyPlace(after), limit)
		if err != nil {
			return nil, "", err
		}
		for _, c := range some {
			if c.Selected && len(found) == size {
				return found, after.token(), nil
			}
			if c.Selected {
				found = append(found, c.Prefix)
			}
			after = place(c.Place)
		}
		if len(some) < limit {
			return found, "", nil
		}
		left -= limit
		limit *= 2
	}
	return found, after.token(), nil
}

func (s *Service) searchByID(ctx context.Context, f store.KeyFilter, q query, after apikey.ID) (found []apikey.Prefix, next string, err error) {
	for k, err := range s.store.EachListed(ctx, f, after) {
		switch {
		case err != nil:
			return nil, "", err
		case !q.matches(k):
		case len(found) == q.Size:
			return found, place{ID: apikey.IDOf(found[len(found)-1])}.token(), nil
		default:
			found = append(found, k.Prefix)
		}
	}
	return found, "", nil
}

// searchSorted reads all keys, and for the order of last use their last days of use, for which the
// store has no index. In memory it has only the places of the matching keys.
func (s *Service) searchSorted(ctx context.Context, f store.KeyFilter, q query, order sorting, after place) (found []apikey.Prefix, next string, err error) {
	var places []place
	for k, err := range s.store.EachListed(ctx, f, "") {
		if err != nil {
			return nil, "", err
		}
		if q.matches(k) {
			found, places = append(found, k.Prefix), append(places, place{Value: k.SortName(), ID: k.ID()})
		}
	}
	if q.byUse() {
		if err := s.placesBySeen(ctx, found, places); err != nil {
			return nil, "", err
		}
	}
	places = slices.DeleteFunc(places, func(p place) bool { return q.seen(p.Value) || q.Token != "" && order(p, after) <= 0 })
	slices.SortFunc(places, order)
	if len(places) > q.Size {
		places = places[:q.Size]
		next = places[q.Size-1].token()
	}
	found = found[:0]
	for _, p := range places {
		prefix, _ := p.ID.Prefix()
		found = append(found, prefix)
	}
	return found, next, nil
}

func (s *Service) placesBySeen(ctx context.Context, found []apikey.Prefix, places []place) error {
	days, err := s.counted.LastSeen(ctx, found, s.now)
	if err != nil {
		return err
	}
	for i := range places {
		places[i].Value = ""
		if days[i] != 0 {
			places[i].Value = days[i].String()
		}
	}
	return nil
}

// The limits of calls that scan keys.
const (
	scansAtOnce = 4
	scanWait    = 10 * time.Second
)

type scans chan struct{}

// enter waits for the semaphore. leave releases it. enter returns an unavailable problem after
// scanWait.
func (s scans) enter(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, scanWait)
	defer cancel()
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, problem.FromCode(problem.Unavailable).WithCause(ctx.Err())
	}
}

// matches reports whether a key matches the query, except for its use.
func (q query) matches(k apikey.Key) bool {
	return (q.Status == "" || status(k, q.now) == q.Status) &&
		(q.Tag == "" || slices.Contains(k.Tags, q.Tag)) &&
		(q.since.IsZero() || k.CreatedAt.Before(q.since)) &&
		(q.App == "" || k.Covers(q.App)) &&
		k.Found(apikey.SearchText(q.Search))
}

// place is the position of a key in a list: the value of the sort field and the ID.
type place store.KeyPlace

// sorting compares two places.
type sorting func(a, b place) int

// order returns the sorting of the list, or nil for that of IDs.
func (q query) order() sorting {
	switch {
	case q.byUse():
		return func(a, b place) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.ID, a.ID)) }
	case q.Sort == wire.SortName:
		return func(a, b place) int { return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.ID, b.ID)) }
	}
	return nil
}

func (p place) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.Value + " " + string(p.ID)))
}

func placeOf(token string) (p place, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	space := max(strings.LastIndexByte(string(text), ' '), 0) // a name contains spaces, an ID does not
	value, id := string(text[:space]), strings.TrimPrefix(string(text[space:]), " ")
	p = place{Value: value, ID: apikey.ID(id)}
	if _, ok := p.ID.Prefix(); err != nil || !ok || !utf8.ValidString(value) {
		return place{}, problem.FromCode(problem.InvalidPage)
	}
	return p, nil
}

// findKey returns the key of a full key, even if its secret is no longer valid.
func (s *Service) findKey(ctx context.Context, in httpapi.Scope, body wire.FindKey) (wire.FoundKey, error) {
	if body.Key == nil {
		return wire.FoundKey{}, httpapi.Missing("key")
	}
	full := []byte(*body.Key)
	prefix, ok := apikey.Parse(full)
	if !ok {
		return wire.FoundKey{}, notFull()
	}
	k, err := s.store.Key(ctx, apikey.IDOf(apikey.Prefix(prefix)))
	if err == nil {
		err = belongs(k, in.Project)
	}
	if err != nil {
		return wire.FoundKey{}, err
	}
	now := s.now()
	shown, err := s.wireKeys(ctx, []apikey.Key{k}, now)
	if err != nil {
		return wire.FoundKey{}, err
	}
	return wire.FoundKey{Key: shown[0], Secret: secretState(k, apikey.HashOf(full), now)}, nil
}

func notFull() error {
	return problem.New(problem.InvalidParameter, "This is not a full key. A part is missing or a character is wrong.")
}

func secretState(k apikey.Key, secret apikey.Hash, now time.Time) string {
	switch {
	case k.Secret.Equal(secret):
		return wire.SecretCurrent
	case k.HasPrevious(now) && k.Previous.Equal(secret):
		return wire.SecretPrevious
	}
	return wire.SecretUnknown
}
