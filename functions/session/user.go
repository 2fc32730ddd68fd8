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

// getUser reads a user. It returns a not_found problem if the user does not exist.
func (s *Service) getUser(ctx context.Context, in httpapi.Scope, _ api.None) (wire.User, error) {
	name := in.Param("username")
	if !user.ValidName(name) {
		return wire.User{}, noUser()
	}
	u, err := s.store.User(ctx, name)
	return wireUser(u), err
}

func noUser() error { return problem.New(problem.NotFound, "There is no such user.") }

func (s *Service) createUser(ctx context.Context, _ httpapi.Scope, body wire.CreateUser) (wire.User, error) {
	username, password := httpapi.Given(body.Username), httpapi.Given(body.Password)
	err := problem.All(httpapi.Required("username", body.Username), httpapi.Required("password", body.Password), checkUser(username, password))
	if err != nil {
		return wire.User{}, err
	}
	u, err := s.newUser(ctx, username, password, body.Admin)
	if err != nil {
		return wire.User{}, err
	}
	return wireUser(u), s.store.CreateUser(ctx, u)
}

// EnsureAdmin makes the first admin unless there is a user of that name. Two
// replicas that start at once are harmless: one of them makes the user.
func (s *Service) EnsureAdmin(ctx context.Context, username, password string) error {
	_, err := s.store.User(ctx, username)
	if !problem.Is(err, problem.NotFound) {
		return err // nil when there is one
	}
	u, err := s.newUser(ctx, username, password, true)
	if err != nil {
		return err
	}
	err = s.store.CreateUser(ctx, u)
	if problem.Is(err, problem.AlreadyExists) {
		return nil
	}
	if err == nil {
		s.log.InfoContext(ctx, "first admin created", "username", username)
	}
	return err
}

// newUser checks and hashes what a user is made of.
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

// checkUser refuses what no user can have. Problems: invalid_name, invalid_password.
func checkUser(name, password string) error {
	return problem.All(problem.At("username", user.CheckName(name)), user.CheckPassword(password))
}

func wireUser(u user.User) wire.User { return wire.User{Username: u.Name, Admin: u.Admin} }

// changePassword sets a password: users their own with the current one, admins
// anyone else's. It ends all sessions of that user.
func (s *Service) changePassword(ctx context.Context, in httpapi.Scope, body wire.ChangePassword) (api.None, error) {
	name := in.Param("username")
	own := name == in.Caller.Username
	if !own && !in.Caller.Admin {
		return api.None{}, problem.Of(problem.Forbidden)
	}
	password := httpapi.Given(body.Password)
	err := problem.All(httpapi.Required("password", body.Password), user.CheckPassword(password))
	if own {
		err = problem.All(err, httpapi.Required("current_password", body.CurrentPassword))
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

// anyVersion stands for whatever version a password has.
const anyVersion int64 = 0

// proveOwn asks for the current password, by the same rules as a sign-in, and gives its
// version. Wrong ones count against the session alone: a thief of it may not guess for
// long, and not keep its owner from signing in either.
func (s *Service) proveOwn(ctx context.Context, in httpapi.Scope, body wire.ChangePassword) (int64, error) {
	u, err := s.authenticate(ctx, s.from(ctx, in.Caller.Username, in.Session.ID), in.Session.Version, httpapi.Given(body.CurrentPassword))
	return u.Version, err
}

// setPassword stores a new password unless it has been changed meanwhile by
// someone else: what was proven would no longer hold. Problem: conflict.
func (s *Service) setPassword(ctx context.Context, name, password string, version int64) error {
	if !user.ValidName(name) {
		return noUser()
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	return s.store.UpdateUser(ctx, name, func(u user.User) (user.User, error) {
		if version != anyVersion && u.Version != version {
			return user.User{}, problem.Of(problem.Conflict)
		}
		return u.WithPassword(hash, s.now()), nil
	})
}
