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
	device := s.device(in.Device, username)
	f := s.from(r, username, device.ID)
	familiar := s.throttle.knows(s.now(), f)
	u, err := s.authenticate(r.Context(), f, device.Version, password)
	s.counts.signIn(err)
	if problem.Is(err, problem.InvalidCredentials) {
		s.recordFailure(r.Context(), u.Name)
	}
	if err != nil {
		return err
	}
	trace.Identify(r.Context(), trace.Actor{Kind: trace.User, Name: u.Name})
	if err := s.recordSuccess(r.Context(), success{u.Name, familiar}); err != nil {
		return err
	}
	opened := identity.NewSession(identity.Caller{Username: u.Name, Admin: u.Admin}, u.Version, s.now())
	token, err := s.keys.Sign(opened)
	if err != nil {
		return err
	}
	if device.ID == "" {
		device = identity.NewDevice(u.Name)
	}
	device.Version = u.Version
	known, err := s.keys.SignDevice(device)
	if err != nil {
		return err
	}
	identity.SetCookie(w, token, opened.ExpiresAt)
	answer := wireSession(opened)
	answer.Token, answer.Device = string(token), string(known)
	return httpapi.JSON(w, http.StatusOK, answer)
}

// device is the one that a user has signed in with before, if that is what a sign-in
// comes with; else it has no id.
func (s *Service) device(token *string, username string) identity.Device {
	if token == nil {
		return identity.Device{}
	}
	d, err := s.keys.VerifyDevice(identity.Token(*token))
	if err != nil || d.Username != username {
		return identity.Device{}
	}
	return d
}

// from says whom an attempt comes from; proof is that it is somebody known.
func (s *Service) from(r *http.Request, username, proof string) from {
	return from{username: username, address: trace.Network(r, s.trust), proof: proof}
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

// authenticate finds the user whose name and password these are. version is that of the
// password which the attempt's proof was given for: since it was changed, the proof is
// worth nothing. Every attempt is charged before the password is looked at, so that
// attempts at the same time cannot slip through together, and given back once it proves
// right. With invalid_credentials it gives the user too, whose name is "" if there is
// none. Problems: invalid_credentials, rate_limited.
func (s *Service) authenticate(ctx context.Context, f from, version int64, password string) (user.User, error) {
	lane, refund, err := s.throttle.charge(s.now(), f)
	if err != nil {
		return user.User{}, err
	}
	u, err := s.find(ctx, f.username)
	if err != nil {
		refund()
		return user.User{}, err
	}
	if f.proof != "" && u.Version != version {
		refund()
		f.proof = ""
		if lane, refund, err = s.throttle.charge(s.now(), f); err != nil {
			return user.User{}, err
		}
	}
	right, err := s.hasher.Verify(ctx, lane, u.Hash, password)
	if err != nil {
		refund()
		return user.User{}, fmt.Errorf("sign in %s: %w", u.Name, err)
	}
	if !right {
		return u, problem.Of(problem.InvalidCredentials)
	}
	refund()
	s.throttle.remember(s.now(), f)
	return u, nil
}

// recordSuccess records a sign-in, or counts it for the next record.
func (s *Service) recordSuccess(ctx context.Context, of success) error {
	b := s.opened.budget(of)
	left, ok := b.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return nil
	}
	_, err := s.records.Record(ctx, audit.Change{Action: audit.SignIn, Resource: audit.Path("users", of.username), New: unrecorded(left)})
	if err != nil {
		b.leave(left) // this one is none: it fails
	}
	return err
}

// recordFailure records a failed sign-in of a user, or of "" when there is none of
// that name, or counts it for the next record. When it can't be recorded, the answer is
// the same.
func (s *Service) recordFailure(ctx context.Context, name string) {
	left, ok := s.failures.take(s.now())
	if !ok {
		s.counts.unrecorded.Inc()
		return
	}
	resource := "users"
	if name != "" {
		resource = audit.Path("users", name)
	}
	ctx = trace.As(ctx, trace.Actor{Kind: trace.Anonymous, Name: name})
	if _, err := s.records.Record(ctx, audit.Change{Action: audit.SignIn, Outcome: audit.Failed, Resource: resource, New: unrecorded(left)}); err != nil {
		s.counts.unrecorded.Inc()
		s.failures.leave(left + 1)
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
