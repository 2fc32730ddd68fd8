package console

import (
	"crypto/rand"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// The scopes of a key. The form requires an explicit choice, because a key without a list of apps
// covers all apps: clearing the last check box must not grant access to all apps. scopeNone is only
// for keys whose apps were deleted.
const (
	scopeAll  = "all"
	scopeSome = "some"
	scopeNone = "none"
)

// noApps represents the scope of a key that covers no app. It is not a valid app name.
const noApps = "-"

type keyForm struct {
	view.FormPage

	Name, Plan, Tags, Expires view.Input

	Apps      []choice
	All       bool
	None      bool
	HadNone   bool
	AppsWrong string
	Others    *view.Input // names of apps that are not listed; nil if all are listed
	NoPlans   bool
	NewPlan   string
}

const tagsHint = "Labels for lists and bulk changes, separated by spaces. Each has 1 to 32 characters of a-z, 0-9 and -."

type choice struct {
	Name   string
	Chosen bool
	Gone   bool
}

func newKey(r *request, f view.Form) error {
	if f.Values == nil {
		f = view.FilledForm("scope", scopeAll, "plan", r.URL.Query().Get("plan"))
	}
	o, err := r.offers()
	if err != nil {
		return err
	}
	return r.askKey(keyForm{FormPage: view.FormPage{
		Title: "New API key", Lead: "The full key is shown only once, on the next page.",
		Action: r.inEnvironment("api-keys"), Button: "Create API key", Back: r.inEnvironment("api-keys"), Form: f,
		Hidden: []view.HiddenInput{{Name: onceField, Value: rand.Text()}},
	}}, o, nil)
}

func createKey(r *request) error {
	if !r.PostForm.Has("expires_at") { // a form of an earlier release, which would create a key without expiry
		return unreadable()
	}
	typed, wrong := r.typedKey()
	if wrong != nil {
		return newKey(r, *wrong)
	}
	api, err := r.issueOnce()
	if err != nil {
		return err
	}
	k, full, err := api.CreateKey(r.Context(), r.project, r.environment, typed)
	switch {
	case client.HasCode(err, "already_issued"), client.HasCode(err, "idempotency_key_reused"):
		return r.done(r.issuedBefore(), noticeIssuedBefore)
	case err != nil:
		return r.again(err, newKey)
	}
	r.noteIssued(k.ID)
	return r.showIssued(k, full, false)
}

type offered struct {
	plans []wire.Plan
	apps  wire.List[wire.App]
}

// offers reads the options of the form, and calls the functions in also concurrently.
func (r *request) offers(also ...func() error) (offered, error) {
	var o offered
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&o.plans, func() ([]wire.Plan, error) { return r.planList(ctx) }))
	g.Go(read(&o.apps, func() (wire.List[wire.App], error) {
		return r.api.AppsPage(ctx, r.project, r.environment, client.Page{Size: pageRows})
	}))
	for _, read := range also {
		g.Go(read)
	}
	err := g.Wait()
	return o, err
}

// askKey shows a key's form. had contains the apps of the stored key, which may be deleted.
func (r *request) askKey(p keyForm, o offered, had []string) error {
	f := p.Form
	options := []view.Option{{Value: "", Label: "Select a plan"}}
	for _, one := range o.plans {
		options = append(options, view.Option{Value: one.ID, Label: one.Name + " – " + r.planRow(one).Limits()})
	}
	p.Name = f.Text("name", "Name", "The user of the key. The app receives the name in the X-Service-Key-Name header of every request.").Placeholder("Checkout team")
	p.Plan = f.Select("plan", "Plan", "", options).Require()
	p.Tags = f.Text("tags", "Tags", tagsHint)
	p.Expires = f.Text("expires_at", "Last valid day", "The key is valid through the end of this day (UTC). If empty, the key never expires.").WithType("date")
	p.None = p.HadNone && f.Value("scope") == scopeNone
	p.All, p.AppsWrong = f.Value("scope") != scopeSome && !p.None, f.Message("apps")
	p.NoPlans, p.NewPlan = len(o.plans) == 0, r.inEnvironment("plans", "new")
	more := o.apps.NextPageToken != ""
	p.Apps = choices(f, o.apps.Items, had, more)
	if more {
		others := f.Text("others", "Other apps", "Not all apps are listed. Enter the names of other apps, separated by spaces.")
		p.Others = &others
	}
	return r.show("keys_form", page{Status: f.Status(), Title: p.Title, Tab: tabKeys}, p)
}

// choices returns check boxes for apps, and for the apps in had that are not in apps. more is true
// if apps is incomplete; otherwise these apps were deleted.
func choices(f view.Form, apps []wire.App, had []string, more bool) []choice {
	var all []choice
	for _, a := range apps {
		all = append(all, choice{Name: a.Name, Chosen: f.Has("apps", a.Name)})
	}
	for _, name := range had {
		if !slices.ContainsFunc(apps, func(a wire.App) bool { return a.Name == name }) {
			all = append(all, choice{Name: name, Chosen: f.Has("apps", name), Gone: !more})
		}
	}
	return all
}

