package session

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) updateUser(ctx context.Context, in httpapi.Scope, body wire.UpdateUser) (wire.UpdatedUser, error) {
	state, admin := user.State(httpapi.Deref(body.State.Value)), httpapi.Deref(body.Admin.Value)
	err := problem.Join(given("state", body.State), given("admin", body.Admin))
	if err == nil && body.State.Set && !state.Valid() {
		err = problem.FromCode(problem.InvalidState)
	}
	if err != nil {
		return wire.UpdatedUser{}, err
	}
	u, err := s.store.UpdateUser(ctx, in.Param("username"), func(u user.User) (user.User, error) {
		if body.State.Set {
			u = u.WithState(state, s.now())
		}
		if body.Admin.Set {
			u.Admin = admin
		}
		return u, nil
	})
	if err != nil {
		return wire.UpdatedUser{}, err
	}
	return wire.UpdatedUser{User: wireUser(u), RemainingTokens: s.remainingTokens(ctx, u.Name)}, nil
}

// given returns a missing_field problem for null.
func given[T any](field string, o wire.Optional[T]) error {
	if o.Set {
		return httpapi.Required(field, o.Value)
	}
	return nil
}

func (s *Service) removeUser(ctx context.Context, in httpapi.Scope, _ api.None) (wire.RemainingTokens, error) {
	name := in.Param("username")
	before, err := s.tokensOf(ctx, name) // after the removal, a failure would lose the list
	if err != nil {
		return wire.RemainingTokens{}, err
	}
	if err := s.store.RemoveUser(ctx, name); err != nil {
		return wire.RemainingTokens{}, err
	}
	if after := s.remainingTokens(ctx, name); after.TokenCount != nil { // with those created in the meantime
		return after, nil
	}
	return before, nil
}

func (s *Service) endSessions(ctx context.Context, in httpapi.Scope, _ api.None) (wire.RemainingTokens, error) {
	return s.endAll(ctx, in.Param("username"))
}

func (s *Service) endAll(ctx context.Context, name string) (wire.RemainingTokens, error) {
	_, err := s.store.UpdateUser(ctx, name, func(u user.User) (user.User, error) { return u.WithoutSessions(s.now()), nil })
	if err != nil {
		return wire.RemainingTokens{}, err
	}
	return s.remainingTokens(ctx, name), nil
}

func (s *Service) endOwnSessions(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	out, err := s.endAll(r.Context(), in.Caller.Username)
	if problem.Is(err, problem.NotFound) { // removed in the meantime
		return problem.FromCode(problem.Unauthenticated)
	}
	if err != nil {
		return err
	}
	identity.ClearCookie(w)
	return httpapi.WriteJSON(w, http.StatusOK, out)
}

const maxTokens = 100 // in a response

// remainingTokens returns the result of tokensOf, or a list without a count if the tokens cannot be
// read, because the change is already saved.
func (s *Service) remainingTokens(ctx context.Context, username string) wire.RemainingTokens {
	out, err := s.tokensOf(ctx, username)
	if err != nil {
		s.log.WarnContext(ctx, "list service tokens of user failed", "username", username, "error", err)
	}
	return out
}

// tokensOf lists the valid service tokens that a user created.
func (s *Service) tokensOf(ctx context.Context, username string) (wire.RemainingTokens, error) {
	out := wire.RemainingTokens{Tokens: []wire.RemainingToken{}}
	created, err := s.store.TokensCreatedBy(ctx, username)
	if err != nil {
		return out, err
	}
	now, count := s.now(), 0
	for _, t := range created {
		if t.Status(now) != servicetoken.Active {
			continue
		}
		if count++; count <= maxTokens {
			out.Tokens = append(out.Tokens, wire.RemainingToken{
				SessionToken: wire.SessionToken{ID: string(t.ID), Name: t.Name, Project: t.Project, Role: string(t.Role)}, ExpiresAt: t.ExpiresAt,
			})
		}
	}
	out.TokenCount = &count
	return out, nil
}
