package console

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	everything    = 500 // the API's largest page
	planKeysShown = 10
)

func (r *request) planRow(p wire.Plan) view.PlanRow {
	return view.PlanRow{Plan: p, Path: r.inEnvironment("plans", p.ID)}
}

func (r *request) planList(ctx context.Context) ([]wire.Plan, error) {
	list, err := r.api.PlansPage(ctx, r.project, r.environment, client.Page{Size: everything})
	return list.Items, err
}

func planNames(plans []wire.Plan) map[string]string {
	names := map[string]string{}
	for _, p := range plans {
		names[p.ID] = p.Name
	}
	return names
}

type plansPage struct {
	Plans  []view.PlanRow
	Paging view.Paging
}

func listPlans(r *request) error {
	list, err := r.api.PlansPage(r.Context(), r.project, r.environment, r.asked())
	if err != nil {
		return err
	}
	p := plansPage{Paging: r.paging(r.URL.EscapedPath(), list.NextPageToken, len(list.Items), nil)}
	if p.Paging.First == "" && p.Paging.Next == "" { // the API sorts by ID, which keeps the first name
		slices.SortStableFunc(list.Items, func(a, b wire.Plan) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	}
	for _, one := range list.Items {
		p.Plans = append(p.Plans, r.planRow(one))
	}
	return r.show("plans", page{Title: "Plans", Tab: tabPlans}, p)
}

type planPage struct {
	Plan view.PlanRow
	Keys keyTable
	More bool
	All  string
	Form view.Form
}

func showPlan(r *request) error {
	p, err := r.readPlan(planKeysShown)
	if err != nil {
		return err
	}
	change, err := r.change()
	if err != nil {
		return err
	}
	return r.show("plans_plan", page{Title: p.Plan.Name, Tab: tabPlans, Propagation: change}, p)
}

func (r *request) readPlan(size int) (planPage, error) {
	id := r.PathValue("plan")
	filter := client.KeyFilter{Environment: r.environment, Plan: id, Sort: wire.SortName}
	var one wire.Plan
	var list wire.KeyList
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&one, func() (wire.Plan, error) { return r.api.Plan(ctx, r.project, r.environment, id) }))
	g.Go(read(&list, func() (wire.KeyList, error) {
		return r.api.KeysPage(ctx, r.project, filter, client.Page{Size: size})
	}))
	if err := g.Wait(); err != nil {
		return planPage{}, err
	}
	p := planPage{Plan: r.planRow(one), More: list.NextPageToken != "", All: r.keysPath() + "?" + url.Values{"plan": {filter.Plan}}.Encode()}
	p.Keys.Rows = r.keyRows(list.Items, map[string]string{one.ID: one.Name})
	return p, nil
}

func planInputs(f view.Form) []view.Input {
	periods := []view.Option{{Value: "", Label: "No quota"}}
	for _, p := range plan.Periods() {
		periods = append(periods, view.Option{Value: string(p), Label: strings.ToUpper(string(p[:1])) + string(p[1:])})
	}
	modes := []view.Option{
		{Value: string(plan.Soft), Label: "Soft"},
		{Value: string(plan.Hard), Label: "Hard"},
	}
	return []view.Input{
		f.Text("name", "Name", "1 to 63 characters.").Require().Placeholder("Starter"),
		f.Text("rate", "Rate", "Requests per second of each key, 0.01 to 100000. The rate applies to all checker replicas together.").
			Number(plan.MinRate, plan.MaxRate).Require().Placeholder("10"),
		f.Text("burst", "Burst", "Number of requests that a key can make at once, 1 to 1000000.").Integer(1, plan.MaxBurst).Require().Placeholder("20"),
		f.Text("quota", "Quota", "Number of requests that a key can make per period. If empty, there is no quota.").Integer(1, plan.MaxQuota).Placeholder("10000"),
		f.Select("quota_period", "Quota period", "UTC calendar days, weeks from Monday, or months.", periods),
		f.Select("quota_mode", "Quota mode", "Soft: a few requests over the quota may be allowed while checkers exchange counts. "+
			"Hard: the quota is never exceeded, but a few requests may get 503 while checkers share the rest. Applies only with a quota.", modes).Require(),
	}
}

