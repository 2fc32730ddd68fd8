// Package user defines the users who sign in to Sluice.
package user

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

const (
	maxName     = 40  // characters of a username
	minPassword = 12  // characters
	maxPassword = 256 // characters
)

// signInEvery is the shortest interval between writes of the time of the last sign-in.
const signInEvery = 5 * time.Minute

// State is the state of a user. Removed users are deleted.
type State string

// The states.
const (
	Active      State = "active"
	Deactivated State = "deactivated" // cannot sign in
)

// States returns all states.
func States() []State { return []State{Active, Deactivated} }

// Valid reports whether s is a state.
func (s State) Valid() bool { return slices.Contains(States(), s) }

// User is a user who can sign in while active.
type User struct {
	Name       string    `firestore:"username"` // e.g. "ada.lovelace"
	Hash       string    `firestore:"hash"`     // PHC string
	Version    int64     `firestore:"version"`  // sessions with another version have ended
	Admin      bool      `firestore:"admin"`    // owner of all projects, manages users
	State      State     `firestore:"state"`
	CreatedAt  time.Time `firestore:"created_at"`
	LastSignIn time.Time `firestore:"-"` // up to 5 minutes old; zero if the user never signed in
}

// New returns an active user with the hash of their first password.
func New(name, hash string, admin bool, now time.Time) User {
	return User{Name: name, Admin: admin, State: Active, CreatedAt: now.UTC()}.WithPassword(hash, now)
}

// WithPassword returns the user with a new password hash and no sessions.
func (u User) WithPassword(hash string, now time.Time) User {
	u.Hash = hash
	return u.WithoutSessions(now)
}

// WithoutSessions returns the user with a higher version, the time in microseconds since 1970. Old
// sessions are therefore invalid even if the user was created again.
func (u User) WithoutSessions(now time.Time) User {
	u.Version = max(u.Version+1, now.UnixMicro())
	return u
}

// WithState returns the user in another state. Deactivation ends all sessions.
func (u User) WithState(s State, now time.Time) User {
	if s == Deactivated && u.State != Deactivated {
		u = u.WithoutSessions(now)
	}
	u.State = s
	return u
}

// ByName contains the states of users by name. Users who do not exist are absent.
type ByName map[string]State

// HaveActive reports whether one of the users is active.
func (b ByName) HaveActive(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return b[name] == Active })
}

// ActiveAdmin reports whether the user can manage users.
func (u User) ActiveAdmin() bool { return u.Admin && u.State == Active }

// SignInDue reports whether a sign-in at now must be stored.
func (u User) SignInDue(now time.Time) bool { return !now.Before(u.LastSignIn.Add(signInEvery)) }

// Standing holds the current rights of a session.
type Standing struct {
	Over  bool // the session has ended
	Admin bool
}

// Standing returns the rights of a session that was started with a version of the user.
func (u User) Standing(version int64) Standing {
	if u.State != Active || u.Version != version {
		return Standing{Over: true}
	}
	return Standing{Admin: u.Admin}
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
