package console

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	weekDays    = 7
	latestShown = 5
	alertsShown = 8
)

type overviewPage struct {
	Usage  wire.EnvironmentUsage
	Chart  view.Chart
	Alerts []alert
	More   int
	Latest []latest
	Steps  steps
}

type alert struct {
	badge
	What string
	Why  string
	Path string // page to fix it, or ""
}

func (a alert) rank() int {
	if a.Tone == toneBad {
		return 1
	}
	return 0
}

type latest struct {
	App  string
	Path string
	wire.Deployment
}

type steps struct {
	All  []step // nil after the first allowed request
	Curl string // command for the request; "" without a gated app and a key
	Live view.Polling
}

type step struct {
	Text   string
	Done   bool
	Next   bool
	Button string
	Path   string
}

func showOverview(r *request) error {
	p, err := r.overviewPage()
	if err != nil {
		return err
	}
	return r.show("overview", page{Title: r.environment, Tab: tabOverview}, p)
}

func showSteps(r *request) error {
	p, err := r.overviewPage()
	if err != nil {
		return err
	}
	return r.follow(p.Steps.Live, "overview", "steps", p)
}

func (r *request) overviewPage() (overviewPage, error) {
	var p overviewPage
	var apps wire.List[wire.App]
	var plans wire.List[wire.Plan]
	var keys wire.KeyList
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&p.Usage, func() (wire.EnvironmentUsage, error) {
		return r.api.EnvironmentUsage(ctx, r.project, r.environment, "", "")
	}))
	g.Go(read(&apps, func() (wire.List[wire.App], error) {
		return r.api.AppsPage(ctx, r.project, r.environment, client.Page{Size: everything})
	}))
	g.Go(read(&plans, func() (wire.List[wire.Plan], error) {
		return r.api.PlansPage(ctx, r.project, r.environment, client.Page{Size: 1})
	}))
	g.Go(read(&keys, func() (wire.KeyList, error) {
		return r.api.KeysPage(ctx, r.project, client.KeyFilter{Environment: r.environment}, client.Page{Size: 1})
	}))
	if err := g.Wait(); err != nil {
		return p, err
	}
	latest, err := r.latest(apps.Items)
	if err != nil {
		return p, err
	}
	p.Latest = latest
	week := p.Usage.Days[max(len(p.Usage.Days)-weekDays, 0):]
	p.Chart = view.NewChart(week, p.Usage.Incomplete...)
	p.Alerts = slices.Concat(checkerAlerts(p.Usage.Checkers), r.appAlerts(apps.Items, latest), r.tokenAlerts(p.Usage.LeakedTokens), r.keyAlerts(p.Usage.Attention))
	slices.SortStableFunc(p.Alerts, func(a, b alert) int { return cmp.Compare(b.rank(), a.rank()) })
	p.More = max(len(p.Alerts)-alertsShown, 0)
	p.Alerts = p.Alerts[:len(p.Alerts)-p.More]
	p.Steps = r.steps(p.Usage.Totals.Allowed > 0, apps.Items, len(plans.Items) > 0, len(keys.Items) > 0)
	return p, nil
}

