package session

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// signIn opens a session. Problems: missing_field, invalid_credentials,
// rate_limited, and those of a body.
func (s *Service) signIn(w http.ResponseWriter, r *http.Request) error {
	in, err := httpapi.Decode[wire.SignIn](w, r)
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
	u, err := s.authenticate(r, username, password)
	s.counts.signIn(err)
	if problem.Is(err, problem.InvalidCredentials) {
		s.recordFailure(r.Context(), u.Name)
	}
	if err != nil {
		return err
	}
	trace.Identify(r.Context(), trace.Actor{Kind: trace.User, Name: u.Name})
	if _, err := s.records.Record(r.Context(), audit.Change{Action: audit.SignIn, Resource: audit.Path("users", u.Name)}); err != nil {
		return err
	}
	opened := identity.NewSession(identity.Caller{Username: u.Name, Admin: u.Admin}, u.Version, s.now())
	token, err := s.keys.Sign(opened)
	if err != nil {
		return err
	}
	identity.SetCookie(w, token, opened.ExpiresAt)
	answer := wireSession(opened)
	answer.Token = string(token)
	return httpapi.JSON(w, http.StatusOK, answer)
}

// whoAmI tells about the session that the request comes with.
func (s *Service) whoAmI(w http.ResponseWriter, r *http.Request) error {
	current, err := s.guard.Session(r)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, wireSession(current))
}

// signOut ends the session that the request comes with.
func (s *Service) signOut(w http.ResponseWriter, r *http.Request) error {
	current, err := s.guard.Session(r)
	if err != nil {
		return err
	}
	if err := s.sessions.SignOut(r.Context(), current.ID, current.ExpiresAt); err != nil {
		return err
	}
	identity.ClearCookie(w)
	return httpapi.NoContent(w)
}

// authenticate finds the user whose name and password these are. Every attempt is
// charged before the password is looked at, so that attempts at the same time
// cannot slip through together, and given back once it proves right. With
// invalid_credentials it gives the user too, whose name is "" if there is none.
// Problems: invalid_credentials, rate_limited.
func (s *Service) authenticate(r *http.Request, username, password string) (user.User, error) {
	refund, err := s.throttle.charge(s.now(), username, trace.Network(r, s.trust))
	if err != nil {
		return user.User{}, err
	}
	u, err := s.find(r.Context(), username)
	if err != nil {
		refund()
		return user.User{}, err
	}
	right, err := s.hasher.Verify(r.Context(), u.Hash, password)
	if err != nil {
		refund()
		return user.User{}, fmt.Errorf("sign in %s: %w", u.Name, err)
	}
	if !right {
		return u, problem.Of(problem.InvalidCredentials)
	}
	refund()
	return u, nil
}

// recordFailure records a failed sign-in of a user, or of "" when there is none of
// that name. When it can't be recorded, the answer is the same.
func (s *Service) recordFailure(ctx context.Context, name string) {
	if !s.attempts.take(s.now()) {
		s.counts.unrecorded.Inc()
		return
	}
	resource := "users"
	if name != "" {
		resource = audit.Path("users", name)
	}
	ctx = trace.As(ctx, trace.Actor{Kind: trace.Anonymous, Name: name})
	if _, err := s.records.Record(ctx, audit.Change{Action: audit.SignIn, Outcome: audit.Failed, Resource: resource}); err != nil {
		s.counts.unrecorded.Inc()
		s.log.WarnContext(ctx, "failed sign-in not recorded", "error", err)
	}
}

// find reads a user; one who does not exist comes without a name and a hash,
// which no password matches.
func (s *Service) find(ctx context.Context, username string) (user.User, error) {
	if !user.ValidName(username) {
		return user.User{}, nil
	}
	u, err := s.users.User(ctx, username)
	if problem.Is(err, problem.NotFound) {
		return user.User{}, nil
	}
	return u, err
}

func wireSession(s identity.Session) wire.Session {
	return wire.Session{
		CSRFToken: s.CSRF, ExpiresAt: s.ExpiresAt,
		User: wire.User{Username: s.Caller.Username, Admin: s.Caller.Admin},
	}
}

// field is a required one's value. Problem: missing_field.
func field(name string, value *string) (string, error) {
	if value == nil {
		return "", problem.New(problem.MissingField, "%s is required.", name)
	}
	return *value, nil
}
