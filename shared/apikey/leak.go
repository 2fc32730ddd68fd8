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

// Pattern is what every full key looks like, as a regular expression: for scanners of
// other text. Of what matches, [Parse] tells by the checksum what cannot be a key.
const Pattern = `sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`

// secretForm is the form of full keys and of service tokens. The last characters may be
// missing, because most of the secret is enough to protect.
var secretForm = regexp.MustCompile(`sluice_(?:st_)?([0-9a-z]{8,12})_[0-9A-Za-z]{32}`)

// HoldsSecret reports whether a text contains a full key or a service token. It ignores the
// checksum.
func HoldsSecret(text string) bool { return secretForm.MatchString(text) }

// PrefixIn returns the prefix of the full key that a text contains.
func PrefixIn(text string) (p Prefix, ok bool) {
	found := secretForm.FindStringSubmatch(text)
	if found == nil || !ValidPrefix(found[1]) {
		return "", false
	}
	return Prefix(found[1]), true
}

// LeakPolicy says what becomes of a key when its current secret was found where strangers
// can read it. It is a project's.
type LeakPolicy string

// The policies.
const (
	LeakDisable LeakPolicy = "disable" // the default: it opens nothing, and a false alarm costs no key
	LeakRevoke  LeakPolicy = "revoke"  // for good
)

// LeakPolicies lists all policies, the default first.
func LeakPolicies() []LeakPolicy { return []LeakPolicy{LeakDisable, LeakRevoke} }

// Valid tells whether p is one of them.
func (p LeakPolicy) Valid() bool { return slices.Contains(LeakPolicies(), p) }

// Leak is that a secret was found where strangers can read it.
type Leak struct {
	Secret Hash      `firestore:"-"`      // of the full key that was found
	At     time.Time `firestore:"at"`     // when it was reported
	By     string    `firestore:"by"`     // who did: a username, "token:nightly" or "program:github"
	URL    string    `firestore:"url"`    // where it was found, as [FoundAt] has it; "" was not said
	Source string    `firestore:"source"` // what that is to who found it, e.g. "commit"; the same
}

// WithLeak gives k after a leak (promise L1). Only what has leaked ends: of the current
// secret the key is disabled, or revoked, as the policy says; the one before the last
// rotation merely loses what is left of its grace, since the key's user has a secret that
// nobody else knows. A secret that is neither, and a leak that is known, change nothing.
//
// A key that opens nothing any more keeps when and by whom it was revoked, and a leak that
// is known of its current secret is kept over one of the secret before.
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

// LeakShown is the duration for which an overview shows a leak that needs no further change.
const LeakShown = 7 * 24 * time.Hour

// forever is later than all that is compared with it.
var forever = time.Date(lastYear, 12, 31, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // Go has no constant times

// LeakShownUntil is the time until which an overview shows the key's leak: as long as the
// current secret is the one that has leaked, unless the key is revoked, and otherwise some days,
// in which its user may ask why it is denied. It is zero without a leak.
func (k Key) LeakShownUntil() time.Time {
	switch {
	case k.Leak == nil:
		return time.Time{}
	case k.Exposed() && k.Status != Revoked:
		return forever
	}
	return k.Leak.At.Add(LeakShown)
}

// Exposed tells whether the current secret is known to have leaked.
func (k Key) Exposed() bool { return k.Leak != nil && k.Leak.Secret == k.Secret }

// maxFoundAt bounds what is kept of where a secret was found, in characters.
const maxFoundAt = 500

// secretIn finds API keys and service tokens in other text.
var secretIn = regexp.MustCompile(`sluice_(st_[0-9a-z]{12}|[0-9a-z]{8})_[0-9A-Za-z]{38}`)

// FoundAt is what is kept of the words of who reports a leak about where it was: printable
// characters, at most 500, and no key: an address may well hold the very one that leaked in
// it, which is shown to people who have not seen it.
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
