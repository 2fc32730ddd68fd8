package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

type keysPage struct {
	Keys    []keyRow
	Mixed   bool   // of all environments
	All     string // path of the list of all environments
	Here    string // path of this list, nothing filtered
	Report  string // path of the form for keys that have leaked
	New     string // path; "" where no environment is chosen
	NoPlans bool   // the environment has no plans yet, which come first
	Paging  view.Paging

	Search            view.Input
	Status, Plan, App view.Input
	Sort              view.Input
	Form              view.Form // that found nothing
	Filtered          bool
}

// keysFilter is the filter of a list in its address.
func (r *request) keysFilter(q url.Values) client.KeyFilter {
	return client.KeyFilter{
		Environment: r.environment, Search: q.Get("search"), Status: q.Get("status"), Plan: q.Get("plan"), App: q.Get("app"),
		Sort: q.Get("sort"),
	}
}

func listKeys(r *request) error { return listKeysWith(r, view.Form{Values: r.URL.Query()}) }

// listKeysWith lists the keys that a form asks for, unless it was refused.
func listKeysWith(r *request, f view.Form) error {
	filter := r.keysFilter(f.Values)
	if f.Err != nil {
		filter = client.KeyFilter{Environment: r.environment}
	}
	var list wire.List[wire.Key]
	var plans []wire.Plan
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&list, func() (wire.List[wire.Key], error) {
		return r.api.KeysPage(ctx, r.project, filter, client.Page{Size: keyRows, Token: r.asked().Token})
	}))
	if r.environment != "" {
		g.Go(read(&plans, func() ([]wire.Plan, error) { return r.planList(ctx) }))
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p := keysPage{
		Mixed: r.environment == "", All: r.inProject("api-keys"), Report: r.inProject("api-keys", "report-leak"), Here: r.keysPath(), Form: f,
		NoPlans: r.environment != "" && len(plans) == 0, Paging: r.paging(list.NextPageToken),
		Filtered: filter != client.KeyFilter{Environment: filter.Environment, Sort: filter.Sort},
	}
	if p.Paging == (view.Paging{}) { // all there are
		seenLastFirst(list.Items)
	}
	p.filters(f, plans)
	if r.environment != "" {
		p.New = r.inEnvironment("api-keys", "new")
	}
	names := planNames(plans)
	for _, k := range list.Items {
		p.Keys = append(p.Keys, r.keyRow(k, names))
	}
	return r.show("keys", page{Status: f.Status(), Title: "API keys", Tab: tabKeys}, p)
}

// seenLastFirst sorts keys as the API does when it is asked to: for that it reads all there
// are, so a list of many pages is sorted where somebody asks for it.
func seenLastFirst(keys []wire.Key) {
	day := func(k wire.Key) string {
		if k.LastSeen == nil {
			return ""
		}
		return *k.LastSeen
	}
	slices.SortStableFunc(keys, func(a, b wire.Key) int { return cmp.Compare(day(b), day(a)) })
}

// filters makes the fields by which the list is narrowed.
func (p *keysPage) filters(f view.Form, plans []wire.Plan) {
	status, plan := []view.Option{{Label: "All statuses"}}, []view.Option{{Label: "All plans"}}
	for _, s := range wire.KeyStatuses() {
		status = append(status, view.Option{Value: s, Label: strings.ToUpper(s[:1]) + s[1:]})
	}
	for _, one := range plans {
		plan = append(plan, view.Option{Value: one.ID, Label: one.Name})
	}
	p.Search = f.Text("search", "Name, prefix or full key", "").InFilter()
	p.Status = f.Select("status", "Status", "", status).InFilter()
	p.Plan = f.Select("plan", "Plan", "", plan).InFilter()
	p.App = f.Text("app", "App", "").InFilter()
	p.Sort = f.Select("sort", "Sort by", "", []view.Option{{Label: "ID"}, {Value: wire.SortLastSeen, Label: "Last seen"}}).InFilter()
}

// keysPath is the address of the request's list of keys.
func (r *request) keysPath() string {
	if r.environment == "" {
		return r.inProject("api-keys")
	}
	return r.inEnvironment("api-keys")
}

// toKeys is for who loads the answer to a search again.
func toKeys(r *request) error { return r.redirect(r.keysPath()) }

// fullKeyStart is what every full key begins with.
const fullKeyStart = "sluice_"

// fullKeyRunes are those that full keys are made of.
const fullKeyRunes = "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// fullKeyIn finds a full key in what was pasted, with a header's name or quotes around it
// too; what only looks like one is taken for one, and goes into no address either.
func fullKeyIn(text string) (client.FullKey, bool) {
	i := strings.Index(text, fullKeyStart)
	if i < 0 {
		return "", false
	}
	foreign := func(c rune) bool { return !strings.ContainsRune(fullKeyRunes, c) }
	if end := strings.IndexFunc(text[i:], foreign); end >= 0 {
		return client.FullKey(text[i : i+end]), true
	}
	return client.FullKey(text[i:]), true
}

// searchKeys goes on to what is looked for. The form is posted, since a full key may have
// been pasted, which belongs in no address; it leads to its key, and is shown nowhere.
func searchKeys(r *request) error {
	q := url.Values{}
	for _, name := range []string{"search", "status", "plan", "app", "sort"} {
		value := strings.TrimSpace(r.PostForm.Get(name))
		if full, ok := fullKeyIn(value); ok {
			r.PostForm.Set(name, "")
			return r.findKey(full)
		}
		if value != "" {
			q.Set(name, value)
		}
	}
	return r.redirect(strings.TrimSuffix(r.keysPath()+"?"+q.Encode(), "?"))
}

// findKey goes on to the key that a full key belongs to.
func (r *request) findKey(full client.FullKey) error {
	found, err := r.api.FindKey(r.Context(), r.project, full)
	var e *client.Error
	switch {
	case err == nil:
		return r.done(r.keyRow(found.Key, nil).Path, secretNotice(found))
	case gone(err):
		return listKeysWith(r, r.invalid("search", "No key of this project has that prefix. It may belong to another project, or it was deleted 92 days after its revocation. If the key is public, report it as leaked."))
	case errors.As(err, &e) && e.Status == http.StatusBadRequest:
		return listKeysWith(r, r.invalid("search", cmp.Or(e.Message, "This is not a full key.")))
	}
	return err
}

// secretNotice says what a full key that was found is good for.
func secretNotice(f wire.FoundKey) notice {
	switch {
	case f.Secret == wire.SecretUnknown:
		return noticeSecretUnknown
	case f.Key.Status != "active":
		return noticeSecretRefused
	case f.Secret == wire.SecretPrevious:
		return noticeSecretPrevious
	}
	return noticeSecretCurrent
}
