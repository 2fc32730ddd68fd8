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
	"github.com/sluicegate/sluice/shared/wire"
)

// maxSearch bounds what is searched for, in bytes.
const maxSearch = 200

// checkSearch refuses what no key can be found by. Problem: invalid_parameter.
func checkSearch(q api.KeysOf) error {
	switch {
	case q.Status != "" && !slices.Contains(wire.KeyStatuses(), q.Status):
		return problem.New(problem.InvalidParameter, "status is one of %s.", strings.Join(wire.KeyStatuses(), ", "))
	case q.Sort != "" && !slices.Contains(wire.KeySorts(), q.Sort):
		return problem.New(problem.InvalidParameter, "sort is one of %s.", strings.Join(wire.KeySorts(), ", "))
	case len(q.Search) > maxSearch:
		return problem.New(problem.InvalidParameter, "search has at most %d bytes.", maxSearch)
	case q.App != "" && !app.ValidLabel(q.App):
		return problem.New(problem.InvalidParameter, "app is the name of an app.")
	}
	return nil
}

// narrows reports whether a list needs more than one query of the store, which finds keys by
// project, environment, plan and stored status, in the order of their IDs.
func narrows(q api.KeysOf) bool {
	return q.Search != "" || q.Status != "" || q.App != "" || q.Sort == wire.SortLastSeen
}

// search returns a page of the matching keys, which may have fewer keys than requested.
func (s *Service) search(ctx context.Context, f store.KeyFilter, q api.KeysOf) (wire.List[wire.Key], error) {
	after, err := placeOf(q.Token)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	now := s.now()
	if f.Status = apikey.Status(q.Status); q.Status == expired {
		f.Status = apikey.Active // as it is stored
	}
	found, next, err := s.find(ctx, f, q, after, now)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	part, err := s.store.KeysOf(ctx, found)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	// The list of keys may be older than the keys.
	part = slices.DeleteFunc(part, func(k apikey.Key) bool { return !f.Holds(k) || !matches(k, q, now) })
	items, err := s.wireKeys(ctx, part, now)
	return wire.List[wire.Key]{Items: items, NextPageToken: next}, err
}

// find returns the keys of a page, and the token of the next page. It reads the list of keys,
// or the keys themselves while the list is not ready.
func (s *Service) find(ctx context.Context, f store.KeyFilter, q api.KeysOf, after place, now time.Time) (found []apikey.Prefix, next string, err error) {
	ready, err := s.store.KeyListReady(ctx)
	if ready && err == nil {
		found, next, err = s.searchList(ctx, searchOf(f, q, now), q.Size, after)
		if !problem.Is(err, problem.Conflict) {
			return found, next, err
		}
		s.log.WarnContext(ctx, "search of the list of keys failed", "error", err)
	} else if err != nil {
		return nil, "", err
	}
	leave, err := s.scans.enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	if q.Sort == wire.SortLastSeen {
		return s.searchSeen(ctx, f, q, after, now)
	}
	return s.searchByID(ctx, f, q, after.ID, now)
}

// searchOf returns the search of the list of keys for a call.
func searchOf(f store.KeyFilter, q api.KeysOf, now time.Time) store.KeySearch {
	search := store.KeySearch{KeyFilter: f, Text: apikey.SearchText(q.Search), App: q.App, LastSeen: q.Sort == wire.SortLastSeen}
	switch q.Status {
	case expired:
		search.Expired = now
	case string(apikey.Active):
		search.Unexpired = now
	}
	return search
}

// maxCandidates is the number of entries of the list of keys that a page reads at most.
const maxCandidates = 200

// candidates returns the number of entries that a page reads at most. Each key of the page
// costs two more reads, of the key and its usage. So a page of up to 60 keys costs about 200.
func candidates(size int) int { return min(max(size+1, maxCandidates-10-2*size), maxCandidates) }

