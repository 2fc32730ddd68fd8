package session

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// signIn opens a session.
func (s *Service) signIn(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	body, err := httpapi.Decode[wire.SignIn](w, r)
	if err != nil {
		return err
	}
	if err := problem.All(httpapi.Required("username", body.Username), httpapi.Required("password", body.Password)); err != nil {
		return err
	}
	username, password := *body.Username, *body.Password
	device := s.device(body.Device, username)
	f := s.from(r.Context(), username, device.ID)
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
	return httpapi.JSON(w, http.StatusOK, wire.OpenedSession{Session: wireSession(opened), Token: string(token), Device: string(known)})
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
func (s *Service) from(ctx context.Context, username, proof string) from {
	return from{username: username, address: trace.Network(ctx), proof: proof}
}

// getSession tells about the session that the request comes with.
func (s *Service) getSession(_ context.Context, in httpapi.Scope, _ api.None) (wire.Session, error) {
	return wireSession(in.Session), nil
}

// signOut ends the session that the request comes with.
func (s *Service) signOut(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	if err := s.store.SignOut(r.Context(), in.Session.ID, in.Session.ExpiresAt); err != nil {
		return err
	}
	identity.ClearCookie(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
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

// find reads a user; one who does not exist comes without a name and a hash,
// which no password matches.
func (s *Service) find(ctx context.Context, username string) (user.User, error) {
	if !user.ValidName(username) {
		return user.User{}, nil
	}
	u, err := s.store.User(ctx, username)
	if problem.Is(err, problem.NotFound) {
		return user.User{}, nil
	}
	return u, err
}

func wireSession(s identity.Session) wire.Session {
	out := wire.Session{
		CSRFToken: s.CSRF, ExpiresAt: s.ExpiresAt,
		User: wire.Caller{Username: s.Caller.Username, Admin: s.Caller.Admin},
	}
	if g := s.Caller.Grant; s.Caller.Service() {
		out.ServiceToken = &wire.SessionToken{ID: string(g.Token), Name: g.Name, Project: g.Project, Role: string(g.Role)}
	}
	return out
}
