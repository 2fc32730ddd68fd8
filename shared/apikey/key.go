// Package apikey defines API keys: their format, stored fields and life cycle (promises K1 to K9).
//
// A full key is "sluice_<prefix>_<secret>". The prefix is public and permanent. Only the SHA-256 of
// the full key is stored. After a rotation, the previous secret remains valid for a grace period.
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

// ID identifies a key, such as "key-ab12cd34".
type ID string

// Status is the stored status of a key, which is independent of its expiry.
type Status string

// The statuses of a key.
const (
	Active   Status = "active"
	Disabled Status = "disabled" // can be enabled again
	Revoked  Status = "revoked"  // permanent
)

// Statuses returns all statuses.
func Statuses() []Status { return append(Usable(), Revoked) }

// Usable returns the statuses of keys that are or can become valid. Users can set only these.
func Usable() []Status { return []Status{Active, Disabled} }

// Limits of keys (promises K1, K2, K5).
const (
	MaxName      = 100
	MaxApps      = 100
	MaxTags      = 10
	MaxGrace     = 30 * 24 * time.Hour
	DefaultGrace = 24 * time.Hour
)

// Key is an API key without its secret.
type Key struct {
	Prefix      Prefix    `firestore:"prefix"`
	Project     string    `firestore:"project"`
	Environment string    `firestore:"environment"`
	Namespace   string    `firestore:"namespace"` // such as "shop-prod"; the key is invalid in others
	Plan        plan.ID   `firestore:"plan"`
	Name        string    `firestore:"name"`                             // optional, forwarded to the app
	Apps        []string  `firestore:"apps"`                             // scope, sorted; empty for all apps of the environment; see [ShownScope]
	Tags        []string  `firestore:"tags,omitempty" json:",omitempty"` // result of [CheckTags]; not in the JSON for an ETag if there are none
	Status      Status    `firestore:"status"`
	Secret      Hash      `firestore:"-"`
	Previous    Hash      `firestore:"-"`
	ExpiresAt   time.Time `firestore:"-"` // zero if the key never expires

	// PreviousUntil is the expiry of the previous secret; zero if there is none.
	PreviousUntil time.Time `firestore:"-"`

	CreatedAt time.Time `firestore:"created_at"`
	CreatedBy string    `firestore:"created_by"`
	UpdatedAt time.Time `firestore:"updated_at"` // for a revoked key, the time of the revocation
	RevokedBy string    `firestore:"revoked_by"` // username; "" if an early version revoked the key

	Leak *Leak `firestore:"-"` // of the current secret, or else the latest one
}

// IDOf returns the ID of the key with a prefix.
func IDOf(p Prefix) ID { return ID("key-" + string(p)) }

// Prefix returns the prefix in an ID, and whether the ID is well-formed.
func (id ID) Prefix() (Prefix, bool) {
	s, ok := strings.CutPrefix(string(id), "key-")
	return Prefix(s), ok && ValidPrefix(s)
}

// ID returns the key's ID.
func (k Key) ID() ID { return IDOf(k.Prefix) }

// Expired reports whether the key's expiry has passed.
func (k Key) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// HasPrevious reports whether the previous secret is valid.
func (k Key) HasPrevious(now time.Time) bool { return now.Before(k.PreviousUntil) }

// Rotate returns k with a new secret. The current secret remains valid for grace, unless it has
// leaked; an earlier one becomes invalid. Rotate returns key_revoked, key_expired or invalid_grace.
func (k Key) Rotate(secret Hash, grace time.Duration, now time.Time) (Key, error) {
	switch {
	case k.Status == Revoked:
		return Key{}, problem.FromCode(problem.KeyRevoked)
	case k.Expired(now):
		return Key{}, problem.FromCode(problem.KeyExpired)
	case grace < 0 || grace > MaxGrace:
		return Key{}, problem.FromCode(problem.InvalidGrace)
	}
	k.Previous, k.PreviousUntil = Hash{}, time.Time{}
	if grace > 0 && !k.Exposed() {
		k.Previous, k.PreviousUntil = k.Secret, now.Add(grace)
	}
	k.Secret = secret
	k.UpdatedAt = now
	return k, nil
}

// WithStatus returns k as active or disabled. It returns invalid_status or key_revoked.
func (k Key) WithStatus(s Status) (Key, error) {
	if !slices.Contains(Usable(), s) {
		return Key{}, problem.FromCode(problem.InvalidStatus)
	}
	if k.Status == Revoked {
		return Key{}, problem.FromCode(problem.KeyRevoked)
	}
	k.Status = s
	return k, nil
}

