package console

import (
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	environmentPath = "/projects/{project}/environments/{environment}"
	everything      = 500 // what a select offers: the API's largest page
	planKeysShown   = 10  // keys on a plan's own page, which links to the list of all of them
)

func (m routes) plans() {
	m.page(environmentPath+"/plans", listPlans)
	m.page(environmentPath+"/plans/new", func(v *visit) error { return newPlan(v, form{}) })
	m.change(environmentPath+"/plans", createPlan)
	m.page(environmentPath+"/plans/{plan}", showPlan)
	m.page(environmentPath+"/plans/{plan}/edit", editPlan)
	m.change(environmentPath+"/plans/{plan}/edit", changePlan)
	m.page(environmentPath+"/plans/{plan}/delete", func(v *visit) error { return askDeletePlan(v, form{}) })
	m.change(environmentPath+"/plans/{plan}/delete", deletePlan)
}

// planRow is a plan as pages show it.
type planRow struct {
	wire.Plan
	Path string
}

// RateText is the rate, "10 per second".
func (p planRow) RateText() string { return number(p.Rate) + " per second" }

// BurstText is the burst, "1,000".
func (p planRow) BurstText() string { return grouped(p.Burst) }

// QuotaText is the quota, "10,000 per day", or that there is none.
func (p planRow) QuotaText() string {
	if p.Quota == nil || p.QuotaPeriod == nil {
		return "None"
	}
	return grouped(*p.Quota) + " per " + *p.QuotaPeriod
}

// Limits is all of it in a line.
func (p planRow) Limits() string {
	limits := p.RateText() + ", burst " + p.BurstText()
	if p.Quota == nil {
		return limits
	}
	return limits + ", " + p.QuotaText()
}

func (v *visit) planRow(p wire.Plan) planRow {
	return planRow{Plan: p, Path: v.inEnvironment("plans", p.ID)}
}

type plansPage struct {
	Plans  []planRow
	New    string // path
	Paging paging
}

func listPlans(v *visit) error {
	list, err := v.api.PlansPage(v.ctx, v.project, v.environment, v.asked())
	if err != nil {
		return err
	}
	p := plansPage{New: v.inEnvironment("plans", "new"), Paging: v.paging(list.NextPageToken)}
	for _, one := range list.Items {
		p.Plans = append(p.Plans, v.planRow(one))
	}
	return v.show("plans", sheet{Title: "Plans", Tab: tabPlans}, p)
}

type planPage struct {
	Plan   planRow
	Keys   []keyRow // that have it, the first of them
	All    string   // path of the list of all of them
	More   bool     // there are more than shown
	Edit   string   // path
	Delete string   // path
}

func showPlan(v *visit) error {
	plan, keys, err := v.planWithKeys(planKeysShown)
	if err != nil {
		return err
	}
	return v.show("plans_plan", sheet{Title: plan.Name, Tab: tabPlans}, planPage{
		Plan: plan, Keys: keys.rows, All: keys.all, More: keys.more, Edit: plan.Path + "/edit", Delete: plan.Path + "/delete",
	})
}

// planKeys are the keys that have a plan.
type planKeys struct {
	rows []keyRow
	more bool
	all  string
}

// planWithKeys reads the visit's plan and the first of the keys that have it.
func (v *visit) planWithKeys(size int) (planRow, planKeys, error) {
	id := v.r.PathValue("plan")
	var plan wire.Plan
	var list wire.List[wire.Key]
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		plan, err = v.api.Plan(ctx, v.project, v.environment, id)
		return err
	})
	g.Go(func() (err error) {
		filter := client.KeyFilter{Environment: v.environment, Plan: id}
		list, err = v.api.KeysPage(ctx, v.project, filter, client.Page{Size: size})
		return err
	})
	if err := g.Wait(); err != nil {
		return planRow{}, planKeys{}, err
	}
	keys := planKeys{more: list.NextPageToken != "", all: v.keysPath(client.KeyFilter{Environment: v.environment, Plan: id})}
	for _, k := range list.Items {
		keys.rows = append(keys.rows, v.keyRow(k, map[string]string{plan.ID: plan.Name}))
	}
	return v.planRow(plan), keys, nil
}

// number writes a rate without an exponent: "0.01", "100000".
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
