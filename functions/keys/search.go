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

// narrows tells whether a list takes a look at every key: the store finds keys by project,
// environment and plan, in the order of their ids, and no more.
func narrows(q api.KeysOf) bool {
	return q.Search != "" || q.Status != "" || q.App != "" || q.Sort == wire.SortLastSeen
}

// search gives a page of the keys that are looked for. It reads all that there are, since
// text, expiry and use are not indexed.
func (s *Service) search(ctx context.Context, f store.KeyFilter, q api.KeysOf) (wire.List[wire.Key], error) {
	all, err := s.store.AllKeys(ctx, f)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	now := s.now()
	all = slices.DeleteFunc(all, func(k apikey.Key) bool { return !matches(k, q, now) })
	found := make([]foundKey, len(all))
	var histories []usage.History
	if q.Sort == wire.SortLastSeen {
		if histories, err = s.counted.Histories(ctx, prefixes(all), s.now); err != nil {
			return wire.List[wire.Key]{}, err
		}
	}
	for i, k := range all {
		found[i] = foundKey{Key: k}
		if histories != nil {
			found[i].seen, _ = histories[i].LastSeen(usage.DayOf(now))
		}
	}
	part, next, err := pageOf(found, q.Page)
	if err != nil {
		return wire.List[wire.Key]{}, err
	}
	items, err := s.wireKeys(ctx, part, now)
	return wire.List[wire.Key]{Items: items, NextPageToken: next}, err
}

// matches tells whether a key is looked for. One without apps of its own opens every app.
func matches(k apikey.Key, q api.KeysOf, now time.Time) bool {
	text := strings.ToLower(q.Search)
	return (q.Status == "" || status(k, now) == q.Status) &&
		(q.App == "" || len(k.Apps) == 0 || slices.Contains(k.Apps, q.App)) &&
		(strings.Contains(strings.ToLower(k.Name), text) || strings.Contains(string(k.Prefix), strings.TrimPrefix(text, "key-")))
}

// foundKey is a key with what it is sorted by: the day it was seen last, 0 for all alike.
type foundKey struct {
	apikey.Key

	seen usage.Day
}

// place is where a key stands among those found, for page tokens: those seen last come
// first, and those seen on one day in the order of their ids.
func (k foundKey) place() string { return k.seen.String() + "." + string(k.ID()) }

func byPlace(a, b string) int {
	dayA, idA, _ := strings.Cut(a, ".")
	dayB, idB, _ := strings.Cut(b, ".")
	return cmp.Or(cmp.Compare(dayB, dayA), cmp.Compare(idA, idB))
}

// pageOf is the part of what was found that comes after a token. Problem: invalid_page.
func pageOf(found []foundKey, page api.Page) (part []apikey.Key, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil || page.Token != "" && strings.Count(string(after), ".") != 1 {
		return nil, "", problem.Of(problem.InvalidPage)
	}
	slices.SortFunc(found, func(a, b foundKey) int { return byPlace(a.place(), b.place()) })
	for _, k := range found {
		switch {
		case page.Token != "" && byPlace(k.place(), string(after)) <= 0:
		case len(part) < page.Size:
			part, next = append(part, k.Key), k.place()
		default:
			return part, base64.RawURLEncoding.EncodeToString([]byte(next)), nil
		}
	}
	return part, "", nil
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