// Revoke returns k as revoked. A revoked key does not change again.
func (k Key) Revoke(now time.Time, by string) Key {
	if k.Status != Revoked {
		k.Status, k.UpdatedAt, k.RevokedBy = Revoked, now, by
	}
	return k
}

// CheckName returns invalid_name if the name cannot be a header value.
func CheckName(name string) error {
	bad := func(c rune) bool { return !unicode.IsPrint(c) }
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxName || strings.ContainsFunc(name, bad) || strings.TrimSpace(name) != name {
		return problem.New(problem.InvalidName, "name must have at most %d printable characters, and no space at either end.", MaxName)
	}
	return nil
}

const lastYear = 9999

// timestamp requires parts of RFC 3339 that package time does not: two digits for the hour, a point
// before the fraction, and offsets of less than a day.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseExpiry parses an RFC 3339 time, and truncates it to microseconds. It returns invalid_expiry.
func ParseExpiry(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if t = t.UTC().Truncate(time.Microsecond); err != nil || !timestamp.MatchString(text) || t.Year() > lastYear {
		return time.Time{}, problem.FromCode(problem.InvalidExpiry) // beyond the last year in UTC, such as 9999-12-31T23:59:59-01:00
	}
	return t, nil
}

// CheckExpiry returns expiry_in_past if the expiry is not after now.
func CheckExpiry(expires, now time.Time) error {
	if !expires.IsZero() && !expires.After(now) {
		return problem.FromCode(problem.ExpiryInPast)
	}
	return nil
}

// Scope sorts apps. It returns invalid_scope for duplicates or too many apps. It does not verify
// that they exist.
func Scope(apps []string) ([]string, error) {
	sorted := slices.Sorted(slices.Values(apps))
	if len(sorted) > MaxApps || len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		return nil, problem.New(problem.InvalidScope, "apps must contain at most %d apps, each at most once.", MaxApps)
	}
	return sorted, nil
}

var tag = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidTag reports whether t has 1 to 32 characters of a-z, 0-9 and "-".
func ValidTag(t string) bool { return tag.MatchString(t) }

// CheckTags sorts tags; it returns nil for none. It returns invalid_tag for invalid tags, duplicates
// or too many tags.
func CheckTags(tags []string) ([]string, error) {
	sorted := slices.Sorted(slices.Values(tags))
	invalid := slices.ContainsFunc(sorted, func(t string) bool { return !ValidTag(t) })
	if invalid || len(sorted) > MaxTags || len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		return nil, problem.FromCode(problem.InvalidTag)
	}
	return sorted, nil
}

// ScopeKind is the kind of a key's scope.
type ScopeKind string

// The kinds of scopes.
const (
	AllApps  ScopeKind = "all"
	SomeApps ScopeKind = "apps"
	NoApps   ScopeKind = "none" // all apps of the scope were deleted
)

// ScopeKinds returns all kinds.
func ScopeKinds() []ScopeKind { return []ScopeKind{AllApps, SomeApps, NoApps} }

// noApp is the entry of a scope that covers no app, because an empty list covers every app. It is
// not a valid app name.
const noApp = "-"

// ShownScope returns the apps of a stored scope, and its kind.
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

// Covers reports whether the key's scope includes an app of its environment.
func (k Key) Covers(app string) bool { return len(k.Apps) == 0 || slices.Contains(k.Apps, app) }

// WithoutApp returns k without an app in its scope.
func (k Key) WithoutApp(name string, now time.Time) Key {
	k.Apps = slices.DeleteFunc(slices.Clone(k.Apps), func(a string) bool { return a == name })
	if len(k.Apps) == 0 {
		k.Apps = []string{noApp}
	}
	k.UpdatedAt = now
	return k
}

// HeaderName returns a key's name as a header value (promise G6). It percent-encodes "%" and every
// byte except visible ASCII and spaces: "Café 5%" becomes "Caf%C3%A9 5%25".
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

// RequestRemembered is the time for which a repeated request is recognized.
const RequestRemembered = 24 * time.Hour

// Request is a call that issues a full key. A client may repeat the call. The repeated call is
// rejected, because a full key is shown only once (promise K3).
type Request struct {
	ID      string // "" makes every call a new one
	Content string // hash of the content
	At      time.Time
}

// NewRequest returns the request with the Idempotency-Key name. Its ID is specific to the caller and
// the project.
func NewRequest(caller, project, name string, content []byte, at time.Time) Request {
	if name == "" {
		return Request{At: at}
	}
	id := sha256.Sum256([]byte("issue\n" + caller + "\n" + project + "\n" + name)) // no part contains a line break
	sum := sha256.Sum256(content)
	return Request{ID: hex.EncodeToString(id[:]), Content: hex.EncodeToString(sum[:]), At: at}
}
