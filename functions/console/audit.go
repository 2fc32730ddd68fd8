package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// recordRows is how many records a page shows: fewer than rows of other lists, since
// each has a table of what was there before and after.
const recordRows = 25

// recordLog is what a page of records is about: an environment, a project, or the
// installation.
type recordLog struct {
	Title, Lead string
	About       string      // the filter
	Path        string      // of the page, nothing filtered
	Kinds       []kindOfLog // of records, that can be shown alone; nil where actions are chosen
	Example     string      // of a resource

	tab     string
	within  string         // what the names of its resources begin with; the filter may leave it out
	actions []audit.Action // that it can be narrowed to
	read    func(client.AuditQuery, client.Page) ([]wire.Activity, string, error)
	denied  func() ([]wire.UsageDay, error) // how many requests were refused on the last days; nil of what has none
}

const auditFilterAbout = "Who is a username, “webhook”, or a build, such as “build 7”. A resource comes with everything below it. Days are UTC days, both ends included."

func showProjectAudit(r *request) error { return r.showLog(r.projectLog()) }

func (r *request) projectLog() recordLog {
	return recordLog{
		Title: "Audit log", tab: tabAudit, Path: r.inProject("audit"), About: auditFilterAbout,
		Lead:    "Every change in this project, the newest first. Records are kept for a year, and none holds a secret.",
		Example: "environments/prod/apps/hello",
		within:  audit.Path("projects", r.project) + "/", actions: actionsOf(false),
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			return plain(r.api.AuditPage(r.Context(), r.project, q, p))
		},
	}
}

func showInstallationAudit(r *request) error {
	return r.showLog(recordLog{
		Title: "Installation audit log", Path: at("audit"), About: auditFilterAbout,
		Lead:    "What belongs to no project, the newest first: sign-ins, users, projects created and deleted. Records are kept for a year, and none holds a secret.",
		Example: "users/ada", actions: actionsOf(true),
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			return plain(r.api.InstallationAuditPage(r.Context(), q, p))
		},
	})
}

// plain are records of which is known no more than they say.
func plain(list wire.List[wire.AuditRecord], err error) ([]wire.Activity, string, error) {
	items := make([]wire.Activity, len(list.Items))
	for i, record := range list.Items {
		items[i].AuditRecord = record
	}
	return items, list.NextPageToken, err
}

type logPage struct {
	recordLog

	Filter   logFilter
	Filtered bool // there is one
	Days     []recordDay
	Paging   paging
}

// showLog shows a log. A filter that cannot be read shows no records at all, not
// those of a part of it; the API is asked all the same, so that who may not see the
// log is told so first.
func (r *request) showLog(l recordLog) error {
	f, q := l.filter(r.URL.Query())
	items, next, err := l.read(q, client.Page{Size: recordRows, Token: r.asked().Token})
	if client.HasCode(err, "invalid_window") || client.HasCode(err, "invalid_parameter") {
		f.Form, _ = r.refused(err, map[string]string{"invalid_window": "from"})
		f.Form.Typed, err = r.URL.Query(), nil
	}
	if err != nil {
		return err
	}
	p := logPage{recordLog: l, Filter: f, Filtered: q != client.AuditQuery{} || f.Form.Refusal != nil}
	if f.Form.Refusal == nil {
		p.Paging = r.paging(next)
		if p.Filtered {
			l.denied = nil
		}
		if p.Days, err = r.days(l, items, p.Paging); err != nil {
			return err
		}
	}
	return r.show("audit", page{Status: f.Form.Status(), Title: l.Title, Tab: l.tab}, p)
}

// days are the records of a page, by day.
func (r *request) days(l recordLog, items []wire.Activity, at paging) ([]recordDay, error) {
	rows, err := l.rows(r, items)
	if err != nil {
		return nil, err
	}
	days := daysOf(rows, r.s.now())
	if l.denied == nil {
		return days, nil
	}
	denied, err := l.denied()
	return withDenied(days, denied, at, r.s.now()), err
}