func (r *request) latest(apps []wire.App) ([]latest, error) {
	deployed := slices.DeleteFunc(slices.Clone(apps), func(a wire.App) bool { return a.Deployed == nil })
	slices.SortFunc(deployed, func(a, b wire.App) int {
		return cmp.Or(b.Deployed.At.Compare(a.Deployed.At), cmp.Compare(a.Name, b.Name))
	})
	deployed = deployed[:min(len(deployed), latestShown)]
	found := make([]latest, len(deployed))
	g, ctx := errgroup.WithContext(r.Context())
	for i, a := range deployed {
		g.Go(func() error {
			list, err := r.api.DeploymentsPage(ctx, r.project, r.environment, a.Name, client.Page{Size: 1})
			if err == nil && len(list.Items) > 0 {
				found[i] = latest{App: a.Name, Path: r.inEnvironment("apps", a.Name), Deployment: list.Items[0]}
			}
			if isNotFound(err) { // the app was deleted in the meantime
				err = nil
			}
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(l latest) bool { return l.App == "" }), err
}

func checkerAlerts(n wire.CheckerCounts) []alert {
	one := alert{badge: badge{toneBad, "Denying"}, What: "Checkers"}
	switch {
	case n.Proving == 0 && n.Denying == 0:
		one.Why = "No checker is running. All requests to gated apps are denied."
	case n.Proving == 0:
		one.Why = "No checker can verify that its data is current. All requests to gated apps are denied."
	case n.Denying > 0:
		one.badge = badge{toneAmber, "Denying"}
		one.Why = "Checkers that deny all requests or have stopped: " + strconv.Itoa(n.Denying) + " of " + strconv.Itoa(n.Denying+n.Proving) + "."
	default:
		return nil
	}
	return []alert{one}
}

func (r *request) appAlerts(apps []wire.App, deployed []latest) []alert {
	var all []alert
	for _, a := range apps {
		path := r.inEnvironment("apps", a.Name)
		if a.Gate.State == "pending" {
			why := cmp.Or(a.Gate.Message, "The gate is not in place yet. Until then, requests without a key may be allowed.")
			all = append(all, alert{badge{toneAmber, "Gate pending"}, a.Name, why, path})
		}
		if a.Deployed != nil && a.Deployed.Status == "failed" {
			all = append(all, alert{badge{toneBad, "Deployment failed"}, a.Name, "Revision " + strconv.FormatInt(a.Revision, 10) + " did not become ready.", r.inEnvironment("apps", a.Name, "deploys")})
		}
	}
	for _, l := range deployed {
		if l.NoDigest != "" {
			all = append(all, alert{badge{toneAmber, "No digest"}, l.App, string(l.NoDigest), l.Path})
		}
	}
	return all
}

func (r *request) keyAlerts(keys []wire.KeyAttention) []alert {
	now := r.s.now()
	exact := func(t time.Time) string { return view.NewDisplayTime(t, now).Exact }
	all := make([]alert, len(keys))
	for i, k := range keys {
		all[i] = alert{
			badge: attentionBadge(k, now), What: cmp.Or(k.Name, k.Prefix), Why: k.Why(exact),
			Path: r.inEnvironment("api-keys", k.KeyID),
		}
	}
	return all
}

func (r *request) tokenAlerts(tokens []wire.LeakedToken) []alert {
	all := make([]alert, len(tokens))
	for i, t := range tokens {
		all[i] = alert{
			badge: badge{Tone: toneBad, Text: "Service token leaked"}, What: t.Name, Path: r.inProject("members"),
			Why: "Revoked after a report by " + t.By + " at " + view.NewDisplayTime(t.At, r.s.now()).Exact + ". Create another token for its program. The audit log lists the changes made with it.",
		}
	}
	return all
}

func (r *request) steps(used bool, apps []wire.App, planned, issued bool) steps {
	if used {
		return steps{}
	}
	gated := slices.IndexFunc(apps, func(a wire.App) bool { return a.RequireAPIKey })
	s := steps{All: []step{
		{Text: "Create an app", Done: len(apps) > 0, Button: "Create app", Path: r.inEnvironment("new-app")},
		{Text: "Turn on Require API key", Done: gated >= 0},
		{Text: "Create a plan", Done: planned, Button: "Create plan", Path: r.inEnvironment("plans", "new")},
		{Text: "Create an API key", Done: issued, Button: "Create API key", Path: r.inEnvironment("api-keys", "new")},
		{Text: "Send the first request"},
	}}
	if len(apps) > 0 {
		s.All[1].Button, s.All[1].Path = "Show app", r.inEnvironment("apps", apps[0].Name)
	}
	for i := range s.All {
		if !s.All[i].Done {
			s.All[i].Next = true
			break
		}
	}
	if gated >= 0 && issued {
		s.Curl = callWithKey(apps[gated])
	}
	s.Live = view.NewPolling(s.All[4].Next, r.inEnvironment("steps"), s.All)
	return s
}
