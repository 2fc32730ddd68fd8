package keys

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
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

// search returns a page of the matching keys.
func (s *Service) search(ctx context.Context, f store.KeyFilter, q api.KeysOf) (wire.List[wire.Key], error) {
	after, err := placeOf(q.Token)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	leave, err := s.scans.enter(ctx)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	defer leave()
	now := s.now()
	if f.Status = apikey.Status(q.Status); q.Status == expired {
		f.Status = apikey.Active // as it is stored
	}
	var found []apikey.Prefix
	var next string
	if q.Sort == wire.SortLastSeen {
		found, next, err = s.searchSeen(ctx, f, q, after, now)
	} else {
		found, next, err = s.searchByID(ctx, f, q, after.id, now)
	}
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	part, err := s.store.KeysOf(ctx, found)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	items, err := s.wireKeys(ctx, part, now)
	return wire.List[wire.Key]{Items: items, NextPageToken: next}, err
}

// searchByID reads keys in the order of their IDs until the page is full.
func (s *Service) searchByID(ctx context.Context, f store.KeyFilter, q api.KeysOf, after apikey.ID, now time.Time) (found []apikey.Prefix, next string, err error) {
	for k, err := range s.store.EachListed(ctx, f, after) {
		switch {
		case err != nil:
			return nil, "", err
		case !matches(k, q, now):
		case len(found) == q.Size:
			return found, place{id: apikey.IDOf(found[len(found)-1])}.token(), nil
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
		places[i] = place{days[i], apikey.IDOf(p)}
	}
	places = slices.DeleteFunc(places, func(p place) bool { return q.Token != "" && byPlace(p, after) <= 0 })
	slices.SortFunc(places, byPlace)
	if len(places) > q.Size {
		places = places[:q.Size]
		next = places[q.Size-1].token()
	}
	found = found[:0]
	for _, p := range places {
		prefix, _ := p.id.Prefix()
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
	text := strings.ToLower(q.Search)
	return (q.Status == "" || status(k, now) == q.Status) &&
		(q.App == "" || len(k.Apps) == 0 || slices.Contains(k.Apps, q.App)) &&
		(strings.Contains(strings.ToLower(k.Name), text) || strings.Contains(string(k.Prefix), strings.TrimPrefix(text, "key-")))
}

// place is the position of a key in a list: the day of its last use, latest first, then its
// ID. seen is 0 in a list that is sorted by ID.
type place struct {
	seen usage.Day
	id   apikey.ID
}

func byPlace(a, b place) int { return cmp.Or(cmp.Compare(b.seen, a.seen), cmp.Compare(a.id, b.id)) }

// token is the token of the page after a key.
func (p place) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.seen.String() + "." + string(p.id)))
}

// placeOf reads a token; that of the first page is "". Problem: invalid_page.
func placeOf(token string) (p place, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	day, id, _ := strings.Cut(string(text), ".")
	if err == nil {
		p.seen, err = usage.ParseDay(day)
	}
	p.id = apikey.ID(id)
	if _, ok := p.id.Prefix(); err != nil || !ok {
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
	return problem.New(problem.InvalidParameter, "That is no full key: it is not whole, or a character of it is wrong.")
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