// rows are records as pages show them, each with the way to those that are like it.
func (l recordLog) rows(r *request, items []wire.Activity) ([]recordRow, error) {
	rows := make([]recordRow, len(items))
	for i, item := range items {
		row, err := r.recordRow(item)
		if err != nil {
			return nil, err
		}
		if l.actions != nil {
			row.ByResource = l.narrowed("resource", strings.TrimPrefix(item.Resource, l.within))
		}
		if item.Actor.Name != "" && item.Calls == 0 {
			row.ByActor = l.narrowed("actor", item.Actor.Name)
		}
		rows[i] = row
	}
	return rows, nil
}

// narrowed is the address of the log's records with one value of a filter.
func (l recordLog) narrowed(name, value string) string {
	return l.Path + "?" + url.Values{name: {value}}.Encode()
}

// full is a resource's whole name, of one that may be as a project's pages show it, e.g.
// "api-keys/key-ab12cd34".
func (l recordLog) full(resource string) string {
	resource = strings.Trim(strings.TrimSpace(resource), "/")
	if resource == "" || strings.HasPrefix(resource, "projects/") {
		return resource
	}
	return l.within + resource
}

// logFilter is the form that narrows a log: a GET, so that what it shows has an
// address.
type logFilter struct {
	Form    form
	example string
	actions []option // nil where it is not by action and resource
}

// Fields are the form's, as they were asked for.
func (f logFilter) Fields() []input {
	all := []input{f.Form.Text("actor", "Who", "")}
	if f.actions != nil {
		all = append(all, f.Form.Select("action", "Action", "", f.actions), f.Form.Text("resource", "Resource", "").Like(f.example))
	}
	all = append(all, f.Form.Text("from", "From", "").As("date"), f.Form.Text("to", "To", "").As("date"))
	for i := range all {
		all[i].Filter = true
	}
	return all
}

// filter reads what is asked for. Days are UTC days, both included.
func (l recordLog) filter(asked url.Values) (logFilter, client.AuditQuery) {
	f := logFilter{Form: form{Typed: asked}, example: l.Example}
	q := client.AuditQuery{Actor: strings.TrimSpace(asked.Get("actor"))}
	if l.actions != nil {
		f.actions = actionOptions(l.actions, asked.Get("action"))
		q.Action, q.Resource = asked.Get("action"), l.full(asked.Get("resource"))
	}
	day := func(name string) time.Time {
		text := asked.Get(name)
		if text == "" {
			return time.Time{}
		}
		at, err := time.Parse(time.DateOnly, text)
		if err != nil || at.Year() < 1970 {
			f.Form.Refusal = &refusal{Status: http.StatusUnprocessableEntity, Field: name, Message: "That is no day. Days are like 2026-03-14."}
			return time.Time{}
		}
		return at
	}
	q.From, q.To = day("from"), day("to")
	if !q.To.IsZero() {
		q.To = q.To.Add(24*time.Hour - time.Microsecond) // records count microseconds
	}
	return f, q
}

// actionsOf lists the actions that are recorded of projects, or of the installation.
func actionsOf(installation bool) []audit.Action {
	return slices.DeleteFunc(audit.Actions(), func(a audit.Action) bool { return a == audit.CallWebhook || a.OfInstallation() != installation })
}

// actionOptions are the choices of the filter. One that is asked for and none of them
// is a choice too: the form shows what the list is narrowed to.
func actionOptions(actions []audit.Action, asked string) []option {
	all := []option{{Label: "Any"}}
	for _, a := range actions {
		all = append(all, option{Value: string(a), Label: wordsOf(a).name})
	}
	if asked != "" && !slices.Contains(actions, audit.Action(asked)) {
		all = append(all, option{Value: asked, Label: asked})
	}
	return all
}
