package keys

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// updateKey changes what the body names. Problems: as for createKey, and
// not_found, key_revoked, invalid_status.
func (s *Service) updateKey(w http.ResponseWriter, r *http.Request) error {
	project, caller, err := s.project(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.UpdateKey](w, r)
	if err != nil {
		return err
	}
	now := s.moment()
	k, err := s.change(r, project, apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return changeKey(k, in, now) })
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "key updated", "key_id", string(k.ID()), "status", string(k.Status), "actor", caller.Username)
	return httpapi.JSON(w, http.StatusOK, s.changed(r.Context(), k, now))
}

// change changes the request's key in one transaction that also sees whether it
// is one of the project's, and whether it came before. Problems: not_found,
// already_issued and those of f.
func (s *Service) change(r *http.Request, project string, request apikey.Request, f func(apikey.Key) (apikey.Key, error)) (apikey.Key, error) {
	id, err := keyID(r)
	if err != nil {
		return apikey.Key{}, err
	}
	return s.keys.ReissueKey(r.Context(), id, request, func(k apikey.Key) (apikey.Key, error) {
		if err := belongs(k, project); err != nil {
			return apikey.Key{}, err
		}
		return f(k)
	})
}

// changeKey gives k with what the body names. A body that names nothing gives k
// as it is.
func changeKey(k apikey.Key, in wire.UpdateKey, now time.Time) (apikey.Key, error) {
	if in == (wire.UpdateKey{}) {
		return k, nil
	}
	if k.Status == apikey.Revoked {
		return apikey.Key{}, problem.Of(problem.KeyRevoked)
	}
	k.UpdatedAt = now
	for _, step := range []func(*apikey.Key, wire.UpdateKey) error{changeName, changePlanOf, changeScope, changeStatus} {
		if err := step(&k, in); err != nil {
			return apikey.Key{}, err
		}
	}
	if !in.ExpiresAt.Set {
		return k, nil
	}
	expires, err := parseExpiry(in.ExpiresAt.Value, now)
	k.ExpiresAt = expires
	return k, err
}

func changeName(k *apikey.Key, in wire.UpdateKey) error {
	setOrClear(in.Name, &k.Name)
	return apikey.CheckName(k.Name)
}

func changePlanOf(k *apikey.Key, in wire.UpdateKey) error {
	id := string(k.Plan)
	if err := set("plan", in.Plan, &id); err != nil {
		return err
	}
	if !plan.ValidID(id) {
		return problem.Of(problem.UnknownPlan)
	}
	k.Plan = plan.ID(id)
	return nil
}

func changeScope(k *apikey.Key, in wire.UpdateKey) error {
	setOrClear(in.Apps, &k.Apps)
	scope, err := apikey.Scope(k.Apps)
	k.Apps = scope
	return err
}

func changeStatus(k *apikey.Key, in wire.UpdateKey) error {
	status := string(k.Status)
	if err := set("status", in.Status, &status); err != nil {
		return err
	}
	changed, err := k.WithStatus(apikey.Status(status))
	if err != nil {
		return err
	}
	*k = changed
	return nil
}
