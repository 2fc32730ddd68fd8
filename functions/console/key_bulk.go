package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/wire"
)

// bulkAction is a change of the selected keys.
type bulkAction struct {
	Name   string // value of the button
	Icon   string // of the button in the list
	Button string
	Danger bool

	verb string // "Disable"; the number of keys follows
	done string // "disabled"; follows the number of keys
	lead string
	show func(wire.KeyState) string // the changed value
}

func bulkActions() []bulkAction {
	status := func(k wire.KeyState) string { return k.Status }
	plan := func(k wire.KeyState) string { return k.Plan }
	tags := func(k wire.KeyState) string { return strings.Join(k.Tags, " ") }
	return []bulkAction{
		{"plan", "gauge", "Change plan", false, "Change the plan of", "changed", "The new limits apply within seconds. Usage in the current period counts toward the new quota.", plan},
		{"disable", "pause", "Disable", true, "Disable", "disabled", "Requests with these keys are denied within seconds, until you enable the keys again.", status},
		{"enable", "play", "Enable", false, "Enable", "enabled", "Requests with these keys are allowed again within seconds.", status},
		{"revoke", "ban", "Revoke", true, "Revoke", "revoked", "Requests with these keys are denied permanently, within seconds. This cannot be undone.", status},
		{"tag", "plus", "Add tag", false, "Add tags to", "changed", "Tags group keys in lists. Apps do not receive them.", tags},
	}
}

// change returns the change in the form. missing is true if its value is not entered yet.
func (a bulkAction) change(form url.Values) (c wire.KeyChange, missing bool) {
	switch a.Name {
	case "plan":
		c.Plan = new(form.Get("plan"))
		return c, *c.Plan == ""
	case "disable":
		c.Status = new("disabled")
	case "enable":
		c.Status = new("active")
	case "revoke":
		c.Revoke = true
	case "tag":
		c.AddTags = strings.Fields(form.Get("add_tags"))
		return c, len(c.AddTags) == 0
	}
	return c, false
}

type bulkPage struct {
	Title   string
	Lead    string
	Changes []bulkRow
	Failed  []bulkRow
	Same    int // keys that already have the new value

	Action string // path of the POST request; "" for a result or without changes
	Button string
	Danger bool
	Hidden []view.HiddenInput
	Back   string
}

type bulkRow struct {
	Label, ID, Path string
	Now, Then       string // of a change
	Why             string // of a failure
}

// bulkForm returns the action and the selected keys. It returns no keys if the form has none or an
// unknown action.
func (r *request) bulkForm() (a bulkAction, keys []string) {
	i := slices.IndexFunc(bulkActions(), func(a bulkAction) bool { return a.Name == r.PostForm.Get("do") })
	if i < 0 {
		return a, nil
	}
	return bulkActions()[i], slices.Compact(slices.Sorted(slices.Values(r.PostForm["key"])))
}

// previewBulk shows the results of the change for the selected keys, without making it. It first
// requests the plan or the tags.
func previewBulk(r *request) error {
	a, keys := r.bulkForm()
	if len(keys) == 0 {
		return r.bulkList(r.invalid("", "Select at least one key."))
	}
	change, missing := a.change(r.PostForm)
	if missing {
		return r.askBulkValue(a, keys, view.Form{Values: r.PostForm})
	}
	would, err := r.api.BulkKeys(r.Context(), r.project, r.environment, keys, change, true)
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error { return r.bulkRefused(a, keys, f) })
	}
	p := r.bulkResults(a, would)
	p.Title, p.Lead = a.verb+" "+keyCount(would.Changed)+"?", a.lead
	if would.Changed == 0 {
		p.Title, p.Lead = "No key would change", ""
		return r.show("keys_bulk", page{Title: p.Title, Tab: tabKeys}, p)
	}
	p.Action, p.Button, p.Danger = r.withQuery(r.inEnvironment("api-keys", "bulk", "apply")), a.verb+" "+keyCount(would.Changed), a.Danger
	p.Hidden = bulkHidden(a, would.ChangedKeys())
	for _, name := range []string{"plan", "add_tags"} {
		if r.PostForm.Has(name) {
			p.Hidden = append(p.Hidden, view.HiddenInput{Name: name, Value: r.PostForm.Get(name)})
		}
	}
	return r.show("keys_bulk", page{Title: p.Title, Tab: tabKeys}, p)
}

