// Package servicetoken holds service tokens: what a program signs its calls of the
// management API with, such as a nightly rotation of keys (promises S9, S10).
//
// A token belongs to a project, not to a person: it has a name there, a role, and an
// end, and it stays valid when its creator leaves. It has the permissions of its role, in its
// project only, except for changes that would outlive it: members, service tokens, webhook
// tokens and trusts. It can create and rotate API keys; its revocation lists them.
//
// A full token is "sluice_st_<id>_<secret>", which scanners of code for leaked secrets
// can look for. It is made as an API key is (package apikey): the secret has 190 random
// bits, and the last 6 of its characters are a checksum by which garbage is refused
// without a look-up; what is stored is the SHA-256 of the whole, and needs no slow hash.
// Neither can be taken for the other: an API key has its second underscore 9 characters
// further on.
package servicetoken

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	marker   = "sluice_st_"
	handle   = 12 // characters of [0-9a-z]: 62 random bits, so that none is drawn twice
	length   = len(marker) + handle + 1 + apikey.SecretLength
	idPrefix = "token-"

	// actorPrefix begins the name of a token among those of users, which have no colon.
	actorPrefix = "token:"

	day = 24 * time.Hour

	// usedEvery is how often at most a token's last use is written.
	usedEvery = 5 * time.Minute
)

// Pattern is a regular expression for full tokens, for scanners of other text. [Full.ID] checks
// the checksum.
const Pattern = `sluice_st_[0-9a-z]{12}_[0-9A-Za-z]{38}`

// Bounds (promise S9).
const (
	MaxPerProject = 100       // tokens, expired ones among them
	DefaultLife   = 90 * day  // of a token for which no expiry is asked
	MaxLife       = 366 * day // of any token
)

// Status is a token's state. One that is revoked is gone.
type Status string

// The statuses.
const (
	Active  Status = "active"
	Expired Status = "expired"
)

// Statuses lists all statuses of a token.
func Statuses() []Status { return []Status{Active, Expired} }

// ID names a token in paths and records, e.g. "token-ab12cd34ef56". It is public.
type ID string

// Full is a whole token as a program sends it. It prints as "[redacted]".
type Full string

// LogValue keeps the token out of logs.
func (Full) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the token out of anything printed. Use string(f) to send it.
func (Full) String() string { return "[redacted]" }

// GoString keeps the token out of %#v.
func (Full) GoString() string { return "[redacted]" }

// Token is a service token without its secret.
type Token struct {
	ID        ID          `firestore:"-"`
	Project   string      `firestore:"project"` // the only one in which it may anything, e.g. "shop"
	Name      string      `firestore:"name"`    // a DNS label, unique in the project, e.g. "nightly"
	Role      app.Role    `firestore:"role"`
	Hash      apikey.Hash `firestore:"-"` // of the full token
	ExpiresAt time.Time   `firestore:"expires_at"`
	CreatedAt time.Time   `firestore:"created_at"`
	CreatedBy string      `firestore:"created_by"` // username
	LastUsed  time.Time   `firestore:"-"`          // at most 5 minutes behind while it is in use; zero is never

	// Version is that of the stored token, by which no two processes write the same use.
	Version time.Time `firestore:"-"`
}

// New draws a token for t, and gives it with its full token.
func New(random io.Reader, t Token) (Token, Full, error) {
	id, err := apikey.NewHandle(random, handle)
	if err != nil {
		return Token{}, "", fmt.Errorf("draw a token's id: %w", err)
	}
	full, err := apikey.Seal(random, marker+id+"_")
	if err != nil {
		return Token{}, "", fmt.Errorf("draw a token's secret: %w", err)
	}
	t.ID, t.Hash = ID(idPrefix+id), apikey.HashOf([]byte(full))
	return t, Full(full), nil
}

// Claims tells whether s says of itself that it is a service token, whole or not.
func Claims(s string) bool { return strings.HasPrefix(s, marker) }

// ID gives the id in a full token; ok is false where its shape or its checksum is not a
// token's. It authenticates nothing.
func (f Full) ID() (id ID, ok bool) {
	if len(f) != length || !Claims(string(f)) || f[len(marker)+handle] != '_' {
		return "", false
	}
	id = ID(idPrefix) + ID(f[len(marker):len(marker)+handle])
	return id, id.Valid() && apikey.Sealed([]byte(f))
}

// Valid tells whether id has the shape of one: it becomes part of a document's path.
func (id ID) Valid() bool {
	s, ok := strings.CutPrefix(string(id), idPrefix)
	return ok && apikey.ValidHandle(s, handle)
}

// Status is the token's state at now; it is expired from the instant itself on.
func (t Token) Status(now time.Time) Status {
	if now.Before(t.ExpiresAt) {
		return Active
	}
	return Expired
}

// Opens tells whether a full token is this one, and good at now. The hashes are compared
// in constant time.
func (t Token) Opens(f Full, now time.Time) bool {
	return t.Hash.Equal(apikey.HashOf([]byte(f))) && t.Status(now) == Active
}

// UseDue tells whether a use at now is to be written.
func (t Token) UseDue(now time.Time) bool { return !now.Before(t.LastUsed.Add(usedEvery)) }

// Actor is the token's name where users' names stand too, e.g. "token:nightly".
func (t Token) Actor() string { return actorPrefix + t.Name }

// CheckName refuses what is not a DNS label of 1 to 40 characters, and what could be
// taken for another token's id. Problem: invalid_name.
func CheckName(s string) error {
	if ID(s).Valid() {
		return problem.New(problem.InvalidName, "The token's name must not look like a token's id.")
	}
	return app.CheckLabel("token", s)
}

// Expiry reads when a token made at now is to end: an RFC 3339 timestamp, in UTC and in
// microseconds from here on. nil is [DefaultLife] from now. Problems: invalid_expiry,
// expiry_in_past.
func Expiry(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return now.Add(DefaultLife), nil
	}
	t, err := apikey.ParseExpiry(*text)
	switch {
	case err != nil:
		return time.Time{}, err
	case !t.After(now):
		return time.Time{}, problem.Of(problem.ExpiryInPast)
	case t.After(now.Add(MaxLife)):
		return time.Time{}, problem.New(problem.InvalidExpiry, "expires_at is at most %d days from now.", MaxLife/day)
	}
	return t, nil
}
