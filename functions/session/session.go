// Package session is the function that signs people in and out and manages who
// can: the first row of the management API (decisions sections 3 and 8).
//
//	POST   /api/v1/session                     {username,password,device?} → token, CSRF value, device and cookie
//	GET    /api/v1/session                     who am I, until when, and the CSRF value
//	DELETE /api/v1/session                     sign out: the token is dead at once
//	GET    /api/v1/users                       every user (admins)
//	POST   /api/v1/users                       {username,password,admin?} (admins)
//	PUT    /api/v1/users/{username}/password   {current_password?,password}
//
// The users' rows are this package's own decision, since members of projects need
// users and nothing else makes them. Users change their own password with the
// current one; admins set anyone else's without. Either way all sessions of that
// user end at once, the one that asked included, so whoever changed a password
// because it leaked has thrown the thief out too. There is no way to delete a
// user: keys and deployments name who made them.
//
// # Sign-in
//
// A wrong password and an unknown user get the same answer after the same work.
//
// Failures are throttled so that nobody can guess for long, and nobody can keep anybody
// else from signing in: strictly for each user and address, generously for a user from
// anywhere; see [throttle]. Whoever signs in gets a token for the device beside the
// session's, {device}, and sends it with the next sign-in (the console keeps it in a
// cookie, the command line with its context): it is then counted for itself, as is who
// comes from an address that this user has signed in from before. Passwords are hashed
// in turns, theirs first and strangers' as far as there is room, see [identity.Hasher]:
// a crowd costs neither memory nor their time.
//
// What a guesser gets in a day, of each replica: 2 880 guesses of a user from one address
// (10 more on the first day), 17 280 (3 000 more) from however many.
//
// Sign-ins are recorded for the audit before their token leaves, and so are failures, up
// to one a second after the first hundred: neither a guesser with many addresses nor a
// pipeline that signs in each minute must be able to fill the store, see [budget]. What
// is left out is counted in the next record, and sluice_sign_ins_total counts all. A
// failed attempt's username is recorded only if there is such a user, because what
// people type in its place by mistake is their password.
//
// The first admin comes from ADMIN_USERNAME and ADMIN_PASSWORD when the function
// starts, if there is no such user yet. Once there is, the two are ignored: a
// changed password stays changed.
package session

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
)

// Users keeps who can sign in; *store.Store implements it.
type Users interface {
	CreateUser(ctx context.Context, u user.User) error
	User(ctx context.Context, name string) (user.User, error)
	Users(ctx context.Context, page store.Page) ([]user.User, string, error)
	UpdateUser(ctx context.Context, name string, change func(user.User) (user.User, error)) error
}

// Sessions remembers which sessions are over; *store.Store implements it.
type Sessions interface {
	SignOut(ctx context.Context, tokenID string, expires time.Time) error
}

// Records keeps audit records; *store.Store implements it.
type Records interface {
	Record(ctx context.Context, c audit.Change) (string, error)
}

// Guard says who asks; *identity.Guard implements it.
type Guard interface {
	Session(r *http.Request) (identity.Session, error)
}

// Service answers the function's requests.
type Service struct {
	users    Users
	sessions Sessions
	records  Records
	failures *budget // of records of failed sign-ins
	opened   *successes
	counts   *counts
	guard    Guard
	keys     *identity.Keyring
	hasher   *identity.Hasher
	throttle *throttle
	trust    trace.Trust
	log      *slog.Logger
	now      func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	Users    Users
	Sessions Sessions
	Records  Records
	Guard    Guard
	Keys     *identity.Keyring // with a private key
	Log      *slog.Logger
}

// New makes a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	hasher, err := identity.NewHasher(cfg.HashesAtOnce)
	if err != nil {
		return nil, err
	}
	return &Service{
		users: p.Users, sessions: p.Sessions, records: p.Records, counts: newCounts(), guard: p.Guard, keys: p.Keys,
		hasher: hasher, trust: cfg.TrustProxy, log: p.Log,
		throttle: newThrottle(cfg, time.Now()), failures: newBudget(time.Now(), recordsAtOnce, recordsEvery), opened: newSuccesses(time.Now()), now: time.Now,
	}, nil
}

// Handler routes the function's requests.
func (s *Service) Handler() http.Handler {
	m := httpapi.New(s.log)
	m.Handle("POST /api/v1/session", s.signIn)
	m.Handle("GET /api/v1/session", s.whoAmI)
	m.Handle("DELETE /api/v1/session", s.signOut)
	m.Handle("GET /api/v1/users", s.listUsers)
	m.Handle("POST /api/v1/users", s.createUser)
	m.Handle("PUT /api/v1/users/{username}/password", s.changePassword)
	return m
}
