package console

import (
	"math"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/wire"
)

// planFields says which field of a plan's form a code is about.
func planFields() map[string]string {
	return map[string]string{
		"invalid_name": "name", "already_exists": "name", "invalid_text": "name",
		"invalid_rate": "rate", "invalid_burst": "burst", "invalid_quota": "quota",
	}
}

func planInputs(f form) []input {
	return []input{
		f.Text("name", "Name", "1 to 63 characters.").Need().Like("Starter"),
		f.Text("rate", "Rate", "Requests per second of each key, 0.01 to 100000. It holds per checker replica.").Need().Like("10"),
		f.Text("burst", "Burst", "Requests that a key may make at once, 1 to 1000000.").Need().Like("20"),
		f.Text("quota", "Quota", "Requests that a key may make per period, if that shall be limited.").Like("10000"),
		f.Select("quota_period", "Quota period", "UTC calendar days, weeks from Monday, or months.", []option{
			{Value: "", Label: "No quota"}, {Value: "day", Label: "Day"}, {Value: "week", Label: "Week"}, {Value: "month", Label: "Month"},
		}),
	}
}

func newPlan(v *visit, f form) error {
	return v.ask(tabPlans, simple{
		Title: "New plan", Lead: "A plan limits each of its keys on its own. Its id is made of its name and stays.",
		Action: v.inEnvironment("plans"), Button: "Create plan", Back: v.inEnvironment("plans"), Inputs: planInputs(f), Form: f,
	})
}

func createPlan(v *visit) error {
	typed, wrong := v.typedPlan()
	if wrong != nil {
		return newPlan(v, *wrong)
	}
	p, err := v.api.CreatePlan(v.ctx, v.project, v.environment, wire.CreatePlan{
		Name: &typed.name, Rate: &typed.rate, Burst: &typed.burst, Quota: typed.quota, QuotaPeriod: typed.period,
	})
	if err != nil {
		f, ok := v.refused(err, planFields())
		if !ok {
			return err
		}
		if f.Refusal.Code == "already_exists" { // of the id, which two names can make
			f.Refusal.Message = "There is a plan of this name already, or of one that makes the same id."
		}
		return newPlan(v, f)
	}
	return v.done(v.inEnvironment("plans", p.ID), noticePlanCreated)
}

// typedPlan is a plan's form, read.
type typedPlan struct {
	name   string
	rate   float64
	burst  int64
	quota  *int64
	period *string
}

// typedPlan reads the form's numbers. Their ranges are the API's to check.
func (v *visit) typedPlan() (p typedPlan, wrong *form) {
	refuse := func(field, message string) (typedPlan, *form) {
		f := v.sent(field, message)
		return typedPlan{}, &f
	}
	p.name = v.typed("name")
	rate, err := strconv.ParseFloat(strings.TrimSpace(v.typed("rate")), 64)
	if err != nil || math.IsInf(rate, 0) || math.IsNaN(rate) {
		return refuse("rate", "That is no number. Write it like 10 or 0.5.")
	}
	p.rate = rate
	if p.burst, err = whole(v.typed("burst")); err != nil {
		return refuse("burst", "That is no whole number. Write it like 20.")
	}
	if text := strings.TrimSpace(v.typed("quota")); text != "" {
		n, err := whole(text)
		if err != nil {
			return refuse("quota", "That is no whole number. Write it like 10000, or leave it empty for no quota.")
		}
		p.quota = &n
	}
	if text := v.typed("quota_period"); text != "" {
		p.period = &text
	}
	switch {
	case p.quota != nil && p.period == nil:
		return refuse("quota_period", "Choose the period that the quota is for.")
	case p.quota == nil && p.period != nil:
		return refuse("quota", "Write how many requests the period may have, or choose no quota below.")
	}
	return p, nil
}

func whole(text string) (int64, error) { return strconv.ParseInt(strings.TrimSpace(text), 10, 64) }

// planValues is a plan as its form shows it.
func planValues(p wire.Plan) values {
	all := values{"name": p.Name, "rate": number(p.Rate), "burst": strconv.FormatInt(p.Burst, 10), "quota": "", "quota_period": ""}
	if p.Quota != nil && p.QuotaPeriod != nil {
		all["quota"], all["quota_period"] = strconv.FormatInt(*p.Quota, 10), *p.QuotaPeriod
	}
	return all
}

func editPlan(v *visit) error {
	p, err := v.api.Plan(v.ctx, v.project, v.environment, v.r.PathValue("plan"))
	if err != nil {
		return err
	}
	now := planValues(p)
	return askPlanChange(v, now.form(), now.based())
}

// askPlanChange shows the form for a change, again with what it was based on at
// first: who is told that somebody else was faster has to load it anew.
func askPlanChange(v *visit, f form, on []based) error {
	path := v.inEnvironment("plans", v.r.PathValue("plan"))
	return v.ask(tabPlans, simple{
		Title: "Edit plan", Lead: "A change holds for all keys of the plan within seconds. A quota that goes to another period counts what that period holds so far.",
		Action: path + "/edit", Button: "Save plan", Back: path, Based: on, Inputs: planInputs(f), Form: f,
	})
}

func changePlan(v *visit) error {
	id := v.r.PathValue("plan")
	typed, wrong := v.typedPlan()
	if wrong != nil {
		return askPlanChange(v, *wrong, v.basedOn(planValues(wire.Plan{})))
	}
	current, err := v.api.Plan(v.ctx, v.project, v.environment, id)
	if err != nil {
		return err
	}
	changed, overtaken := v.changes(planValues(current))
	if overtaken != nil {
		return askPlanChange(v, *overtaken, v.basedOn(planValues(current)))
	}
	if len(changed) > 0 {
		_, err = v.api.UpdatePlan(v.ctx, v.project, v.environment, id, typed.update(changed))
	}
	if err != nil {
		f, ok := v.refused(err, planFields())
		if !ok {
			return err
		}
		return askPlanChange(v, f, v.basedOn(planValues(current)))
	}
	return v.done(v.inEnvironment("plans", id), changed.notice(noticePlanChanged))
}

// update names the fields that change, and no others: what somebody else has changed
// meanwhile stays.
func (p typedPlan) update(changed changes) wire.UpdatePlan {
	var u wire.UpdatePlan
	if changed["name"] {
		u.Name = wire.Some(p.name)
	}
	if changed["rate"] {
		u.Rate = wire.Some(p.rate)
	}
	if changed["burst"] {
		u.Burst = wire.Some(p.burst)
	}
	if changed["quota"] || changed["quota_period"] {
		u.Quota = wire.Optional[int64]{Set: true, Value: p.quota}
		u.QuotaPeriod = wire.Optional[string]{Set: true, Value: p.period}
	}
	return u
}
