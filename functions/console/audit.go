package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// recordRows is how many records a page shows: fewer than rows of other lists, since
// each has a table of what was there before and after.
const recordRows = 25

func showProjectAudit(r *request) error { return r.showLog(r.projectLog()) }

func showInstallationAudit(r *request) error {
	return r.showLog(recordLog{
		Title: "Installation audit log", Path: at("audit"), About: auditFilterAbout,
		Lead:    "Records that belong to no project, newest first: sign-ins, users, and created or deleted projects. Records are stored for one year and contain no secrets.",
		Example: "users/ada", actions: actionsOf(true),
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			return plain(r.api.InstallationAuditPage(r.Context(), q, p))
		},
	})
}

type logPage struct {
	recordLog

	Filter   logFilter
	Filtered bool // there is one
	Days     []recordDay
	Paging   view.Paging
}

// showLog shows a log. A filter that cannot be read shows no records at all, not
// those of a part of it; the API is asked all the same, so that who may not see the
// log is told so first.
func (r *request) showLog(l recordLog) error {
	f, q := l.filter(r.URL.Query())
	items, next, err := l.read(q, client.Page{Size: recordRows, Token: r.asked().Token})
	if client.HasCode(err, "invalid_window") || client.HasCode(err, "invalid_parameter") {
		f.Form, _ = r.refused(err)
		if f.Form.Err.Code == "invalid_window" {
			f.Form.Err.Field = "from"
		}
		f.Form.Values, err = r.URL.Query(), nil
	}
	if err != nil {
		return err
	}
	p := logPage{recordLog: l, Filter: f, Filtered: q != client.AuditQuery{} || f.Form.Err != nil}
	if f.Form.Err == nil {
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
func (r *request) days(l recordLog, items []wire.Activity, at view.Paging) ([]recordDay, error) {
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

// logFilter is the form that narrows a log: a GET, so that what it shows has an
// address.
type logFilter struct {
	Form    view.Form
	example string
	actions []view.Option // nil where it is not by action and resource
}

// Fields are the form's, as they were asked for.
func (f logFilter) Fields() []view.Input {
	all := []view.Input{f.Form.Text("actor", "Actor", "")}
	if f.actions != nil {
		all = append(all, f.Form.Select("action", "Action", "", f.actions), f.Form.Text("resource", "Resource", "").Placeholder(f.example))
	}
	all = append(all, f.Form.Text("from", "From", "").WithType("date"), f.Form.Text("to", "To", "").WithType("date"))
	for i := range all {
		all[i].Filter = true
	}
	return all
}

// filter reads what is asked for. Days are UTC days, both included.
func (l recordLog) filter(asked url.Values) (logFilter, client.AuditQuery) {
	f := logFilter{Form: view.Form{Values: asked}, example: l.Example}
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
			f.Form.Err = &view.FormError{Status: http.StatusUnprocessableEntity, Field: name, Message: "Enter a date such as 2026-03-14."}
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

// actionOptions are the choices of the filter. One that is asked for and none of them
// is a choice too: the form shows what the list is narrowed to.
func actionOptions(actions []audit.Action, asked string) []view.Option {
	all := []view.Option{{Label: "Any"}}
	for _, a := range actions {
		all = append(all, view.Option{Value: string(a), Label: wordsOf(a).name})
	}
	if asked != "" && !slices.Contains(actions, audit.Action(asked)) {
		all = append(all, view.Option{Value: asked, Label: asked})
	}
	return all
}