func newPlan(r *request, f view.Form) error {
	return r.ask(tabPlans, view.FormPage{
		Title: "New plan", Lead: "A plan limits each of its keys separately. Its ID is derived from its name and does not change.",
		Action: r.inEnvironment("plans"), Button: "Create plan", Back: r.inEnvironment("plans"), Inputs: planInputs(f), Form: f,
	})
}

func createPlan(r *request) error {
	typed, wrong := r.typedPlan()
	if wrong != nil {
		return newPlan(r, *wrong)
	}
	p, err := r.waiting().CreatePlan(r.Context(), r.project, r.environment, typed)
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error {
			if f.Err.Code == "already_exists" { // two names can have the same ID
				f.Err.Message = "A plan with this name, or with a name that results in the same ID, already exists."
			}
			return newPlan(r, f)
		})
	}
	return r.followed(r.inEnvironment("plans", p.ID), noticePlanCreated, p.Force())
}

func (r *request) typedPlan() (p wire.CreatePlan, wrong *view.Form) {
	refuse := func(field, message string) {
		if wrong == nil {
			f := r.invalid(field, message)
			wrong = &f
		}
		wrong.Err.Add(field, message)
	}
	name := r.PostForm.Get("name")
	rate, err := strconv.ParseFloat(strings.TrimSpace(r.PostForm.Get("rate")), 64)
	if err != nil || math.IsInf(rate, 0) || math.IsNaN(rate) {
		refuse("rate", "Enter a number such as 10 or 0.5.")
	}
	burst, err := whole(r.PostForm.Get("burst"))
	if err != nil {
		refuse("burst", "Enter a whole number such as 20.")
	}
	p = wire.CreatePlan{Name: &name, Rate: &rate, Burst: &burst}
	if text := strings.TrimSpace(r.PostForm.Get("quota")); text != "" {
		n, err := whole(text)
		if err != nil {
			refuse("quota", "Enter a whole number such as 10000, or leave the field empty for no quota.")
		}
		p.Quota = &n
	}
	if text := r.PostForm.Get("quota_period"); text != "" {
		p.QuotaPeriod = &text
	}
	if text := r.PostForm.Get("quota_mode"); text != "" && p.Quota != nil {
		p.QuotaMode = &text
	}
	switch {
	case p.Quota != nil && p.QuotaPeriod == nil:
		refuse("quota_period", "Select the period of the quota.")
	case p.Quota == nil && p.QuotaPeriod != nil:
		refuse("quota", "Enter a quota, or select “No quota” as the quota period.")
	}
	return p, wrong
}

func whole(text string) (int64, error) { return strconv.ParseInt(strings.TrimSpace(text), 10, 64) }

func planValues(p wire.Plan) view.Fields {
	all := view.Fields{"name": p.Name, "rate": view.Decimal(p.Rate), "burst": strconv.FormatInt(p.Burst, 10), "quota": "", "quota_period": "", "quota_mode": view.QuotaMode(p)}
	if p.Quota != nil && p.QuotaPeriod != nil {
		all["quota"], all["quota_period"] = strconv.FormatInt(*p.Quota, 10), *p.QuotaPeriod
	}
	return all
}

func editPlan(r *request) error {
	p, err := r.api.Plan(r.Context(), r.project, r.environment, r.PathValue("plan"))
	if err != nil {
		return err
	}
	return askPlanChange(r, planValues(p).Form())
}

func askPlanChange(r *request, f view.Form) error { return askPlanChangeWith(r, f, nil) }

