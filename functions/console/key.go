package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyRows is how many keys a page shows: fewer than of other lists, since each has more to
// say.
const keyRows = 15

// keyRow is a key as pages show it.
type keyRow struct {
	wire.Key
	Label  string // its name, or its prefix without one
	State  badge
	Expiry badge
	Use    badge     // that its quota is nearly used up, or that it comes too fast
	Quota  *quotaUse // nil without one
	Week   []series  // of a small chart
	Plan   string    // the plan's name
	Scope  string    // "Every app", "No app", or their names
	Until  string    // "14 March 2026", "Never"
	Seen   string    // "14 March 2026", "Never"
	Path   string
	Leaked *leakNote // nil of a key that has not
}

// Live tells whether the key can still be changed.
func (k keyRow) Live() bool { return k.Status != "revoked" }

// Rotates tells whether the key can get a new secret.
func (k keyRow) Rotates() bool { return k.Live() && k.Expiry.Tone != toneBad }

// SeenText says when it was last seen, within a sentence.
func (k keyRow) SeenText() string {
	switch {
	case k.LastSeen == nil:
		return "never seen"
	case k.Seen == "Today" || k.Seen == "Yesterday":
		return "last seen " + strings.ToLower(k.Seen)
	}
	return "last seen " + k.Seen
}

// WeekText says what the small chart shows.
func (k keyRow) WeekText() string {
	if k.Usage == nil {
		return ""
	}
	c := totalsOf(k.Usage.Week)
	return "In the last seven days " + grouped(c.Allowed) + " allowed, " + grouped(c.Refused()) + " denied"
}

// everyApp reports whether a key covers every app of its environment.
func everyApp(k wire.Key) bool { return len(k.Apps) == 0 && k.Scope != scopeNone }

// scopeText names the apps of a scope that does not cover every app.
func scopeText(apps []string) string { return cmp.Or(strings.Join(apps, ", "), "No app") }

func (r *request) keyRow(k wire.Key, plans map[string]string) keyRow {
	now := r.s.now()
	row := keyRow{
		Key: k, Label: cmp.Or(k.Name, k.Prefix), State: statusBadge(k.Status), Expiry: expiryBadge(k, now), Plan: cmp.Or(plans[k.Plan], k.Plan),
		Scope: "Every app", Until: expiryText(k.ExpiresAt), Seen: "Never", Quota: quotaOf(k),
		Path: at("projects", k.Project, "environments", k.Environment, "api-keys", k.ID),
	}
	row.State, row.Use = useBadges(row, now)
	row.Leaked = leakOf(k)
	if k.Usage != nil {
		lines, step := scale(k.Usage.Week)
		row.Week = stack(k.Usage.Week, float64(lines)*step)
	}
	if !everyApp(k) {
		row.Scope = scopeText(k.Apps)
	}
	if k.LastSeen != nil {
		row.Seen = dateText(*k.LastSeen, now)
	}
	return row
}

// useBadges say that a key which is good is refused all the same, or soon will be: it is
// not green then.
func useBadges(k keyRow, now time.Time) (state, use badge) {
	if k.Leak != nil && k.Leak.Secret == wire.LeakedCurrent && k.Live() {
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.KeyLeaked}, now)
	}
	if k.Status != "active" {
		return k.State, badge{}
	}
	switch {
	case k.Quota != nil && k.Quota.Full:
		return attentionBadge(wire.KeyAttention{Reason: wire.QuotaUsedUp}, now), badge{}
	case k.Quota != nil && k.Quota.High:
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.QuotaHigh, Share: &k.Quota.Part}, now)
	case tooFast(k.Key):
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.RateExceeded}, now)
	}
	return k.State, badge{}
}

// tooFast tells whether one in ten of today's requests, or more, came too fast.
func tooFast(k wire.Key) bool {
	if k.Usage == nil || len(k.Usage.Week) == 0 {
		return false
	}
	today := k.Usage.Week[len(k.Usage.Week)-1].UsageTotals
	return today.RateDenied > 0 && float64(today.RateDenied) >= wire.LateShare*all(today)
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
	Usage   usageCard
	History []recordRow // the newest changes; none for who may not see the audit log
	Log     string      // path of all of them
	Refused string      // why the change was not made that led here
	Force   *force      // of the change that led here; nil of none
}

// historyShown is how many changes of a key its page lists.
const historyShown = 5

func showKey(r *request) error { return showKeyRefused(r, refusal{}) }

// showKeyRefused shows a key, with the reason why a change of it was not made.
func showKeyRefused(r *request, why refusal) error {
	p := keyPage{Refused: why.Message}
	var k wire.Key
	var g errgroup.Group
	g.Go(func() (err error) {
		if k, err = r.key(); err == nil {
			p.Plan, err = r.planOf(k)
		}
		return err
	})
	g.Go(read(&p.Usage, r.usage))
	g.Go(func() (err error) {
		p.Force, err = r.force(r.URL.Query().Get(changeField))
		return err
	})
	g.Go(func() error { return r.history(&p) })
	if err := g.Wait(); err != nil {
		return err
	}
	if p.Usage.lastSeen != nil {
		k.LastSeen = p.Usage.lastSeen
	}
	p.Key = r.keyRow(k, map[string]string{p.Plan.ID: p.Plan.Name})
	return r.show("keys_key", page{Status: max(why.Status, p.Usage.Form.Status()), Title: "API key " + p.Key.Label, Tab: tabKeys}, p)
}

// history reads the last changes of the request's key, for who may see them.
func (r *request) history(p *keyPage) error {
	if f, err := r.frame(); err != nil || !f.Can("owner") {
		return err
	}
	l := r.projectLog()
	resource := "api-keys/" + r.PathValue("key")
	p.Log = l.narrowed("resource", resource)
	items, _, err := l.read(client.AuditQuery{Resource: l.full(resource)}, client.Page{Size: historyShown})
	if err == nil {
		p.History, err = l.rows(r, items)
	}
	return err
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
