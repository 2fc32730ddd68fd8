package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// selectField is the query parameter that selects all keys of a page.
const selectField = "select"

// keyTable is a table of keys.
type keyTable struct {
	Rows       []keyRow
	Name, Seen view.Column
	Sorted     bool // the headings of Name and Seen sort the table
	Mixed      bool // keys of several environments
	Selectable bool // the form bulk has check boxes for keys that are not revoked
}

type keysPage struct {
	Keys    keyTable
	Actions []bulkAction // for selected keys
	Select  string       // path of the page with all keys selected
	All     string
	Here    string
	Bulk    string // path of changes of selected keys, with the filters of the list
	Report  string
	New     string
	NoPlans bool // the environment has no plans, which a key needs
	Paging  view.Paging

	Search            view.Input
	Status, Plan, App view.Input
	Tag, Unused       view.Input
	Sort              view.Input
	Form              view.Form
	Filtered          bool
}

func (r *request) keysFilter(q url.Values) client.KeyFilter {
	sort := cmp.Or(q.Get("sort"), wire.SortName)
	if q.Get("unused_for") != "" { // the API then sorts by last use
		sort = wire.SortLastSeen
	}
	return client.KeyFilter{
		Environment: r.environment, Search: q.Get("search"), Status: q.Get("status"), Plan: q.Get("plan"), App: q.Get("app"),
		Tag: q.Get("tag"), Unused: q.Get("unused_for"), Sort: sort,
	}
}

// listKeys shows the keys that the filter in the URL selects, or all keys with an error if the API
// rejects the filter.
func listKeys(r *request) error {
	f := view.Form{Values: r.URL.Query()}
	err := listKeysWith(r, f, r.keysFilter(f.Values))
	var e *client.Error
	if errors.As(err, &e) && e.Code == "invalid_parameter" {
		f.Err = &view.FormError{Status: e.Status, Message: e.Message}
		return listKeysWith(r, f, r.keysFilter(nil))
	}
	return err
}

func listKeysWith(r *request, f view.Form, filter client.KeyFilter) error {
	var list wire.KeyList
	var plans []wire.Plan
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&list, func() (wire.KeyList, error) {
		return r.api.KeysPage(ctx, r.project, filter, r.asked())
	}))
	if r.environment != "" {
		g.Go(read(&plans, func() ([]wire.Plan, error) { return r.planList(ctx) }))
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p := keysPage{
		All: r.inProject("api-keys"), Report: r.inProject("api-keys", "report-leak"), Here: r.keysPath(), Bulk: r.withQuery(r.inEnvironment("api-keys", "bulk")), Form: f,
		NoPlans: r.environment != "" && len(plans) == 0, Paging: r.paging(r.keysPath(), list.NextPageToken, len(list.Items), list.Total),
		Filtered: filter != client.KeyFilter{Environment: filter.Environment, Sort: filter.Sort},
	}
	p.filters(f, plans)
	if r.environment != "" {
		p.New, p.Actions, p.Select = r.inEnvironment("api-keys", "new"), bulkActions(), r.selectAll()
	}
	p.Keys = keyTable{
		Sorted: true, Mixed: r.environment == "", Selectable: r.environment != "", Rows: r.keyRows(list.Items, planNames(plans)),
		Name: r.column(p.Here, "Key", wire.SortName, filter.Sort, "ascending"), Seen: r.column(p.Here, "Last seen", wire.SortLastSeen, filter.Sort, "descending"),
	}
	for i, row := range p.Keys.Rows {
		p.Keys.Rows[i].Selected = f.Has("key", row.ID) || f.Has(selectField, "all")
	}
	return r.show("keys", page{Status: f.Status(), Title: "API keys", Tab: tabKeys}, p)
}

func (r *request) selectAll() string {
	q := r.URL.Query()
	q.Set(selectField, "all")
	return r.keysPath() + "?" + q.Encode()
}

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
	p.Tag = f.Text("tag", "Tag", "").InFilter()
	p.Unused = f.Select("unused_for", "Unused for", "", []view.Option{
		{Label: "Any time"}, {Value: "24h", Label: "1 day"}, {Value: "168h", Label: "7 days"}, {Value: "720h", Label: "30 days"}, {Value: "1440h", Label: "60 days"}, {Value: "2160h", Label: "90 days"},
	}).InFilter()
	p.Sort = f.Select("sort", "Sort by", "", []view.Option{{Label: "Name"}, {Value: wire.SortLastSeen, Label: "Last seen"}}).InFilter()
}

func (r *request) keysPath() string {
	if r.environment == "" {
		return r.inProject("api-keys")
	}
	return r.inEnvironment("api-keys")
}

func toKeys(r *request) error { return r.redirect(r.keysPath()) }

const fullKeyStart = "sluice_"

const fullKeyRunes = "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// fullKeyIn finds a full key in a pasted text, which may also contain a header name or quotes. It
// does not check whether the key is complete.
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

// searchKeys redirects to the search results, or to the key if the form contains a full key. The
// form uses POST so that a full key is never in a URL.
func searchKeys(r *request) error {
	q := url.Values{}
	for _, name := range []string{"search", "status", "plan", "app", "tag", "unused_for", "sort"} {
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

func (r *request) findKey(full client.FullKey) error {
	found, err := r.api.FindKey(r.Context(), r.project, full)
	var e *client.Error
	switch {
	case err == nil:
		return r.done(r.keyRow(found.Key, nil).Path, secretNotice(found))
	case isNotFound(err):
		return listKeysWith(r, r.invalid("search", "No key of this project has that prefix. It may belong to another project, or it was deleted 92 days after its revocation. If the key is public, report it as leaked."), r.keysFilter(nil))
	case errors.As(err, &e) && e.Status == http.StatusBadRequest:
		return listKeysWith(r, r.invalid("search", cmp.Or(e.Message, "This is not a full key.")), r.keysFilter(nil))
	}
	return err
}

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
