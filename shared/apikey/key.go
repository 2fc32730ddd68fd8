// Package apikey holds API keys: their format, what is stored of them, and the
// rules of their life (promises K1 to K9).
//
// A full key is "sluice_<prefix>_<secret>". The prefix is public and stays for
// the key's whole life; the secret is shown once and only the SHA-256 of the full
// key is kept. Rotation replaces the secret, and for a while (the grace) the
// previous one still opens the gate.
package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
)

// ID names a key in paths, e.g. "key-ab12cd34".
type ID string

// Status is what is stored of a key's state; "expired" follows from ExpiresAt.
type Status string

// The statuses.
const (
	Active   Status = "active"
	Disabled Status = "disabled" // reversible
	Revoked  Status = "revoked"  // final
)

// Statuses lists all statuses of a key.
func Statuses() []Status { return append(Usable(), Revoked) }

// Usable lists the statuses of keys that are, or can be made, good. They are also those
// that a key can be switched to.
func Usable() []Status { return []Status{Active, Disabled} }

// Bounds (promises K1, K2, K5).
const (
	MaxName      = 100 // characters
	MaxApps      = 100 // apps in a scope
	MaxGrace     = 30 * 24 * time.Hour
	DefaultGrace = 24 * time.Hour
)

// Key is an API key without its secret.
type Key struct {
	Prefix      Prefix    `firestore:"prefix"`
	Project     string    `firestore:"project"`     // whose environment it is, e.g. "shop"
	Environment string    `firestore:"environment"` // e.g. "prod"
	Namespace   string    `firestore:"namespace"`   // the environment's, e.g. "shop-prod"; the key is invalid in others
	Plan        plan.ID   `firestore:"plan"`        // the one plan it belongs to
	Name        string    `firestore:"name"`        // optional, forwarded to the app; "" is none
	Apps        []string  `firestore:"apps"`        // scope, sorted; empty is every app of the environment; see [ShownScope]
	Status      Status    `firestore:"status"`
	Secret      Hash      `firestore:"-"` // of the current full key
	Previous    Hash      `firestore:"-"` // of the full key before the last rotation; valid until PreviousUntil
	ExpiresAt   time.Time `firestore:"-"` // zero never expires

	// PreviousUntil is when the previous secret stops being valid; zero when there is none.
	PreviousUntil time.Time `firestore:"-"`

	CreatedAt time.Time `firestore:"created_at"`
	CreatedBy string    `firestore:"created_by"` // username
	UpdatedAt time.Time `firestore:"updated_at"` // of a revoked key: when it was revoked
	RevokedBy string    `firestore:"revoked_by"` // username; "" of a key that is not, or was revoked before this was kept

	Leak *Leak `firestore:"-"` // the last one of a secret of it that is known; nil is none
}

// IDOf gives the id of the key with this prefix.
func IDOf(p Prefix) ID { return ID("key-" + string(p)) }

// Prefix gives the prefix in an id, and whether id has an id's shape.
func (id ID) Prefix() (Prefix, bool) {
	s, ok := strings.CutPrefix(string(id), "key-")
	return Prefix(s), ok && ValidPrefix(s)
}

// ID gives the key's id.
func (k Key) ID() ID { return IDOf(k.Prefix) }

// Expired tells whether the key's expiry has passed: from the instant itself on.
func (k Key) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// HasPrevious tells whether the secret before the last rotation is still valid.
func (k Key) HasPrevious(now time.Time) bool { return now.Before(k.PreviousUntil) }

// Rotate gives k with a new current secret; the old one stays valid for grace.
// A previous secret still in its own grace ends at once: at most two are live. One that has
// leaked gets no grace.
// Problems: key_revoked, key_expired, invalid_grace.
func (k Key) Rotate(secret Hash, grace time.Duration, now time.Time) (Key, error) {
	switch {
	case k.Status == Revoked:
		return Key{}, problem.Of(problem.KeyRevoked)
	case k.Expired(now):
		return Key{}, problem.Of(problem.KeyExpired)
	case grace < 0 || grace > MaxGrace:
		return Key{}, problem.Of(problem.InvalidGrace)
	}
	k.Previous, k.PreviousUntil = Hash{}, time.Time{}
	if grace > 0 && !k.Exposed() {
		k.Previous, k.PreviousUntil = k.Secret, now.Add(grace)
	}
	k.Secret = secret
	k.UpdatedAt = now
	return k, nil
}

// WithStatus gives k switched to active or disabled. Problems: invalid_status,
// key_revoked.
func (k Key) WithStatus(s Status) (Key, error) {
	if !slices.Contains(Usable(), s) {
		return Key{}, problem.Of(problem.InvalidStatus)
	}
	if k.Status == Revoked {
		return Key{}, problem.Of(problem.KeyRevoked)
	}
	k.Status = s
	return k, nil
}

