package session

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listUsers lists all users, for admins.
func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) error {
	if err := s.admin(r); err != nil {
		return err
	}
	page, err := httpapi.ReadPage(r)
	if err != nil {
		return err
	}
	users, next, err := s.users.Users(r.Context(), store.Page{Size: page.Size, Token: page.Token})
	if err != nil {
		return err
	}
	list := wire.List[wire.User]{Items: make([]wire.User, len(users)), NextPageToken: next}
	for i, u := range users {
		list.Items[i] = wireUser(u)
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// createUser makes a user, for admins. Problems: missing_field, invalid_name,
// invalid_password, already_exists.
func (s *Service) createUser(w http.ResponseWriter, r *http.Request) error {
	if err := s.admin(r); err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreateUser](w, r)
	if err != nil {
		return err
	}
	username, err := field("username", in.Username)
	if err != nil {
		return err
	}
	password, err := field("password", in.Password)
	if err != nil {
		return err
	}
	u, err := s.newUser(r.Context(), username, password, in.Admin)
	if err != nil {
		return err
	}
	if err := s.users.CreateUser(r.Context(), u); err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusCreated, wireUser(u))
}

// EnsureAdmin makes the first admin unless there is a user of that name. Two
// replicas that start at once are harmless: one of them makes the user.
func (s *Service) EnsureAdmin(ctx context.Context, username, password string) error {
	_, err := s.users.User(ctx, username)
	if !problem.Is(err, problem.NotFound) {
		return err // nil when there is one
	}
	u, err := s.newUser(ctx, username, password, true)
	if err != nil {
		return err
	}
	err = s.users.CreateUser(ctx, u)
	if problem.Is(err, problem.AlreadyExists) {
		return nil
	}
	if err == nil {
		s.log.InfoContext(ctx, "first admin created", "username", username)
	}
	return err
}

// admin lets only admins through. Problem: forbidden.
func (s *Service) admin(r *http.Request) error {
	current, err := s.guard.Session(r)
	if err == nil && !current.Caller.Admin {
		err = problem.Of(problem.Forbidden)
	}
	return err
}

// newUser checks and hashes what a user is made of.
func (s *Service) newUser(ctx context.Context, name, password string, admin bool) (user.User, error) {
	if err := user.CheckName(name); err != nil {
		return user.User{}, err
	}
	if err := user.CheckPassword(password); err != nil {
		return user.User{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return user.User{}, err
	}
	return user.New(name, hash, admin, s.now()), nil
}

func wireUser(u user.User) wire.User { return wire.User{Username: u.Name, Admin: u.Admin} }
