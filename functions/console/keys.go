package console

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) keys() {
	const one = environmentPath + "/api-keys/{key}"
	m.page("/projects/{project}/api-keys", listKeys)
	m.page(environmentPath+"/api-keys", listKeys)
	m.page(environmentPath+"/api-keys/new", func(v *visit) error { return newKey(v, form{}) })
	m.change(environmentPath+"/api-keys", createKey)
	m.page(one, func(v *visit) error { return showKey(v, refusal{}) })
	m.page(one+"/usage", showUsage)
	m.page(one+"/edit", editKey)
	m.change(one+"/edit", changeKey)
	m.page(one+"/disable", askDisableKey)
	m.change(one+"/disable", disableKey)
	m.change(one+"/enable", enableKey)
	m.page(one+"/revoke", askRevokeKey)
	m.change(one+"/revoke", revokeKey)
	m.page(one+"/rotate", func(v *visit) error { return askRotate(v, form{}) })
	m.change(one+"/rotate", rotateKey)
}

// keyRows is how many keys a page shows: fewer than of other lists, since the API
// looks up for each when it was last seen.
const keyRows = 25

// keyRow is a key as pages show it.
type keyRow struct {
	wire.Key
	Label  string // its name, or its prefix without one
	State  badge
	Expiry badge
	Plan   string // the plan's name
	Scope  string // "Every app", or their names
	Until  string // "14 March 2026", "Never"
	Seen   string // "14 March 2026", "Never"
	Path   string
}

// Live tells whether the key can still be changed.
func (k keyRow) Live() bool { return k.Status != "revoked" }

// Rotates tells whether the key can get a new secret.
func (k keyRow) Rotates() bool { return k.Live() && k.Expiry.Tone != toneBad }

func (v *visit) keyRow(k wire.Key, plans map[string]string) keyRow {
	now := v.s.now()
	row := keyRow{
		Key: k, Label: k.Name, State: statusBadge(k.Status), Expiry: expiryBadge(k, now), Plan: plans[k.Plan],
		Scope: "Every app", Until: expiryText(k.ExpiresAt), Seen: "Never",
		Path: at("projects", k.Project, "environments", k.Environment, "api-keys", k.ID),
	}
	if row.Label == "" {
		row.Label = k.Prefix
	}
	if row.Plan == "" {
		row.Plan = k.Plan
	}
	if len(k.Apps) > 0 {
		row.Scope = strings.Join(k.Apps, ", ")
	}
	if k.LastSeen != nil {
		row.Seen = seenText(*k.LastSeen, now)
	}
	return row
}

// seenText says on which day a key was last seen, as a person would.
func seenText(date string, now time.Time) string {
	switch date {
	case now.UTC().Format(time.DateOnly):
		return "Today"
	case now.UTC().AddDate(0, 0, -1).Format(time.DateOnly):
		return "Yesterday"
	}
	return longDate(date)
}

type keysPage struct {
	Keys    []keyRow
	Mixed   bool   // of all environments
	All     string // path of the list of all environments
	New     string // path; "" where no environment is chosen
	Plan    string // name of the plan that the list is narrowed to; "" is none
	AnyPlan string // path of the list that is not
	NoPlans bool   // the environment has no plans yet, which come first
	Paging  paging
}

func listKeys(v *visit) error {
	filter := client.KeyFilter{Environment: v.environment, Plan: v.r.URL.Query().Get("plan")}
	var list wire.List[wire.Key]
	var plans []wire.Plan
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		list, err = v.api.KeysPage(ctx, v.project, filter, client.Page{Size: keyRows, Token: v.asked().Token})
		return err
	})
	if v.environment != "" {
		g.Go(func() (err error) {
			plans, err = v.planList(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	names := planNames(plans)
	p := keysPage{
		Mixed: v.environment == "", All: v.keysPath(client.KeyFilter{}), Plan: filter.Plan,
		AnyPlan: v.keysPath(client.KeyFilter{Environment: v.environment}),
		NoPlans: v.environment != "" && len(plans) == 0, Paging: v.paging(list.NextPageToken),
	}
	if name, ok := names[filter.Plan]; ok {
		p.Plan = name
	}
	if v.environment != "" {
		p.New = v.inEnvironment("api-keys", "new")
	}
	for _, k := range list.Items {
		p.Keys = append(p.Keys, v.keyRow(k, names))
	}
	return v.show("keys", sheet{Title: "API keys", Tab: tabKeys}, p)
}

// keysPath is the address of a list of keys.
func (v *visit) keysPath(f client.KeyFilter) string {
	path := v.inProject("api-keys")
	if f.Environment != "" {
		path = at("projects", v.project, "environments", f.Environment, "api-keys")
	}
	if f.Plan != "" {
		path += "?" + url.Values{"plan": {f.Plan}}.Encode()
	}
	return path
}

// planList reads the environment's plans, as many as are offered to choose from.
func (v *visit) planList(ctx context.Context) ([]wire.Plan, error) {
	list, err := v.api.PlansPage(ctx, v.project, v.environment, client.Page{Size: everything})
	return list.Items, err
}

func planNames(plans []wire.Plan) map[string]string {
	names := map[string]string{}
	for _, p := range plans {
		names[p.ID] = p.Name
	}
	return names
}

// key reads the visit's key. One of another environment is not here.
func (v *visit) key() (wire.Key, error) {
	k, err := v.api.Key(v.ctx, v.project, v.r.PathValue("key"))
	if err == nil && k.Environment != v.environment {
		err = noPage()
	}
	slices.Sort(k.Apps)
	return k, err
}
