// Package session is the function that signs users in and out and manages users (promises S3 to
// S8, S11). Package api lists its routes.
//
// Users change their own password with the current one; admins set those of other users. Both end
// all sessions of the user. A service token can only read its own session.
//
// # People who leave
//
// Deactivation ends all sessions of a user, and prevents sign-ins. Removal also removes the user's
// roles and deletes the user. Keys, deployments and audit records still contain the name, and a new
// user can have it. Both take effect with the next request at any function, as does a change of the
// admin rights, because [identity.Guard] reads the rights of each session from the store.
//
// One active admin always remains, and each project of a removed owner keeps an active owner.
// Service tokens belong to projects and stay valid. The responses list those that the user created.
//
// # Sign-in
//
// A wrong password, an unknown user and a deactivated user cause the same work and response.
// [throttle] limits failures: it slows guessing, and does not let one client block another user. A
// sign-in returns a device token to send with the next one. Known devices and addresses have
// separate limits, and their passwords are hashed first ([identity.Hasher]).
//
// By default, an attacker can guess a user's password 2,880 times a day from one address, and
// 17,280 times from all unknown addresses together. On the first day, 10 and 3,000 more guesses are
// possible. These numbers apply to each replica.
//
// # Audit
//
// Sign-ins are recorded before the response, up to a limit ([budget]), so that attackers cannot
// fill the store; sluice_sign_ins_total counts all. The username of a failed sign-in is recorded
// only if the user exists, because users sometimes type their password there. The record also states
// that a deactivated user sent the right password.
//
// # First admin
//
// At its first start, the function creates the user ADMIN_USERNAME. If any user was ever created, the
// settings have no effect, so a removed first admin does not return.
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
	httpapi.ServeRaw(s.api, api.EndOwnSessions.Row, s.endOwnSessions)
	httpapi.Serve(s.api, api.ListUsers, s.listUsers)
	httpapi.Serve(s.api, api.GetUser, s.getUser)
	httpapi.Serve(s.api, api.CreateUser, s.createUser)
	httpapi.Serve(s.api, api.UpdateUser, s.updateUser)
	httpapi.Serve(s.api, api.RemoveUser, s.removeUser)
	httpapi.Serve(s.api, api.EndSessions, s.endSessions)
	httpapi.Serve(s.api, api.ChangePassword, s.changePassword)
	return s, nil
}

// Handler returns the handler of the function's routes.
func (s *Service) Handler() http.Handler { return s.api }
