package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) signIn(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	body, err := httpapi.Decode[wire.SignIn](w, r)
	if err != nil {
		return err
	}
	if err := problem.Join(httpapi.Required("username", body.Username), httpapi.Required("password", body.Password)); err != nil {
		return err
	}
	username, password := *body.Username, *body.Password
	device := s.device(body.Device, username)
	f := s.attempt(r.Context(), username, device.ID)
	familiar := s.throttle.knows(s.now(), f)
	u, err := s.authenticate(r.Context(), f, device.Version, password)
	s.counts.signIn(err)
	if problem.Is(err, problem.InvalidCredentials) {
		s.recordFailure(r.Context(), u.Name, err)
	}
	if err != nil {
		return err
	}
	reqctx.SetActor(r.Context(), reqctx.Actor{Kind: reqctx.User, Name: u.Name})
	if err := s.recordSuccess(r.Context(), success{u.Name, familiar}); err != nil {
		return err
	}
	s.recordTime(r.Context(), u)
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
	return httpapi.WriteJSON(w, http.StatusOK, wire.OpenedSession{Session: wireSession(opened), Token: string(token), Device: string(known)})
}

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

func (s *Service) attempt(ctx context.Context, username, proof string) attempt {
	return attempt{username: username, address: reqctx.Network(ctx), proof: proof}
}

func (s *Service) getSession(_ context.Context, in httpapi.Scope, _ api.None) (wire.Session, error) {
	return wireSession(in.Session), nil
}

func (s *Service) signOut(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	if err := s.store.SignOut(r.Context(), in.Session.ID, in.Session.ExpiresAt); err != nil {
		return err
	}
	identity.ClearCookie(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// errDeactivated is the cause if a deactivated user sends the right password. The response does not
// reveal it.
var errDeactivated = errors.New("the user is deactivated")

// authenticate verifies a password. version is the password version for which the attempt's proof
// was issued; after a password change, the proof is ignored. Each attempt is charged before the
// check, so that concurrent attempts cannot exceed the limits. It is refunded if the user is active
// and the password is right. The user's name is "" if the user does not exist.
func (s *Service) authenticate(ctx context.Context, f attempt, version int64, password string) (user.User, error) {
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
		return u, problem.FromCode(problem.InvalidCredentials)
	}
	if u.State != user.Active {
		return u, problem.FromCode(problem.InvalidCredentials).WithCause(errDeactivated)
	}
	refund()
	s.throttle.remember(s.now(), f)
	return u, nil
}

// find returns the zero User if the user does not exist.
func (s *Service) find(ctx context.Context, username string) (user.User, error) {
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
