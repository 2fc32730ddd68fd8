package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

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

func (r *request) keyRow(k wire.Key, plans map[string]string) keyRow {
	now := r.s.now()
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

func listKeys(r *request) error {
	filter := client.KeyFilter{Environment: r.environment, Plan: r.URL.Query().Get("plan")}
	var list wire.List[wire.Key]
	var plans []wire.Plan
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(func() (err error) {
		list, err = r.api.KeysPage(ctx, r.project, filter, client.Page{Size: keyRows, Token: r.asked().Token})
		return err
	})
	if r.environment != "" {
		g.Go(func() (err error) {
			plans, err = r.planList(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	names := planNames(plans)
	p := keysPage{
		Mixed: r.environment == "", All: r.keysPath(client.KeyFilter{}), Plan: filter.Plan,
		AnyPlan: r.keysPath(client.KeyFilter{Environment: r.environment}),
		NoPlans: r.environment != "" && len(plans) == 0, Paging: r.paging(list.NextPageToken),
	}
	if name, ok := names[filter.Plan]; ok {
		p.Plan = name
	}
	if r.environment != "" {
		p.New = r.inEnvironment("api-keys", "new")
	}
	for _, k := range list.Items {
		p.Keys = append(p.Keys, r.keyRow(k, names))
	}
	return r.show("keys", page{Title: "API keys", Tab: tabKeys}, p)
}

// keysPath is the address of a list of keys.
func (r *request) keysPath(f client.KeyFilter) string {
	path := r.inProject("api-keys")
	if f.Environment != "" {
		path = at("projects", r.project, "environments", f.Environment, "api-keys")
	}
	if f.Plan != "" {
		path += "?" + url.Values{"plan": {f.Plan}}.Encode()
	}
	return path
}

// planList reads the environment's plans, as many as are offered to choose from.
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

// key reads the request's key. One of another environment is not here.
func (r *request) key() (wire.Key, error) {
	k, err := r.api.Key(r.Context(), r.project, r.PathValue("key"))
	if err == nil && k.Environment != r.environment {
		err = notFound()
	}
	slices.Sort(k.Apps)
	return k, err
}

type keyPage struct {
	Key     keyRow
	Plan    planRow // of the key; its Path is "" when it is gone
	Refused string  // why the change was not made that led here
	Force   *force  // of the change that led here; nil of none
}

func showKey(r *request) error { return showKeyRefused(r, refusal{}) }

// showKeyRefused shows a key, with the reason why a change of it was not made.
func showKeyRefused(r *request, why refusal) error {
	k, err := r.key()
	if err != nil {
		return err
	}
	plan, err := r.planOf(k)
	if err != nil {
		return err
	}
	f, err := r.force(r.URL.Query().Get(changeField))
	if err != nil {
		return err
	}
	row := r.keyRow(k, map[string]string{plan.ID: plan.Name})
	return r.show("keys_key", page{Status: why.Status, Title: "API key " + row.Label, Tab: tabKeys}, keyPage{row, plan, why.Message, f})
}

// planOf reads a key's plan. A revoked key does not keep its plan from being deleted:
// then only the id is known.
func (r *request) planOf(k wire.Key) (planRow, error) {
	plan, err := r.api.Plan(r.Context(), k.Project, k.Environment, k.Plan)
	if client.HasCode(err, "not_found") {
		return planRow{Plan: wire.Plan{ID: k.Plan, Name: k.Plan}}, nil
	}
	return r.planRow(plan), err
}

// wasStatus is the hidden field that holds the status that a form was made of.
const wasStatus = wasMark + "status"

// goneBefore is why nothing is done to a key that is revoked.
func goneBefore(what string) refusal {
	return refusal{
		Status:  http.StatusConflict,
		Message: "Nothing was done: this key is revoked, which is final, so it cannot be " + what + ". Create a new key instead.",
	}
}

// movedOn is why nothing is done to a key that is no longer as the form had it.
func movedOn(k wire.Key) refusal {
	return refusal{
		Status: http.StatusConflict, Message: "Nothing was done: somebody else has changed this key meanwhile. It is " + k.Status + " now, as shown below.",
	}
}

// asShown reads the request's key for a change of its status. It is stale when it is
// no longer as the form had it.
func (r *request) asShown(what string) (k wire.Key, stale *refusal, err error) {
	if k, err = r.key(); err != nil {
		return wire.Key{}, nil, err
	}
	was := r.PostForm.Get(wasStatus)
	switch {
	case was == k.Status || was == "active" && k.Status == "expired":
		return k, nil, nil
	case k.Status == "revoked":
		why := goneBefore(what)
		return k, &why, nil
	}
	why := movedOn(k)
	return k, &why, nil
}

// changeStatus makes a change of the request's key, unless the key is no longer as the
// form had it.
func (r *request) changeStatus(what string, change func(ctx context.Context, project, key string) (wire.Key, error), n notice) error {
	k, stale, err := r.asShown(what)
	if err != nil {
		return err
	}
	if stale != nil {
		return showKeyRefused(r, *stale)
	}
	changed, err := change(r.Context(), r.project, k.ID)
	if err != nil {
		if client.HasCode(err, "key_revoked") {
			return showKeyRefused(r, goneBefore(what))
		}
		return r.again(err, nil, func(r *request, f form) error { return showKeyRefused(r, *f.Refusal) })
	}
	return r.followed(r.keyRow(k, nil).Path, n, changed.Force())
}

func disableKey(r *request) error {
	return r.changeStatus("disabled", r.waiting().DisableKey, noticeKeyDisabled)
}

func enableKey(r *request) error {
	return r.changeStatus("enabled", r.waiting().EnableKey, noticeKeyEnabled)
}

func revokeKey(r *request) error {
	return r.changeStatus("revoked", r.waiting().RevokeKey, noticeKeyRevoked)
}

func askDisableKey(r *request) error {
	return r.askStatus("disabled", func(k keyRow) confirmation {
		return confirmation{
			Title:  "Disable " + k.Label + "?",
			Lead:   "Requests with " + k.ID + " are refused within seconds, until the key is enabled again.",
			Facts:  []fact{{Name: "Status", Now: k.State.Text, Then: "Disabled"}, {Name: "Apps", Now: k.Scope, Then: k.Scope}},
			Action: k.Path + "/disable", Button: "Disable key", Danger: true,
		}
	})
}

func askRevokeKey(r *request) error {
	return r.askStatus("revoked", func(k keyRow) confirmation {
		return confirmation{
			Title: "Revoke " + k.Label + "?",
			Lead:  "Requests with " + k.ID + " are refused within seconds, for good. This cannot be undone; to stop a key for a while, disable it.",
			Points: []string{
				"Clients that use it get 401 invalid_key.",
				"Its usage can still be looked at.",
				"It can only be replaced by a new key, with another prefix.",
			},
			Facts:  []fact{{Name: "Status", Now: k.statusText(), Then: "Revoked"}, {Name: "Last seen", Now: k.Seen, Then: k.Seen}},
			Action: k.Path + "/revoke", Button: "Revoke key", Danger: true,
		}
	})
}

// statusText is the status in a word.
func (k keyRow) statusText() string {
	if k.State.Text == "" {
		return k.Expiry.Text
	}
	return k.State.Text
}

// askStatus asks before the request's key changes its status.
func (r *request) askStatus(what string, ask func(k keyRow) confirmation) error {
	k, err := r.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKeyRefused(r, goneBefore(what))
	}
	row := r.keyRow(k, nil)
	c := ask(row)
	c.Back, c.Original = row.Path, []original{{Name: wasStatus, Value: k.Status}}
	return r.confirm(tabKeys, c)
}
