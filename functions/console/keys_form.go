package console

import (
	"crypto/rand"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyFields says which field of a key's form a code is about.
func keyFields() map[string]string {
	return map[string]string{
		"invalid_name": "name", "invalid_text": "name", "unknown_plan": "plan", "missing_field": "plan",
		"invalid_scope": "apps", "invalid_expiry": "expires", "expiry_in_past": "expires",
	}
}

// Every app, or some: a key without a scope opens every app, so that taking the last
// box away must not be the way to say so.
const (
	scopeAll  = "all"
	scopeSome = "some"
)

// keyForm is the page of a new key, or of one to change.
type keyForm struct {
	Title  string
	Lead   string
	Action string // path
	Button string
	Back   string // path
	Once   string // names the sending of the form, see issueOnce; "" is none
	Based  []based
	Form   form

	Name, Plan, Expires input
	Apps                []choice
	All                 bool   // every app is chosen
	AppsWrong           string // why the choice was not taken
	Others              *input // apps by name, where there are more than a page has; nil where not
	NoPlans             bool   // there is none to choose
	NewPlan             string // path
}

// choice is one box to tick.
type choice struct {
	Name   string
	Chosen bool
	Gone   bool // the app does not exist any more
}

func newKey(v *visit, f form) error {
	if f.Typed == nil {
		f = filled("scope", scopeAll, "plan", v.r.URL.Query().Get("plan"))
	}
	o, err := v.offers(func() error { return nil })
	if err != nil {
		return err
	}
	return v.askKey(keyForm{
		Title: "New API key", Lead: "The key itself is shown once, on the next page, and never again.",
		Action: v.inEnvironment("api-keys"), Button: "Create key", Back: v.inEnvironment("api-keys"), Once: rand.Text(), Form: f,
	}, o, nil)
}

// offered is what a key's form has to choose from.
type offered struct {
	plans []wire.Plan
	apps  wire.List[wire.App]
}

// offers reads it. What else the page needs is read at the same time by also.
func (v *visit) offers(also func() error) (offered, error) {
	var o offered
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		o.plans, err = v.planList(ctx)
		return err
	})
	g.Go(func() (err error) {
		o.apps, err = v.api.AppsPage(ctx, v.project, v.environment, client.Page{Size: pageRows})
		return err
	})
	g.Go(also)
	err := g.Wait()
	return o, err
}

// askKey shows a key's form. had are the apps that the key has now, which may be gone.
func (v *visit) askKey(p keyForm, o offered, had []string) error {
	f := p.Form
	options := []option{{Value: "", Label: "Choose a plan"}}
	for _, one := range o.plans {
		options = append(options, option{Value: one.ID, Label: one.Name + " – " + v.planRow(one).Limits()})
	}
	p.Name = f.Text("name", "Name", "Who uses the key. The app is told it with every request, in X-Service-Key-Name.").Like("Checkout team")
	p.Plan = f.Select("plan", "Plan", "", options).Need()
	p.Expires = f.Text("expires", "Last day", "The key is valid through the end of this day, UTC. Without one it never expires.").As("date")
	p.All, p.AppsWrong = f.Value("scope") != scopeSome, f.Wrong("apps")
	p.NoPlans, p.NewPlan = len(o.plans) == 0, v.inEnvironment("plans", "new")
	more := o.apps.NextPageToken != ""
	p.Apps = choices(f, o.apps.Items, had, more)
	if more {
		others := f.Text("others", "Other apps, by name", "There are more apps than are listed here. Write the names of others with spaces between.")
		p.Others = &others
	}
	return v.show("keys_form", sheet{Status: f.Status(), Title: p.Title, Tab: tabKeys}, p)
}

// choices are the environment's apps, as many as a page has, and those that the key
// has besides: if there are no more pages, they are gone.
func choices(f form, apps []wire.App, had []string, more bool) []choice {
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

// typedKey is a key's form, read.
type typedKey struct {
	name, plan string
	apps       []string
	expires    *string // RFC 3339; nil never
}

func (v *visit) typedKey() (k typedKey, wrong *form) {
	k = typedKey{name: strings.TrimSpace(v.typed("name")), plan: v.typed("plan"), apps: []string{}}
	refuse := func(field, message string) (typedKey, *form) {
		f := v.sent(field, message)
		return typedKey{}, &f
	}
	if k.plan == "" {
		return refuse("plan", "Choose a plan.")
	}
	if v.typed("scope") == scopeSome {
		k.apps = append(strings.Fields(v.typed("others")), v.r.PostForm["apps"]...)
		slices.Sort(k.apps)
		k.apps = slices.Compact(k.apps)
		if len(k.apps) == 0 {
			return refuse("apps", "Choose at least one app, or every app.")
		}
	}
	if date := v.typed("expires"); date != "" {
		at := expiryFor(date)
		k.expires = &at
	}
	return k, nil
}
