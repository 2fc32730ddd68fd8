package keys

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// listPlans lists an environment's plans.
func (s *Service) listPlans(w http.ResponseWriter, r *http.Request) error {
	env, _, err := s.environment(r, app.Viewer)
	if err != nil {
		return err
	}
	page, err := readPage(r)
	if err != nil {
		return err
	}
	plans, next, err := s.plans.Plans(r.Context(), env.Namespace, page)
	if err != nil {
		return err
	}
	list := wire.List[wire.Plan]{Items: make([]wire.Plan, len(plans)), NextPageToken: next}
	for i, p := range plans {
		list.Items[i] = wirePlan(p)
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// createPlan makes a plan; its id comes from its name. Problems: missing_field,
// invalid_name, invalid_rate, invalid_burst, invalid_quota, already_exists.
func (s *Service) createPlan(w http.ResponseWriter, r *http.Request) error {
	env, caller, err := s.environment(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreatePlan](w, r)
	if err != nil {
		return err
	}
	name, limits, err := newPlan(in)
	if err != nil {
		return err
	}
	now := s.moment()
	p := plan.Plan{ID: plan.IDFor(name), Namespace: env.Namespace, Name: name, Limits: limits, CreatedAt: now, UpdatedAt: now}
	if err := s.plans.CreatePlan(r.Context(), p); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "plan created", "plan_id", string(p.ID), "namespace", p.Namespace, "actor", caller.Username)
	return httpapi.JSON(w, http.StatusCreated, wirePlan(p))
}

// getPlan reads one plan.
func (s *Service) getPlan(w http.ResponseWriter, r *http.Request) error {
	env, _, err := s.environment(r, app.Viewer)
	if err != nil {
		return err
	}
	id, err := planID(r)
	if err != nil {
		return err
	}
	p, err := s.plans.Plan(r.Context(), env.Namespace, id)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, wirePlan(p))
}

// updatePlan changes what the body names. Problems: as for createPlan, and not_found.
func (s *Service) updatePlan(w http.ResponseWriter, r *http.Request) error {
	env, caller, err := s.environment(r, app.Developer)
	if err != nil {
		return err
	}
	id, err := planID(r)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.UpdatePlan](w, r)
	if err != nil {
		return err
	}
	now := s.moment()
	p, err := s.plans.UpdatePlan(r.Context(), env.Namespace, id, func(p plan.Plan) (plan.Plan, error) {
		return changePlan(p, in, now)
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "plan updated", "plan_id", string(id), "namespace", env.Namespace, "actor", caller.Username)
	return httpapi.JSON(w, http.StatusOK, wirePlan(p))
}

// deletePlan deletes a plan. Problems: not_found, plan_in_use.
func (s *Service) deletePlan(w http.ResponseWriter, r *http.Request) error {
	env, caller, err := s.environment(r, app.Developer)
	if err != nil {
		return err
	}
	id, err := planID(r)
	if err != nil {
		return err
	}
	if err := s.plans.DeletePlan(r.Context(), env.Namespace, id); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "plan deleted", "plan_id", string(id), "namespace", env.Namespace, "actor", caller.Username)
	return httpapi.NoContent(w)
}

// planID takes the plan's id from the address. Problem: not_found.
func planID(r *http.Request) (plan.ID, error) {
	id := r.PathValue("plan_id")
	if !plan.ValidID(id) {
		return "", problem.New(problem.NotFound, "There is no such plan.")
	}
	return plan.ID(id), nil
}

func wirePlan(p plan.Plan) wire.Plan {
	out := wire.Plan{ID: string(p.ID), Name: p.Name, Rate: p.Limits.Rate, Burst: p.Limits.Burst}
	out.Quota, out.QuotaPeriod = quotaFields(p.Limits)
	return out
}
