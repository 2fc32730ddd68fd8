package keys

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// prefixTries is how many prefixes are drawn before giving up. With a million
// keys one draw in 2.8 million is taken, so the second one already is a rarity.
const prefixTries = 5

// createKey issues a key and answers its full key, this once. Problems:
// missing_field, unknown_plan, invalid_name, invalid_scope, invalid_expiry,
// expiry_in_past, already_issued, too_many_keys.
func (s *Service) createKey(w http.ResponseWriter, r *http.Request) error {
	env, caller, err := s.environment(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreateKey](w, r)
	if err != nil {
		return err
	}
	k, err := s.newKey(in)
	if err != nil {
		return err
	}
	request, err := s.request(r, caller, env.Project)
	if err != nil {
		return err
	}
	k.Project, k.Environment, k.Namespace, k.CreatedBy = env.Project, env.Name, env.Namespace, caller.Username
	k, full, err := s.issue(r.Context(), k, request)
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "key created", "key_id", string(k.ID()), "namespace", k.Namespace, "actor", caller.Username)
	return httpapi.JSON(w, http.StatusCreated, wire.IssuedKey{Key: wireKey(k, k.CreatedAt), FullKey: string(full)})
}

// newKey checks what a key is created from.
func (s *Service) newKey(in wire.CreateKey) (apikey.Key, error) {
	if in.Plan == nil {
		return apikey.Key{}, missing("plan")
	}
	if !plan.ValidID(*in.Plan) {
		return apikey.Key{}, problem.Of(problem.UnknownPlan)
	}
	if err := apikey.CheckName(in.Name); err != nil {
		return apikey.Key{}, err
	}
	apps, err := apikey.Scope(in.Apps)
	if err != nil {
		return apikey.Key{}, err
	}
	now := s.moment()
	expires, err := parseExpiry(in.ExpiresAt, now)
	if err != nil {
		return apikey.Key{}, err
	}
	return apikey.Key{
		Plan: plan.ID(*in.Plan), Name: in.Name, Apps: apps, Status: apikey.Active,
		ExpiresAt: expires, CreatedAt: now, UpdatedAt: now,
	}, nil
}

// issue draws prefix and secret for k and stores it, with another prefix when
// the first is taken.
func (s *Service) issue(ctx context.Context, k apikey.Key, request apikey.Request) (apikey.Key, apikey.Full, error) {
	for range prefixTries {
		prefix, err := apikey.NewPrefix(s.random)
		if err != nil {
			return apikey.Key{}, "", fmt.Errorf("draw prefix: %w", err)
		}
		full, err := apikey.NewSecret(s.random, prefix)
		if err != nil {
			return apikey.Key{}, "", fmt.Errorf("draw secret: %w", err)
		}
		k.Prefix, k.Secret = prefix, apikey.HashOf([]byte(full))
		err = s.keys.IssueKey(ctx, k, request, s.maxKeys)
		if !problem.Is(err, problem.AlreadyExists) {
			return k, full, err
		}
	}
	return apikey.Key{}, "", fmt.Errorf("none of %d prefixes drawn is free", prefixTries)
}
