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

func (s *Service) getToken(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Token, error) {
	t, err := s.tokenOf(ctx, in)
	return wireToken(t, s.now()), err
}

func (s *Service) tokenOf(ctx context.Context, in httpapi.Scope) (servicetoken.Token, error) {
	t, err := s.store.ServiceToken(ctx, servicetoken.ID(in.Param("token_id")))
	if err == nil && t.Project != in.Project.Name {
		return servicetoken.Token{}, problem.New(problem.NotFound, "The service token does not exist.")
	}
	return t, err
}

func (s *Service) createToken(ctx context.Context, in httpapi.Scope, body wire.CreateToken) (wire.IssuedToken, error) {
	now := s.storeTime()
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
		return servicetoken.Token{}, problem.FromCode(problem.InvalidRole)
	}
	expires, err := servicetoken.Expiry(in.ExpiresAt, now)
	return servicetoken.Token{Name: *in.Name, Role: role, ExpiresAt: expires, CreatedAt: now}, err
}

const maxTokenKeys = 100

// revokeToken revokes a token and lists the keys that it issued. If the keys cannot be read, the
// response has no key count.
func (s *Service) revokeToken(ctx context.Context, in httpapi.Scope, _ api.None) (wire.RevokedToken, error) {
	t, err := s.tokenOf(ctx, in)
	if err != nil {
		return wire.RevokedToken{}, err
	}
	if err := s.store.RevokeToken(ctx, in.Project.Name, t.ID); err != nil {
		return wire.RevokedToken{}, err
	}
	out := wire.RevokedToken{Keys: []wire.TokenKey{}}
	issued, err := s.store.KeysIssuedBy(ctx, t)
	if err != nil {
		s.log.WarnContext(ctx, "list keys of revoked token failed", "token_id", string(t.ID), "error", err)
		return out, nil
	}
	count := len(issued)
	out.KeyCount = &count
	for _, k := range issued[:min(count, maxTokenKeys)] {
		out.Keys = append(out.Keys, wire.TokenKey{
			NamedKey:    wire.NamedKey{KeyID: string(k.ID()), Prefix: string(k.Prefix), Name: k.Name},
			Environment: k.Environment,
		})
	}
	return out, nil
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