// Revoke gives k revoked, for good. Revoking it again changes nothing, so that
// updated_at keeps saying when it happened.
func (k Key) Revoke(now time.Time, by string) Key {
	if k.Status != Revoked {
		k.Status, k.UpdatedAt, k.RevokedBy = Revoked, now, by
	}
	return k
}

// CheckName refuses names that cannot be forwarded as a header's value.
// Problem: invalid_name.
func CheckName(name string) error {
	bad := func(c rune) bool { return !unicode.IsPrint(c) }
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxName || strings.ContainsFunc(name, bad) || strings.TrimSpace(name) != name {
		return problem.New(problem.InvalidName, "A key's name has at most %d printable characters and no space at its ends.", MaxName)
	}
	return nil
}

// lastYear is the last one that RFC 3339 can write and that the store can keep.
const lastYear = 9999

// timestamp is what RFC 3339 allows and package time does not hold its input to:
// two digits for the hour, a point before the fraction, offsets below a day.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseExpiry reads an RFC 3339 timestamp, in UTC and in microseconds from here on.
// Problem: invalid_expiry.
func ParseExpiry(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if t = t.UTC().Truncate(time.Microsecond); err != nil || !timestamp.MatchString(text) || t.Year() > lastYear {
		return time.Time{}, problem.Of(problem.InvalidExpiry) // 9999-12-31T23:59:59-01:00 is too late by its offset
	}
	return t, nil
}

// CheckExpiry refuses an expiry that is not after now. Problem: expiry_in_past.
func CheckExpiry(expires, now time.Time) error {
	if !expires.IsZero() && !expires.After(now) {
		return problem.Of(problem.ExpiryInPast)
	}
	return nil
}

// Scope sorts apps and refuses doubles and too many. Whether each is an app of
// the environment is the caller's to check. Problem: invalid_scope.
func Scope(apps []string) ([]string, error) {
	sorted := slices.Sorted(slices.Values(apps))
	if len(sorted) > MaxApps || len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		return nil, problem.New(problem.InvalidScope, "apps names at most %d apps, each once.", MaxApps)
	}
	return sorted, nil
}

// ScopeKind is the kind of a key's scope.
type ScopeKind string

// The kinds of scopes.
const (
	AllApps  ScopeKind = "all"  // every app of the environment
	SomeApps ScopeKind = "apps" // the apps that the scope names
	NoApps   ScopeKind = "none" // no app: the apps that it named were deleted
)

// ScopeKinds lists all kinds of scopes.
func ScopeKinds() []ScopeKind { return []ScopeKind{AllApps, SomeApps, NoApps} }

// noApp is the entry of a scope that covers no app. An empty list covers every app, so a
// scope never becomes empty. No app can have this name.
const noApp = "-"

// ShownScope returns the apps that a stored scope names, and its kind.
func ShownScope(stored []string) (apps []string, kind ScopeKind) {
	apps = slices.DeleteFunc(append([]string{}, stored...), func(a string) bool { return a == noApp })
	switch {
	case len(stored) == 0:
		return apps, AllApps
	case len(apps) == 0:
		return apps, NoApps
	}
	return apps, SomeApps
}

// WithoutApp returns k without an app that its scope names. A scope that named no other
// app covers no app.
func (k Key) WithoutApp(name string, now time.Time) Key {
	k.Apps = slices.DeleteFunc(slices.Clone(k.Apps), func(a string) bool { return a == name })
	if len(k.Apps) == 0 {
		k.Apps = []string{noApp}
	}
	k.UpdatedAt = now
	return k
}

// HeaderName gives a key's display name as a header value: visible ASCII and
// inner spaces as they are, "%" itself and every other byte of its UTF-8
// percent-encoded, so that any decoder of URLs' paths gives the name back
// (promise G6). "Café 5%" becomes "Caf%C3%A9 5%25".
func HeaderName(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// RequestRemembered is for how long a request that has issued a full key is known
// again.
const RequestRemembered = 24 * time.Hour

// Request is a call that issues a full key and that its sender may send again: the
// answer was lost, or a page was reloaded. A full key is shown exactly once (promise
// K3), so the second call cannot be answered as the first was, and must not issue
// another key that nobody asked for: it is refused.
type Request struct {
	ID      string    // 64 hex digits; "" makes every call a new one
	Content string    // 64 hex digits: what it asks for
	At      time.Time // when it came
}

// NewRequest makes the request that a caller knows by name, an Idempotency-Key. The same
// name of another caller, or in another project, is another request; with another content
// it is a mistake.
func NewRequest(caller, project, name string, content []byte, at time.Time) Request {
	if name == "" {
		return Request{At: at}
	}
	id := sha256.Sum256([]byte("issue\n" + caller + "\n" + project + "\n" + name)) // no part holds a line break
	sum := sha256.Sum256(content)
	return Request{ID: hex.EncodeToString(id[:]), Content: hex.EncodeToString(sum[:]), At: at}
}
