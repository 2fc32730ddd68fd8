package console

import "net/http"

// planInUse is shown instead of a confirmation when keys still have the plan.
type planInUse struct {
	Plan planRow
	Keys []keyRow
	All  string // path of the list of all of them
	Form form
}

// askDeletePlan asks before a plan is deleted, or says which keys are in the way.
func askDeletePlan(v *visit, f form) error {
	plan, keys, err := v.planWithKeys(keyRows)
	if err != nil {
		return err
	}
	title := "Delete the plan " + plan.Name + "?"
	var using []keyRow
	for _, k := range keys.rows {
		if k.Status != "revoked" { // those no longer need it
			using = append(using, k)
		}
	}
	if len(using) > 0 || f.Status() == http.StatusConflict {
		return v.show("plans_in_use", sheet{Status: f.Status(), Title: "This plan is in use", Tab: tabPlans}, planInUse{
			Plan: plan, Keys: using, All: keys.all, Form: f,
		})
	}
	return v.confirm(tabPlans, confirmation{
		Title: title, Lead: "No key uses it any more. This cannot be undone; a plan of the same name can be created again.",
		Action: plan.Path + "/delete", Button: "Delete plan", Danger: true, Back: plan.Path, Form: f,
	})
}

func deletePlan(v *visit) error {
	if err := v.api.DeletePlan(v.ctx, v.project, v.environment, v.r.PathValue("plan")); err != nil {
		f, ok := v.refused(err, nil)
		if !ok || f.Refusal.Status == http.StatusNotFound {
			return err
		}
		return askDeletePlan(v, f)
	}
	return v.done(v.inEnvironment("plans"), noticePlanDeleted)
}