// askPlanChangeWith shows the form, with a preview unless forecast is nil.
func askPlanChangeWith(r *request, f view.Form, forecast *wire.PlanForecast) error {
	path := r.inEnvironment("plans", r.PathValue("plan"))
	return r.ask(tabPlans, view.FormPage{
		Title: "Edit plan", Action: path + "/edit", Button: "Save plan", Back: path, Inputs: planInputs(f), Form: f,
		Preview: path + "/edit/preview", Forecast: forecast,
		Lead: "Changes apply to all keys of the plan within seconds. With another quota period, earlier requests in that period count.",
	})
}

// typedChange returns the change of the plan that the user has typed, or the form to show again. The
// change contains only changed fields, so that concurrent changes of other fields remain.
func (r *request) typedChange() (u wire.UpdatePlan, changed changes, wrong *view.Form, err error) {
	p, wrong := r.typedPlan()
	if wrong != nil {
		return u, nil, wrong, nil
	}
	current, err := r.api.Plan(r.Context(), r.project, r.environment, r.PathValue("plan"))
	if err != nil {
		return u, nil, nil, err
	}
	now := planValues(current)
	typed := r.typed(now)
	if p.Quota == nil {
		typed["quota_mode"] = now["quota_mode"] // the mode has no effect without a quota
	}
	if changed, wrong = r.changes(now, typed); wrong != nil {
		return u, nil, wrong, nil
	}
	quota := changed["quota"] || changed["quota_period"]
	return wire.UpdatePlan{
		Name: wire.If(changed["name"], p.Name), Rate: wire.If(changed["rate"], p.Rate), Burst: wire.If(changed["burst"], p.Burst),
		Quota: wire.If(quota, p.Quota), QuotaPeriod: wire.If(quota, p.QuotaPeriod), QuotaMode: wire.If(changed["quota_mode"], p.QuotaMode),
	}, changed, nil, nil
}

func previewPlan(r *request) error {
	u, _, wrong, err := r.typedChange()
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return askPlanChange(r, *wrong)
	}
	forecast, err := r.api.ForecastPlan(r.Context(), r.project, r.environment, r.PathValue("plan"), u)
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error {
			if f.Err.Code == "" {
				f.Err.Message = "The preview is unavailable. Try again later."
			}
			return askPlanChange(r, f)
		})
	}
	return askPlanChangeWith(r, view.Form{Values: r.PostForm}, &forecast)
}

func changePlan(r *request) error {
	u, changed, wrong, err := r.typedChange()
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return askPlanChange(r, *wrong)
	}
	var made wire.Plan
	if len(changed) > 0 {
		if made, err = r.waiting().UpdatePlan(r.Context(), r.project, r.environment, r.PathValue("plan"), u); err != nil {
			return r.again(err, askPlanChange)
		}
	}
	return r.followed(r.inEnvironment("plans", r.PathValue("plan")), changed.notice(noticePlanChanged), made.Force())
}

func askDeletePlan(r *request, f view.Form) error {
	p, err := r.readPlan(pageRows)
	if err != nil {
		return err
	}
	p.Form = f
	p.Keys.Rows = slices.DeleteFunc(p.Keys.Rows, func(k keyRow) bool { return !k.Live() }) // revoked keys do not prevent it
	if len(p.Keys.Rows) > 0 || f.Status() == http.StatusConflict {
		return r.show("plans_in_use", page{Status: f.Status(), Title: "Plan in use", Tab: tabPlans}, p)
	}
	return r.confirm(tabPlans, view.Confirmation{
		Title: "Delete the plan " + p.Plan.Name + "?", Danger: true, Form: f,
		Lead:   "No keys use this plan. The deletion cannot be undone, but you can create another plan with the same name.",
		Action: p.Plan.Path + "/delete", Button: "Delete plan", Back: p.Plan.Path,
	})
}

func deletePlan(r *request) error {
	err := r.api.DeletePlan(r.Context(), r.project, r.environment, r.PathValue("plan"))
	switch {
	case isNotFound(err):
		return err
	case err != nil:
		return r.again(err, askDeletePlan)
	}
	return r.done(r.inEnvironment("plans"), noticePlanDeleted)
}
