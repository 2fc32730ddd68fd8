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

// recordRows is the number of records on a page. Records are larger than rows of other lists.
const recordRows = 25

func showProjectAudit(r *request) error { return r.showLog(r.projectLog()) }

func showInstallationAudit(r *request) error {
	return r.showLog(recordLog{
		Title: "Installation audit log", Path: at("audit"), About: auditFilterAbout,
		Lead:    "Records that belong to no project, newest first: sign-ins, users, created and deleted projects, and released hosts. Records are stored for one year and contain no secrets.",
		Example: "users/ada", actions: actionsOf(true),
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			return plain(r.api.InstallationAuditPage(r.Context(), q, p))
		},
	})
}

type logPage struct {
	recordLog

	Filter   logFilter
	Filtered bool
	Days     []recordDay
	Paging   view.Paging
}

// showLog shows a log. With an invalid filter it shows no records. It still calls the API, so that
// a user without access gets 403 instead of 422.
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
		p.Paging = r.paging(r.URL.EscapedPath(), next, len(items), nil)
		if p.Filtered {
			l.denied = nil
		}
		if p.Days, err = r.days(l, items, p.Paging); err != nil {
			return err
		}
	}
	return r.show("audit", page{Status: f.Form.Status(), Title: l.Title, Tab: l.tab}, p)
}

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

// logFilter is the filter form of a log. The form uses GET, so that a filtered log has its own URL.
type logFilter struct {
	Form    view.Form
	example string
	actions []view.Option // nil if the log has no filter by action and resource
}

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

// filter reads the filter of a query. From and To are UTC days; both are included.
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
		q.To = q.To.Add(24*time.Hour - time.Microsecond)
	}
	return f, q
}

// actionOptions returns the options of the action filter. It adds an unknown requested action, so
// that the form shows the active filter.
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
