package apps

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listTokens(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Token], error) {
	tokens, next, err := s.store.Tokens(ctx, in.Project.Name, store.Page(page))
	now := s.now()
	return wire.ListOf(tokens, next, func(t servicetoken.Token) wire.Token { return wireToken(t, now) }), err
}

// createToken makes a service token and answers its full token, this once.
func (s *Service) createToken(ctx context.Context, in httpapi.Scope, body wire.CreateToken) (wire.IssuedToken, error) {
	now := s.now().UTC().Truncate(time.Microsecond) // as the store keeps it
	t, err := newToken(body, now)
	if err != nil {
		return wire.IssuedToken{}, err
	}
	t.Project, t.CreatedBy = in.Project.Name, in.Caller.Username
	t, full, err := servicetoken.New(apikey.Random(), t)
	if err != nil {
		return wire.IssuedToken{}, err
	}
	return wire.IssuedToken{Token: wireToken(t, now), FullToken: string(full)}, s.store.CreateToken(ctx, t)
}

// newToken checks what a token is made from. Problems: missing_field, invalid_name,
// invalid_role, invalid_expiry, expiry_in_past.
func newToken(in wire.CreateToken, now time.Time) (servicetoken.Token, error) {
	switch {
	case in.Name == nil:
		return servicetoken.Token{}, httpapi.Missing("name")
	case in.Role == nil:
		return servicetoken.Token{}, httpapi.Missing("role")
	}
	if err := servicetoken.CheckName(*in.Name); err != nil {
		return servicetoken.Token{}, err
	}
	role := app.Role(*in.Role)
	if !role.Valid() {
		return servicetoken.Token{}, problem.Of(problem.InvalidRole)
	}
	expires, err := servicetoken.Expiry(in.ExpiresAt, now)
	return servicetoken.Token{Name: *in.Name, Role: role, ExpiresAt: expires, CreatedAt: now}, err
}

// revokeToken ends a token at once.
func (s *Service) revokeToken(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	return api.None{}, s.store.RevokeToken(ctx, in.Project.Name, servicetoken.ID(in.Param("token_id")))
}

func wireToken(t servicetoken.Token, now time.Time) wire.Token {
	out := wire.Token{
		ID: string(t.ID), Project: t.Project, Name: t.Name, Role: string(t.Role), Status: string(t.Status(now)),
		ExpiresAt: t.ExpiresAt, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
	}
	if !t.LastUsed.IsZero() {
		out.LastUsedAt = &t.LastUsed
	}
	return out
}