// applyBulk makes the change that the preview has shown.
func applyBulk(r *request) error {
	a, keys := r.bulkForm()
	change, missing := a.change(r.PostForm)
	if len(keys) == 0 || missing {
		return unreadable()
	}
	did, err := r.waiting().BulkKeys(r.Context(), r.project, r.environment, keys, change, false)
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error { return r.bulkRefused(a, keys, f) })
	}
	p := r.bulkResults(a, did)
	p.Title = keyCount(did.Changed) + " " + a.done
	if did.Changed == 0 {
		p.Title = "No key " + a.done
	}
	q := page{Title: p.Title, Tab: tabKeys}
	if f := did.Force(); f != nil && f.Change != "" {
		q.Propagation = &propagation{*f, view.NewPolling(!f.Everywhere, r.inProject("changes", f.Change), *f)}
	}
	return r.show("keys_bulk", q, p)
}

// bulkRefused shows the form with the error of the API, or the list if the action has no form.
func (r *request) bulkRefused(a bulkAction, keys []string, f view.Form) error {
	if a.Name == "plan" || a.Name == "tag" {
		return r.askBulkValue(a, keys, f)
	}
	f.Err.Field = ""
	return r.bulkList(f)
}

// bulkList shows the list, with the filters in the URL and an error.
func (r *request) bulkList(f view.Form) error {
	q := r.URL.Query()
	f.Values = maps.Clone(f.Values)
	maps.Copy(f.Values, q)
	return listKeysWith(r, f, r.keysFilter(q))
}

func (r *request) askBulkValue(a bulkAction, keys []string, f view.Form) error {
	p := view.FormPage{
		Title: a.verb + " " + keyCount(len(keys)), Lead: "The next page lists the changes before they are made.",
		Action: r.withQuery(r.inEnvironment("api-keys", "bulk")), Button: "Preview", Back: r.withQuery(r.keysPath()), Hidden: bulkHidden(a, keys), Form: f,
	}
	if a.Name == "tag" {
		p.Inputs = []view.Input{f.Text("add_tags", "Tags", tagsHint).Require().Placeholder("batch")}
		return r.ask(tabKeys, p)
	}
	plans, err := r.planList(r.Context())
	if err != nil {
		return err
	}
	options := []view.Option{{Value: "", Label: "Select a plan"}}
	for _, one := range plans {
		options = append(options, view.Option{Value: one.ID, Label: one.Name + " – " + r.planRow(one).Limits()})
	}
	p.Inputs = []view.Input{f.Select("plan", "Plan", "", options).Require()}
	return r.ask(tabKeys, p)
}

func bulkHidden(a bulkAction, keys []string) []view.HiddenInput {
	all := []view.HiddenInput{{Name: "do", Value: a.Name}}
	for _, id := range keys {
		all = append(all, view.HiddenInput{Name: "key", Value: id})
	}
	return all
}

func (r *request) bulkResults(a bulkAction, of wire.BulkResult) bulkPage {
	p := bulkPage{Same: of.Unchanged, Back: r.withQuery(r.keysPath())}
	for _, k := range of.Results {
		row := bulkRow{Label: k.Name, ID: k.KeyID}
		if row.Label == "" {
			row.Label = strings.TrimPrefix(k.KeyID, "key-")
		}
		if k.Before != nil {
			row.Path = r.inEnvironment("api-keys", k.KeyID)
		}
		switch {
		case k.Outcome == wire.KeyFailed:
			row.Why = string(k.Message)
			p.Failed = append(p.Failed, row)
		case k.Outcome == wire.KeyChanged && k.Before != nil && k.After != nil:
			row.Now, row.Then = a.show(*k.Before), a.show(*k.After)
			p.Changes = append(p.Changes, row)
		}
	}
	return p
}

func keyCount(n int) string {
	if n == 1 {
		return "1 key"
	}
	return strconv.Itoa(n) + " keys"
}
