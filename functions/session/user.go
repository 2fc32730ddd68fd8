package session

import (
	"context"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listUsers(ctx context.Context, _ httpapi.Scope, page api.Page) (wire.List[wire.User], error) {
	users, next, err := s.store.Users(ctx, store.Page(page))
	return wire.ListOf(users, next, wireUser), err
}

func (s *Service) getUser(ctx context.Context, in httpapi.Scope, _ api.None) (wire.User, error) {
	u, err := s.store.User(ctx, in.Param("username"))
	return wireUser(u), err
}

func (s *Service) createUser(ctx context.Context, _ httpapi.Scope, body wire.CreateUser) (wire.User, error) {
	username, password := httpapi.Deref(body.Username), httpapi.Deref(body.Password)
	err := problem.Join(httpapi.Required("username", body.Username), httpapi.Required("password", body.Password), checkUser(username, password))
	if err != nil {
		return wire.User{}, err
	}
	u, err := s.newUser(ctx, username, password, body.Admin)
	if err != nil {
		return wire.User{}, err
	}
	return wireUser(u), s.store.CreateUser(ctx, u)
}

// EnsureAdmin creates the first admin unless a user was ever created. If username is "", it creates
// no one.
func (s *Service) EnsureAdmin(ctx context.Context, username, password string) error {
	if username == "" {
		return nil
	}
	had, err := s.store.HadUsers(ctx)
	if err != nil || had {
		return err
	}
	u, err := s.newUser(ctx, username, password, true)
	if err != nil {
		return err
	}
	err = s.store.CreateFirstUser(ctx, u)
	if problem.Is(err, problem.AlreadyExists) { // by another replica
		return nil
	}
	if err == nil {
		s.log.InfoContext(ctx, "first admin created", "username", username)
	}
	return err
}

func (s *Service) newUser(ctx context.Context, name, password string, admin bool) (user.User, error) {
	if err := checkUser(name, password); err != nil {
		return user.User{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return user.User{}, err
	}
	return user.New(name, hash, admin, s.now()), nil
}

func checkUser(name, password string) error {
	return problem.Join(problem.ForField("username", user.CheckName(name)), user.CheckPassword(password))
}

func wireUser(u user.User) wire.User {
	out := wire.User{Username: u.Name, Admin: u.Admin, State: string(u.State)}
	if !u.LastSignIn.IsZero() {
		out.LastSignIn = &u.LastSignIn
	}
	return out
}

func (s *Service) changePassword(ctx context.Context, in httpapi.Scope, body wire.ChangePassword) (api.None, error) {
	name := in.Param("username")
	own := name == in.Caller.Username
	if !own && !in.Caller.Admin {
		return api.None{}, problem.FromCode(problem.Forbidden)
	}
	password := httpapi.Deref(body.Password)
	err := problem.Join(httpapi.Required("password", body.Password), user.CheckPassword(password))
	if own {
		err = problem.Join(err, httpapi.Required("current_password", body.CurrentPassword))
	}
	if err != nil {
		return api.None{}, err
	}
	version := anyVersion
	if own {
		if version, err = s.proveOwn(ctx, in, body); err != nil {
			return api.None{}, err
		}
	}
	return api.None{}, s.setPassword(ctx, name, password, version)
}

const anyVersion int64 = 0

// proveOwn verifies the caller's current password and returns its version. Failures count only
// against the session, so that a stolen session cannot block its owner.
func (s *Service) proveOwn(ctx context.Context, in httpapi.Scope, body wire.ChangePassword) (int64, error) {
	u, err := s.authenticate(ctx, s.attempt(ctx, in.Caller.Username, in.Session.ID), in.Session.Version, httpapi.Deref(body.CurrentPassword))
	return u.Version, err
}

// setPassword sets a user's password. It returns a conflict problem if the password no longer has
// the given version.
func (s *Service) setPassword(ctx context.Context, name, password string, version int64) error {
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	_, err = s.store.UpdateUser(ctx, name, func(u user.User) (user.User, error) {
		if version != anyVersion && u.Version != version {
			return user.User{}, problem.FromCode(problem.Conflict)
		}
		return u.WithPassword(hash, s.now()), nil
	})
	return err
}