func (r *request) typedKey() (k wire.CreateKey, wrong *view.Form) {
	plan, apps := r.PostForm.Get("plan"), r.PostForm["apps"]
	r.PostForm["apps"] = apps
	k = wire.CreateKey{Name: strings.TrimSpace(r.PostForm.Get("name")), Plan: &plan, Apps: []string{}, Tags: typedTags(r.PostForm.Get("tags"))}
	refuse := func(field, message string) (wire.CreateKey, *view.Form) {
		f := r.invalid(field, message)
		return wire.CreateKey{}, &f
	}
	if plan == "" {
		return refuse("plan", "Select a plan.")
	}
	switch r.PostForm.Get("scope") {
	case scopeNone:
		k.Apps = []string{noApps}
	case scopeSome:
		k.Apps = append(strings.Fields(r.PostForm.Get("others")), apps...)
		slices.Sort(k.Apps)
		k.Apps = slices.Compact(k.Apps)
		if len(k.Apps) == 0 {
			return refuse("apps", "Select at least one app, or all apps.")
		}
	}
	if date := r.PostForm.Get("expires_at"); date != "" {
		at := expiryFor(date)
		k.ExpiresAt = &at
	}
	return k, nil
}

// typedTags returns tags in the order of the API, so that another order is not a change.
func typedTags(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }

func keyValues(k wire.Key) view.Fields {
	date, _ := lastDay(k.ExpiresAt)
	apps := k.Apps
	if k.Scope == scopeNone {
		apps = []string{noApps}
	}
	return view.Fields{"name": k.Name, "plan": k.Plan, "apps": strings.Join(apps, " "), "tags": strings.Join(k.Tags, " "), "expires_at": date}
}

func editKey(r *request) error {
	k, o, err := r.keyAndOffers()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKeyRefused(r, keyRevoked("changed"))
	}
	f := keyValues(k).Form()
	f.Values.Set("scope", scopeAll)
	switch {
	case k.Scope == scopeNone:
		f.Values.Set("scope", scopeNone)
	case len(k.Apps) > 0:
		f.Values.Set("scope", scopeSome)
		f.Values["apps"] = k.Apps
	}
	return r.askKeyChange(k, o, f)
}

func (r *request) keyAndOffers() (k wire.Key, o offered, err error) {
	o, err = r.offers(read(&k, r.key))
	return k, o, err
}

func (r *request) askKeyChange(k wire.Key, o offered, f view.Form) error {
	row := r.keyRow(k, nil)
	p := keyForm{HadNone: k.Scope == scopeNone, FormPage: view.FormPage{
		Title: "Edit " + row.Label, Action: row.Path + "/edit", Button: "Save key", Back: row.Path, Form: f,
		Lead: "The full key does not change. Changes apply within seconds.",
	}}
	if _, exact := lastDay(k.ExpiresAt); !exact {
		p.Lead += " The key expires in the middle of a day: " + row.Until + ". Select another last valid day to change that."
	}
	return r.askKey(p, o, k.Apps)
}

func changeKey(r *request) error {
	current, o, err := r.keyAndOffers()
	if err != nil {
		return err
	}
	if current.Status == "revoked" {
		return showKeyRefused(r, keyRevoked("changed"))
	}
	again := func(r *request, f view.Form) error { return r.askKeyChange(current, o, f) }
	k, wrong := r.typedKey()
	if wrong != nil {
		return again(r, *wrong)
	}
	now := keyValues(current)
	typed := r.typed(now)
	typed["apps"], typed["tags"] = strings.Join(k.Apps, " "), strings.Join(k.Tags, " ")
	changed, conflict := r.changes(now, typed)
	if conflict != nil {
		return again(r, *conflict)
	}
	var made wire.Key
	if len(changed) > 0 {
		made, err = r.waiting().UpdateKey(r.Context(), r.project, current.ID, wire.UpdateKey{
			Name: wire.If(changed["name"], &k.Name), Plan: wire.If(changed["plan"], k.Plan),
			Apps: wire.If(changed["apps"], &k.Apps), Tags: wire.If(changed["tags"], &k.Tags), ExpiresAt: wire.If(changed["expires_at"], k.ExpiresAt),
		})
	}
	switch {
	case client.HasCode(err, "key_revoked"):
		return showKeyRefused(r, keyRevoked("changed"))
	case err != nil:
		return r.again(err, again)
	}
	return r.followed(r.keyRow(current, nil).Path, changed.notice(noticeKeyChanged), made.Force())
}
