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
	if err != nil {
		s.T.Fatal(err)
	}
	return p
}

// Create, edit and delete a plan, with what is refused on the way.
func TestPlanLife(t *testing.T) {
	t.Parallel()
	adminInEach(t, everyWindow(), func(s site, v *visitor) {
		v.opens(s.page("plans"))
		v.sees("No plans yet")
		v.shot("plans-empty")
		v.clicks("Create the first plan")
		v.types("Name", "Gold")
		v.unchecked()
		v.types("Rate", "fast")
		v.types("Burst", "200")
		v.clicks("Create plan")
		v.sees("That is no number.")
		v.unchecked()
		v.types("Rate", "1000000")
		v.clicks("Create plan")
		v.sees("rate is a number of requests per second, 0.01 to 100000.")
		v.shot("plans-refused")
		v.types("Rate", "100")
		v.types("Quota", "10000")
		v.clicks("Create plan")
		v.sees("Choose the period that the quota is for.")
		v.chooses("Quota period", "Month")
		v.clicks("Create plan")
		v.sees("The plan is created.")
		v.sees("10,000 per month")
		v.shot("plans-plan")

		v.clicks("Edit plan")
		v.types("Rate", "0.5")
		v.types("Quota", "")
		v.chooses("Quota period", "No quota")
		v.shot("plans-edit")
		v.clicks("Save plan")
		v.sees("The plan is saved.")
		want := wire.Plan{ID: "plan-gold", Name: "Gold", Rate: 0.5, Burst: 200}
		if diff := cmp.Diff(want, s.plan("plan-gold")); diff != "" {
			v.t.Errorf("plan (-want +got):\n%s", diff)
		}

		v.clicks("Plans")
		v.sees("0.5 per second")
		v.shot("plans")
		v.clicks("New plan")
		v.types("Name", "gold")
		v.types("Rate", "1")
		v.types("Burst", "1")
		v.clicks("Create plan")
		v.sees("There is a plan of this name already")
		v.clicks("Cancel")

		v.clicks("Gold")
		v.clicks("Delete plan")
		v.sees("Delete the plan Gold?")
		v.shot("plans-delete")
		v.clicks("Delete plan")
		v.sees("The plan is deleted.")
		v.sees("No plans yet")
	})
}

// A plan that keys use is not deleted; the page names them and leads to them.
func TestPlanInUse(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		plan := s.starter()
		using := s.named(plan, "Checkout team")
		s.Revoke(s.named(plan, "Long gone"))
		v.opens(s.page("plans", plan.ID, "delete"))
		v.sees("Starter is in use")
		v.sees("Checkout team")
		v.seesNo("Long gone")
		v.shot("plans-in-use")
		if v.offers("Delete plan") {
			v.t.Error("it can be deleted all the same")
		}
		v.clicks("Checkout team")
		v.clicks("Revoke key")
		v.clicks("Revoke key")
		v.opens(s.page("plans", plan.ID, "delete"))

		// Somebody else gives the plan to a key while the question is open.
		other := s.named(plan, "Just now")
		v.clicks("Delete plan")
		v.sees("Keys still use this plan.")
		v.sees("Just now")
		s.plan(plan.ID)
		s.Revoke(other)
		v.opens(s.page("plans", plan.ID, "delete"))
		v.clicks("Delete plan")
		v.sees("The plan is deleted.")
		if _, err := s.Client.Plan(v.t.Context(), s.Project, s.Env, plan.ID); !client.HasCode(err, "not_found") {
			v.t.Errorf("the plan: %v", err)
		}
		v.opens(s.page("api-keys", using.ID))
		v.sees("deleted") // the plan of a revoked key may be gone
	})
}

// Two operators edit a plan at once.
func TestPlanEditedMeanwhile(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	v.opens(s.page("plans", plan.ID, "edit"))
	v.types("Rate", "5")
	if _, err := s.Client.UpdatePlan(t.Context(), s.Project, s.Env, plan.ID, wire.UpdatePlan{Rate: wire.Some(7.0), Burst: wire.Some(int64(70))}); err != nil {
		t.Fatal(err)
	}
	v.clicks("Save plan")
	v.sees("Somebody else has changed this meanwhile to “7”.")
	v.shot("plans-stale")
	v.opens(s.page("plans", plan.ID, "edit"))
	v.types("Rate", "5")
	v.clicks("Save plan")
	v.sees("The plan is saved.")
	if p := s.plan(plan.ID); p.Rate != 5 || p.Burst != 70 {
		t.Errorf("the plan is %+v", p)
	}
}
