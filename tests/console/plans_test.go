package console

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s site) plan(id string) wire.Plan {
	s.T.Helper()
	p, err := s.Client.Plan(s.T.Context(), s.Project, s.Env, id)
	must(s.T, err)
	return p
}

func TestPlanLife(t *testing.T) {
	t.Parallel()
	adminInEach(t, everyWindow(), func(s site, v *visitor) {
		v.opens(s.page("plans")).sees("No plans")
		v.shot("plans-empty")
		v.clicks("Create plan")
		v.types("Name", "Gold")
		v.unchecked()
		v.submits("Create plan", "Rate", "fast", "Burst", "200").sees("Enter a number such as 10 or 0.5.")
		v.unchecked()
		v.submits("Create plan", "Rate", "1000000").sees("rate must be between 0.01 and 100000 requests per second.")
		v.shot("plans-refused")
		v.submits("Create plan", "Rate", "100", "Quota", "10000").sees("Select the period of the quota.")
		v.chooses("Quota period", "Month")
		v.clicks("Create plan").sees("Plan created.", "10,000 per month")
		v.shot("plans-plan")

		v.clicks("Edit plan")
		v.types("Rate", "0.5", "Quota", "")
		v.chooses("Quota period", "No quota")
		v.shot("plans-edit")
		v.clicks("Save plan").sees("Plan saved.")
		want := wire.Plan{ID: "plan-gold", Name: "Gold", Rate: 0.5, Burst: 200}
		if diff := cmp.Diff(want, s.plan("plan-gold")); diff != "" {
			v.t.Errorf("plan (-want +got):\n%s", diff)
		}

		v.clicks("Plans").sees("0.5 per second")
		v.shot("plans")
		v.clicks("Create plan")
		v.submits("Create plan", "Name", "gold", "Rate", "1", "Burst", "1").sees("A plan with this name, or with a name that results in the same ID, already exists.")
		v.clicks("Cancel")

		v.clicks("Gold", "Delete plan").sees("Delete the plan Gold?")
		v.shot("plans-delete")
		v.clicks("Delete plan").sees("Plan deleted.", "No plans")
	})
}

func TestPlanInUse(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		plan := s.starter()
		using := s.named(plan, "Checkout team")
		s.Revoke(s.named(plan, "Long gone"))
		v.opens(s.page("plans", plan.ID, "delete")).sees("Plan Starter in use", "Checkout team")
		v.seesNo("Long gone")
		v.shot("plans-in-use")
		v.offersNone("Delete plan")
		v.clicks("Checkout team", "Revoke key", "Revoke key")
		v.opens(s.page("plans", plan.ID, "delete"))

		// Another user assigns the plan to a key while the dialog is open.
		other := s.named(plan, "Just now")
		v.clicks("Delete plan").sees("Keys still use this plan. Revoke them or give them another plan first.", "Just now")
		s.plan(plan.ID)
		s.Revoke(other)
		v.opens(s.page("plans", plan.ID, "delete"))
		v.clicks("Delete plan").sees("Plan deleted.")
		if _, err := s.Client.Plan(v.t.Context(), s.Project, s.Env, plan.ID); !client.HasCode(err, "not_found") {
			v.t.Errorf("got %v, want not_found", err)
		}
		v.opens(s.page("api-keys", using.ID)).sees("Deleted")
	})
}

func TestPlanPreview(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		plan := s.starter()
		s.named(plan, "Checkout team")
		v.opens(s.page("plans", plan.ID, "edit"))
		v.types("Quota", "5")
		v.chooses("Quota period", "Week")
		v.clicks("Preview").sees("Nothing is saved yet.", "0 of 1 keys used more than this quota in at least one week.")
		v.shot("plans-preview")
		if p := s.plan(plan.ID); p.Quota != nil {
			v.t.Errorf("quota after a preview: got %d, want none", *p.Quota)
		}
		v.clicks("Save plan").sees("Plan saved.", "5 per week")
	})
}

func TestPlanEditedMeanwhile(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	v.opens(s.page("plans", plan.ID, "edit"))
	v.types("Rate", "5")
	_, err := s.Client.UpdatePlan(t.Context(), s.Project, s.Env, plan.ID, wire.UpdatePlan{Rate: wire.Some(7.0), Burst: wire.Some(int64(70))})
	must(t, err)
	v.clicks("Save plan").sees("Another user changed this to “7” in the meantime.")
	v.shot("plans-stale")
	v.opens(s.page("plans", plan.ID, "edit"))
	v.submits("Save plan", "Rate", "5").sees("Plan saved.")
	if p := s.plan(plan.ID); p.Rate != 5 || p.Burst != 70 {
		t.Errorf("got the plan %+v", p)
	}
}
