// Package user holds the people who sign in to Sluice.
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

// User is somebody who can sign in.
type User struct {
	Name      string    `firestore:"username"` // e.g. "ada.lovelace"
	Hash      string    `firestore:"hash"`     // of the password, a PHC string; never leaves the server
	Version   int64     `firestore:"version"`  // of the password, see [User.WithPassword]; sessions of another version are over
	Admin     bool      `firestore:"admin"`    // owner of every project, and manager of users
	CreatedAt time.Time `firestore:"created_at"`
}

// New is a user as they begin, with the hash of their first password.
func New(name, hash string, admin bool, now time.Time) User {
	return User{Name: name, Admin: admin, CreatedAt: now.UTC()}.WithPassword(hash, now)
}

// WithPassword is the user with the hash of another password, set at now. Its version
// is that time in microseconds since 1970, and above the last one: no session of a user
// who is gone is good for another one who got the same name, such as a first admin who
// is made again in a store that was lost.
func (u User) WithPassword(hash string, now time.Time) User {
	u.Hash, u.Version = hash, max(u.Version+1, now.UnixMicro())
	return u
}

// ValidName tells whether s is a username: 1 to 40 of [a-z0-9._-], starting with
// a letter or digit.
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

// CheckName refuses what is not a username. Problem: invalid_name.
func CheckName(s string) error {
	if !ValidName(s) {
		return problem.New(problem.InvalidName,
			"A username has 1 to %d characters: a-z, 0-9, dots, hyphens and underscores, with a letter or digit first.", maxName)
	}
	return nil
}

// CheckPassword refuses a new password that is too short or too long, counted in
// characters. There are no rules on which characters: length is what helps.
// Problem: invalid_password.
func CheckPassword(s string) error {
	if n := utf8.RuneCountInString(s); n < minPassword || n > maxPassword || !utf8.ValidString(s) {
		return problem.Of(problem.InvalidPass)
	}
	return nil
}
