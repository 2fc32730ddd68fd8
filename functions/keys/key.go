package keys

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// expired is a status that is shown and never stored.
const expired = "expired"

// listKeysOfEnvironment lists an environment's keys.
func (s *Service) listKeysOfEnvironment(w http.ResponseWriter, r *http.Request) error {
	env, _, err := s.environment(r, app.Viewer)
	if err != nil {
		return err
	}
	return s.listKeys(w, r, env.Project, env.Name)
}

// listKeysOfProject lists a project's keys, those of one environment when
// ?environment= names it. Problems: not_found, invalid_parameter.
func (s *Service) listKeysOfProject(w http.ResponseWriter, r *http.Request) error {
	project, _, err := s.project(r, app.Viewer)
	if err != nil {
		return err
	}
	name, err := filter(r, "environment")
	if err != nil {
		return err
	}
	if name == "" {
		return s.listKeys(w, r, project, "")
	}
	env, err := s.environmentNamed(r, project, name)
	if err != nil {
		return err
	}
	return s.listKeys(w, r, project, env.Name)
}

// filter reads a parameter that narrows a list; "" does not. Problem:
// invalid_parameter.
func filter(r *http.Request, name string) (string, error) {
	values := r.URL.Query()[name]
	if len(values) > 1 {
		return "", problem.New(problem.InvalidParameter, "%s can be given once.", name)
	}
	return r.URL.Query().Get(name), nil
}

// listKeys answers with the keys of an environment, or of all with "", and only with
// those of a plan when ?plan= names it; a plan that does not exist has none.
func (s *Service) listKeys(w http.ResponseWriter, r *http.Request, project, environment string) error {
	of, err := filter(r, "plan")
	if err != nil {
		return err
	}
	page, err := readPage(r)
	if err != nil {
		return err
	}
	keys, next, err := s.keys.Keys(r.Context(), store.KeyFilter{Project: project, Environment: environment, Plan: plan.ID(of)}, page)
	if err != nil {
		return err
	}
	items, err := s.wireKeys(r.Context(), keys, s.now())
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, wire.List[wire.Key]{Items: items, NextPageToken: next})
}

// getKey reads one key.
func (s *Service) getKey(w http.ResponseWriter, r *http.Request) error {
	project, _, err := s.project(r, app.Viewer)
	if err != nil {
		return err
	}
	id, err := keyID(r)
	if err != nil {
		return err
	}
	k, err := s.keys.Key(r.Context(), id)
	if err == nil {
		err = belongs(k, project)
	}
	if err != nil {
		return err
	}
	shown, err := s.wireKeys(r.Context(), []apikey.Key{k}, s.now())
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, shown[0])
}

// keyID takes the key's id from the address. Problem: not_found.
func keyID(r *http.Request) (apikey.ID, error) {
	id := apikey.ID(r.PathValue("key_id"))
	if _, ok := id.Prefix(); !ok {
		return "", noKey()
	}
	return id, nil
}

// belongs refuses a key of another project as if it were not there.
func belongs(k apikey.Key, project string) error {
	if k.Project != project {
		return noKey()
	}
	return nil
}

func noKey() error { return problem.New(problem.NotFound, "There is no such key.") }

// wireKey gives a key as it is shown, without the day it was last seen.
func wireKey(k apikey.Key, now time.Time) wire.Key {
	out := wire.Key{
		ID: string(k.ID()), Prefix: string(k.Prefix), Project: k.Project, Environment: k.Environment,
		Plan: string(k.Plan), Name: k.Name, Apps: append([]string{}, k.Apps...), Status: string(k.Status),
		CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy,
	}
	if k.Status == apikey.Active && k.Expired(now) {
		out.Status = expired
	}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = &k.ExpiresAt
	}
	if k.HasPrevious(now) {
		out.PreviousSecretExpiresAt = &k.PreviousUntil
	}
	return out
}
