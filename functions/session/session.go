// Package session is the function that signs users in and out and manages users (promises S3 to
// S8). Package api lists its routes.
//
// Users change their own password with the current one; admins set those of other users. Both end
// all sessions of the user. Users cannot be deleted, because keys and deployments name them. A
// service token can only read its own session.
//
// # Sign-in
//
// A wrong password and an unknown user cause the same work and response. [throttle] limits
// failures: it slows guessing, and does not let one client block another user. A sign-in returns
// a device token to send with the next one. Known devices and addresses have separate limits, and
// their passwords are hashed first ([identity.Hasher]).
//
// By default, an attacker can guess a user's password 2,880 times a day from one address, and
// 17,280 times from all unknown addresses together. On the first day, 10 and 3,000 more guesses are
// possible. These numbers apply to each replica.
//
// # Audit
//
// Sign-ins are recorded before the response, up to a limit ([budget]), so that attackers cannot
// fill the store; sluice_sign_ins_total counts all. The username of a failed sign-in is recorded
// only if the user exists, because users sometimes type their password there.
//
// # First admin
//
// At startup, the function creates the user ADMIN_USERNAME if it does not exist. Later changes of
// ADMIN_PASSWORD have no effect.
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

// Service implements the function's API.
type Service struct {
	store    *store.Store
	api      *httpapi.API
	failures *budget
	opened   *successes
	counts   *counts
	keys     *identity.Keyring
	hasher   hasher
	throttle *throttle
	log      *slog.Logger
	now      func() time.Time
}

type hasher interface {
	Hash(ctx context.Context, password string) (string, error)
	Verify(ctx context.Context, lane identity.Lane, hash, password string) (bool, error)
}

// Parts holds the dependencies of a Service.
type Parts struct {
	Store    *store.Store
	Sessions httpapi.Sessions
	Keys     *identity.Keyring // with a private key
	Log      *slog.Logger
}

// New returns a service.
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

// Handler returns the handler of the function's routes.
func (s *Service) Handler() http.Handler { return s.api }
