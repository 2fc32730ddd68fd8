// Package servicetoken defines service tokens, with which programs call the management API
// (promises S9, S10).
//
// A token belongs to a project and remains valid when its creator leaves. It has a role in that
// project, but cannot create access that would outlive it: it cannot add members, service tokens
// or trusts, and cannot read or replace webhook tokens. API keys are the exception: the response
// to a revocation lists the keys that the token issued.
//
// A full token is "sluice_st_<id>_<secret>", with the same kind of secret as an API key (package
// apikey): 190 random bits and a checksum. Only its SHA-256 is stored. The position of the second
// underscore distinguishes it from an API key.
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
	handle   = 12 // characters of [0-9a-z]: 62 random bits
	length   = len(marker) + handle + 1 + apikey.SecretLength
	idPrefix = "token-"

	// actorPrefix cannot occur in usernames.
	actorPrefix = "token:"

	day = 24 * time.Hour

	// usedEvery is the shortest interval between writes of the time of last use.
	usedEvery = 5 * time.Minute
)

// Pattern is a regular expression for full tokens, for scanners.
const Pattern = `sluice_st_[0-9a-z]{12}_[0-9A-Za-z]{38}`

// The limits of tokens (promise S9).
const (
	MaxPerProject = 100      // including expired ones
	DefaultLife   = 90 * day // without an explicit expiry
	MaxLife       = 366 * day
)

// Status is a token's state. Revoked tokens are deleted.
type Status string

// The statuses.
const (
	Active  Status = "active"
	Expired Status = "expired"
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Active, Expired} }

// ID is the public ID of a token, e.g. "token-ab12cd34ef56".
type ID string

// Full is a full token. It prints as "[redacted]"; string(f) is the token.
type Full string

// LogValue implements [slog.LogValuer].
func (Full) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Full) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer].
func (Full) GoString() string { return "[redacted]" }

// Token is a service token without its secret.
type Token struct {
	ID        ID          `firestore:"-"`
	Project   string      `firestore:"project"`
	Name      string      `firestore:"name"` // DNS label, unique in the project, e.g. "nightly"
	Role      app.Role    `firestore:"role"`
	Hash      apikey.Hash `firestore:"-"` // of the full token
	ExpiresAt time.Time   `firestore:"expires_at"`
	CreatedAt time.Time   `firestore:"created_at"`
	CreatedBy string      `firestore:"created_by"` // username
	LastUsed  time.Time   `firestore:"-"`          // up to 5 minutes old; zero if never used

	// Version is the time of the last write to the document. It prevents two processes from
	// writing the same use.
	Version time.Time `firestore:"-"`
}

// New returns t with a new ID and hash, and the full token.
func New(random io.Reader, t Token) (Token, Full, error) {
	id, err := apikey.NewHandle(random, handle)
	if err != nil {
		return Token{}, "", fmt.Errorf("generate token ID: %w", err)
	}
	full, err := apikey.Seal(random, marker+id+"_")
	if err != nil {
		return Token{}, "", fmt.Errorf("generate token secret: %w", err)
	}
	t.ID, t.Hash = ID(idPrefix+id), apikey.HashOf([]byte(full))
	return t, Full(full), nil
}

// Claims reports whether s has the prefix of a service token.
func Claims(s string) bool { return strings.HasPrefix(s, marker) }

// ID returns the ID in a full token, and false if the format or checksum is invalid. It does not
// authenticate the token.
func (f Full) ID() (id ID, ok bool) {
	if len(f) != length || !Claims(string(f)) || f[len(marker)+handle] != '_' {
		return "", false
	}
	id = ID(idPrefix) + ID(f[len(marker):len(marker)+handle])
	return id, id.Valid() && apikey.Sealed([]byte(f))
}

// Valid reports whether id has the format of a token ID. It is then safe in a document path.
func (id ID) Valid() bool {
	s, ok := strings.CutPrefix(string(id), idPrefix)
	return ok && apikey.ValidHandle(s, handle)
}

// Status returns the token's state at now.
func (t Token) Status(now time.Time) Status {
	if now.Before(t.ExpiresAt) {
		return Active
	}
	return Expired
}

// Opens reports whether f is this token and the token is valid at now.
func (t Token) Opens(f Full, now time.Time) bool {
	return t.Hash.Equal(apikey.HashOf([]byte(f))) && t.Status(now) == Active
}

// UseDue reports whether a use at now must be stored.
func (t Token) UseDue(now time.Time) bool { return !now.Before(t.LastUsed.Add(usedEvery)) }

// Actor returns the token's name as an actor, e.g. "token:nightly".
func (t Token) Actor() string { return actorPrefix + t.Name }

// CheckName returns an invalid_name problem if s is not a DNS label of 1 to 40 characters, or
// looks like a token ID.
func CheckName(s string) error {
	if ID(s).Valid() {
		return problem.New(problem.InvalidName, "The token's name must not look like a token ID. Use another name.")
	}
	return app.CheckLabel("token", s)
}

// Expiry returns the expiry of a token created at now, from an RFC 3339 timestamp. nil means
// [DefaultLife]. It returns an invalid_expiry or expiry_in_past problem.
func Expiry(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return now.Add(DefaultLife), nil
	}
	t, err := apikey.ParseExpiry(*text)
	switch {
	case err != nil:
		return time.Time{}, err
	case !t.After(now):
		return time.Time{}, problem.FromCode(problem.ExpiryInPast)
	case t.After(now.Add(MaxLife)):
		return time.Time{}, problem.New(problem.InvalidExpiry, "expires_at must be at most %d days from now.", MaxLife/day)
	}
	return t, nil
}