// searchList reads the list of keys until the page is full or has read its candidates.
func (s *Service) searchList(ctx context.Context, search store.KeySearch, size int, after place) (found []apikey.Prefix, next string, err error) {
	limit := size + 1 // one more key shows whether there is a next page
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

// searchByID reads keys in the order of their IDs until the page is full.
func (s *Service) searchByID(ctx context.Context, f store.KeyFilter, q api.KeysOf, after apikey.ID, now time.Time) (found []apikey.Prefix, next string, err error) {
	for k, err := range s.store.EachListed(ctx, f, after) {
		switch {
		case err != nil:
			return nil, "", err
		case !matches(k, q, now):
		case len(found) == q.Size:
			return found, place{ID: apikey.IDOf(found[len(found)-1])}.token(), nil
		default:
			found = append(found, k.Prefix)
		}
	}
	return found, "", nil
}

// searchSeen reads all keys and their days of use, since the store has no index of these. It
// keeps a prefix and a day of each key that is looked for.
func (s *Service) searchSeen(ctx context.Context, f store.KeyFilter, q api.KeysOf, after place, now time.Time) (found []apikey.Prefix, next string, err error) {
	for k, err := range s.store.EachListed(ctx, f, "") {
		if err != nil {
			return nil, "", err
		}
		if matches(k, q, now) {
			found = append(found, k.Prefix)
		}
	}
	days, err := s.counted.LastSeen(ctx, found, s.now)
	if err != nil {
		return nil, "", err
	}
	places := make([]place, len(found))
	for i, p := range found {
		places[i].ID = apikey.IDOf(p)
		if days[i] != 0 {
			places[i].Value = days[i].String()
		}
	}
	places = slices.DeleteFunc(places, func(p place) bool { return q.Token != "" && byLastSeen(p, after) <= 0 })
	slices.SortFunc(places, byLastSeen)
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

// Bounds of the calls that read many keys: each takes memory and reads of the store.
const (
	scansAtOnce = 4
	scanWait    = 10 * time.Second
)

// scans holds the calls that read many keys.
type scans chan struct{}

// enter waits until the call may read. The caller must call leave in the end. It returns an
// unavailable problem if it has waited for too long.
func (s scans) enter(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, scanWait)
	defer cancel()
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, problem.Of(problem.Unavailable).Because(ctx.Err())
	}
}

// matches tells whether a key is looked for. One without apps of its own opens every app.
func matches(k apikey.Key, q api.KeysOf, now time.Time) bool {
	return (q.Status == "" || status(k, now) == q.Status) &&
		(q.App == "" || len(k.Apps) == 0 || slices.Contains(k.Apps, q.App)) &&
		k.Found(apikey.SearchText(q.Search))
}

// place is the place of a key in a list: the value of the field that the list is ordered by,
// and the key's ID.
type place store.KeyPlace

// byLastSeen compares the places of a list that is ordered by the day of the last use.
func byLastSeen(a, b place) int {
	return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.ID, a.ID))
}

// token is the token of the page after a key.
func (p place) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.Value + " " + string(p.ID)))
}

// placeOf reads a token; that of the first page is "". It returns an invalid_page problem if
// the text is not a token.
func placeOf(token string) (p place, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	value, id, _ := strings.Cut(string(text), " ")
	p = place{Value: value, ID: apikey.ID(id)}
	if _, ok := p.ID.Prefix(); err != nil || !ok || !utf8.ValidString(value) {
		return place{}, problem.Of(problem.InvalidPage)
	}
	return p, nil
}

// findKey finds the key that a full key is, or was, of: for whoever holds one of which
// nothing else is known. One of another project is not there. The text is compared by its
// hash, and goes nowhere else.
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
	return problem.New(problem.InvalidParameter, "This is not a full key. A part of it is missing, or a character is wrong.")
}

// secretState says which of a key's secrets one is.
func secretState(k apikey.Key, secret apikey.Hash, now time.Time) string {
	switch {
	case k.Secret.Equal(secret):
		return wire.SecretCurrent
	case k.HasPrevious(now) && k.Previous.Equal(secret):
		return wire.SecretPrevious
	}
	return wire.SecretUnknown
}
