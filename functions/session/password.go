package session

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// changePassword sets a password: users their own with the current one, admins
// anyone else's. It ends all sessions of that user. Problems: missing_field,
// invalid_password, invalid_credentials, rate_limited, forbidden, not_found.
func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) error {
	current, err := s.guard.Session(r)
	if err != nil {
		return err
	}
	name := r.PathValue("username")
	own := name == current.Caller.Username
	if !own && !current.Caller.Admin {
		return problem.Of(problem.Forbidden)
	}
	in, err := httpapi.Decode[wire.ChangePassword](w, r)
	if err != nil {
		return err
	}
	password, err := field("password", in.Password)
	if err != nil {
		return err
	}
	if err := user.CheckPassword(password); err != nil {
		return err
	}
	version := anyVersion
	if own {
		if version, err = s.proveOwn(r, current, in); err != nil {
			return err
		}
	}
	if err := s.setPassword(r, name, password, version); err != nil {
		return err
	}
	return httpapi.NoContent(w)
}

// anyVersion stands for whatever version a password has.
const anyVersion int64 = 0

// proveOwn asks for the current password, by the same rules as a sign-in, and gives its
// version. Wrong ones count against the session alone: a thief of it may not guess for
// long, and not keep its owner from signing in either.
func (s *Service) proveOwn(r *http.Request, current identity.Session, in wire.ChangePassword) (int64, error) {
	password, err := field("current_password", in.CurrentPassword)
	if err != nil {
		return 0, err
	}
	f := s.from(r, current.Caller.Username, current.ID)
	u, err := s.authenticate(r.Context(), f, current.Version, password)
	return u.Version, err
}

// setPassword stores a new password unless it has been changed meanwhile by
// someone else: what was proven would no longer hold. Problem: conflict.
func (s *Service) setPassword(r *http.Request, name, password string, version int64) error {
	if !user.ValidName(name) {
		return problem.New(problem.NotFound, "There is no such user.")
	}
	hash, err := s.hasher.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	return s.users.UpdateUser(r.Context(), name, func(u user.User) (user.User, error) {
		if version != anyVersion && u.Version != version {
			return user.User{}, problem.Of(problem.Conflict)
		}
		return u.WithPassword(hash, s.now()), nil
	})
}
