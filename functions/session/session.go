// Package session is the function that signs people in and out and manages who
// can (promises S3 to S8).
//
// Its routes are those of package api with this name.
//
// The users' rows are this package's own decision, since members of projects need
// users and nothing else makes them. Users change their own password with the
// current one; admins set anyone else's without. Either way all sessions of that
// user end at once, the one that asked included, so whoever changed a password
// because it leaked has thrown the thief out too. There is no way to delete a
// user: keys and deployments name who made them.
//
// A service token (package servicetoken) can ask who it is, and has no other business
// here: it cannot sign out, and has no password.
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

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
)

// Service answers the function's requests.
type Service struct {
	store    *store.Store
	api      *httpapi.API
	failures *budget // of records of failed sign-ins
	opened   *successes
	counts   *counts
	keys     *identity.Keyring
	hasher   hasher
	throttle *throttle
	log      *slog.Logger
	now      func() time.Time
}

// hasher is the part of [identity.Hasher] that a Service uses.
type hasher interface {
	Hash(ctx context.Context, password string) (string, error)
	Verify(ctx context.Context, lane identity.Lane, hash, password string) (bool, error)
}

// Parts are what a Service is put together from.
type Parts struct {
	Store    *store.Store
	Sessions httpapi.Sessions
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
	s := &Service{
		store: p.Store, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls), counts: newCounts(), keys: p.Keys,
		hasher: hasher, log: p.Log,
		throttle: newThrottle(cfg, time.Now()), failures: newBudget(time.Now(), recordsAtOnce, recordsEvery), opened: newSuccesses(time.Now()), now: time.Now,
	}
	httpapi.ServeRaw(s.api, api.SignIn.Row, s.signIn)
	httpapi.Serve(s.api, api.GetSession, s.getSession)
	httpapi.ServeRaw(s.api, api.SignOut.Row, s.signOut)
	httpapi.Serve(s.api, api.ListUsers, s.listUsers)
	httpapi.Serve(s.api, api.GetUser, s.getUser)
	httpapi.Serve(s.api, api.CreateUser, s.createUser)
	httpapi.Serve(s.api, api.ChangePassword, s.changePassword)
	return s, nil
}

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }
