// Package user defines the users who sign in to Sluice.
package user

import (
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

const (
	maxName     = 40  // characters of a username
	minPassword = 12  // characters
	maxPassword = 256 // characters
)

// User is a user who can sign in.
type User struct {
	Name      string    `firestore:"username"` // e.g. "ada.lovelace"
	Hash      string    `firestore:"hash"`     // PHC string
	Version   int64     `firestore:"version"`  // of the password; sessions with another version have ended
	Admin     bool      `firestore:"admin"`    // owner of all projects, manages users
	CreatedAt time.Time `firestore:"created_at"`
}

// New returns a user with the hash of their first password.
func New(name, hash string, admin bool, now time.Time) User {
	return User{Name: name, Admin: admin, CreatedAt: now.UTC()}.WithPassword(hash, now)
}

// WithPassword returns the user with a new password hash and a higher version, the time in
// microseconds since 1970. Old sessions are therefore invalid even if the user was created again.
func (u User) WithPassword(hash string, now time.Time) User {
	u.Hash, u.Version = hash, max(u.Version+1, now.UnixMicro())
	return u
}

// ValidName reports whether s is a username: 1 to 40 of [a-z0-9._-], starting with a letter or
// digit.
func ValidName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// CheckName returns an invalid_name problem if s is not a username.
func CheckName(s string) error {
	if !ValidName(s) {
		return problem.New(problem.InvalidName,
			"A username must have 1 to %d characters: a-z, 0-9, dots, hyphens and underscores, with a letter or digit first.", maxName)
	}
	return nil
}

// CheckPassword returns an invalid_password problem if s is too short or too long. All characters
// are allowed.
func CheckPassword(s string) error {
	if n := utf8.RuneCountInString(s); n < minPassword || n > maxPassword || !utf8.ValidString(s) {
		return problem.FromCode(problem.InvalidPass)
	}
	return nil
}
