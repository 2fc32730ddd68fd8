package apikey

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Pattern matches full keys in text. [Parse] also verifies the checksum.
const Pattern = `sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`

// secretForm also matches service tokens, and secrets whose last characters are missing.
var secretForm = regexp.MustCompile(`sluice_(?:st_)?([0-9a-z]{8,12})_[0-9A-Za-z]{32}`)

// HoldsSecret reports whether text contains a full key or a service token, with any checksum.
func HoldsSecret(text string) bool { return secretForm.MatchString(text) }

// PrefixIn returns the prefix of a full key in text.
func PrefixIn(text string) (p Prefix, ok bool) {
	found := secretForm.FindStringSubmatch(text)
	if found == nil || !ValidPrefix(found[1]) {
		return "", false
	}
	return Prefix(found[1]), true
}

// LeakPolicy is a project's setting for keys with a leaked current secret.
type LeakPolicy string

// The leak policies.
const (
	LeakDisable LeakPolicy = "disable" // the default; can be undone after a false alarm
	LeakRevoke  LeakPolicy = "revoke"
)

// LeakPolicies returns all policies, the default first.
func LeakPolicies() []LeakPolicy { return []LeakPolicy{LeakDisable, LeakRevoke} }

// Valid reports whether p is a policy.
func (p LeakPolicy) Valid() bool { return slices.Contains(LeakPolicies(), p) }

// Leak is a report of a public secret.
type Leak struct {
	Secret Hash      `firestore:"-"`
	At     time.Time `firestore:"at"`
	By     string    `firestore:"by"`     // a username, "token:nightly" or "program:github"
	URL    string    `firestore:"url"`    // from [FoundAt]; "" if unknown
	Source string    `firestore:"source"` // in the reporter's terms, such as "commit"; "" if unknown
}

// WithLeak returns k after a leak (promise L1). A leak of the current secret disables or revokes
// the key, as the policy specifies. A leak of the previous secret only ends its grace period, and
// does not replace a stored leak of the current secret. Other secrets and known leaks change
// nothing.
func (k Key) WithLeak(l Leak, p LeakPolicy) Key {
	switch {
	case k.Secret.Equal(l.Secret):
		if k.Exposed() {
			return k
		}
		k.Leak = &l
		switch {
		case k.Status == Revoked:
		case p == LeakRevoke:
			k = k.Revoke(l.At, l.By)
		default:
			k.Status, k.UpdatedAt = Disabled, l.At
		}
	case k.HasPrevious(l.At) && k.Previous.Equal(l.Secret):
		if !k.Exposed() {
			k.Leak = &l
		}
		k.Previous, k.PreviousUntil = Hash{}, time.Time{}
		if k.Status != Revoked {
			k.UpdatedAt = l.At
		}
	}
	return k
}

// LeakShown is the time for which overviews show a leak that requires no action.
const LeakShown = 7 * 24 * time.Hour

var forever = time.Date(lastYear, 12, 31, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // Go has no constant times

// LeakShownUntil returns the time until which overviews show the key's leak; zero without a leak. A
// leak of the current secret is shown until the key is revoked. Other leaks are shown for
// [LeakShown], because users may ask why the key is denied.
func (k Key) LeakShownUntil() time.Time {
	switch {
	case k.Leak == nil:
		return time.Time{}
	case k.Exposed() && k.Status != Revoked:
		return forever
	}
	return k.Leak.At.Add(LeakShown)
}

// Exposed reports whether the current secret is known to have leaked.
func (k Key) Exposed() bool { return k.Leak != nil && k.Leak.Secret == k.Secret }

const maxFoundAt = 500

var secretIn = regexp.MustCompile(`sluice_(st_[0-9a-z]{12}|[0-9a-z]{8})_[0-9A-Za-z]{38}`)

// FoundAt returns the stored form of a reported location: at most 500 printable characters, without
// keys. A URL may contain the leaked key.
func FoundAt(text string) string {
	const redacted = "sluice_[redacted]"
	text = secretIn.ReplaceAllString(strings.ToValidUTF8(text, "?"), redacted)
	if plain, err := url.QueryUnescape(text); err == nil && secretIn.MatchString(plain) {
		return redacted
	}
	text = strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text))
	if utf8.RuneCountInString(text) > maxFoundAt {
		text = string([]rune(text)[:maxFoundAt-1]) + "…"
	}
	return text
}
