package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// auditRows is how many records a page shows: fewer than rows of other lists, since
// each has a table of what was there before and after.
const auditRows = 25

// auditLog is what a page of records is about: a project, or the installation.
type auditLog struct {
	Title, Lead string
	Path        string // of the page, nothing filtered
	Example     string // of a resource

	tab     string
	within  string // what the names of its resources begin with; pages leave it out
	actions []audit.Action
	read    func(client.AuditQuery, client.Page) (wire.List[wire.AuditRecord], error)
}

func showProjectAudit(r *request) error {
	return r.showAudit(auditLog{
		Title: "Audit log", tab: tabAudit, Path: r.inProject("audit"),
		Lead:    "Every change in this project, the newest first. Records are kept for a year, and none holds a secret.",
		Example: "environments/prod/apps/hello",
		within:  audit.Path("projects", r.project) + "/", actions: actionsOf(false),
		read: func(q client.AuditQuery, p client.Page) (wire.List[wire.AuditRecord], error) {
			return r.api.AuditPage(r.Context(), r.project, q, p)
		},
	})
}

func showInstallationAudit(r *request) error {
	return r.showAudit(auditLog{
		Title: "Installation audit log", Path: at("audit"),
		Lead:    "What belongs to no project, the newest first: sign-ins, users, projects created and deleted. Records are kept for a year, and none holds a secret.",
		Example: "users/ada", actions: actionsOf(true),
		read: func(q client.AuditQuery, p client.Page) (wire.List[wire.AuditRecord], error) {
			return r.api.InstallationAuditPage(r.Context(), q, p)
		},
	})
}

type auditPage struct {
	auditLog

	Filter   auditFilter
	Filtered bool // there is one
	Records  []auditRow
	Paging   paging
}

// showAudit shows a log. A filter that cannot be read shows no records at all, not
// those of a part of it; the API is asked all the same, so that who may not see the
// log is told so first.
func (r *request) showAudit(l auditLog) error {
	f, q := l.filter(r.URL.Query())
	list, err := l.read(q, client.Page{Size: auditRows, Token: r.asked().Token})
	if client.HasCode(err, "invalid_window") || client.HasCode(err, "invalid_parameter") {
		f.Form, _ = r.refused(err, map[string]string{"invalid_window": "from"})
		f.Form.Typed, err = r.URL.Query(), nil
	}
	if err != nil {
		return err
	}
	p := auditPage{auditLog: l, Filter: f, Filtered: q != client.AuditQuery{} || f.Form.Refusal != nil}
	if f.Form.Refusal == nil {
		p.Paging = r.paging(list.NextPageToken)
		for _, r := range list.Items {
			row, err := l.row(r)
			if err != nil {
				return err
			}
			p.Records = append(p.Records, row)
		}
	}
	return r.show("audit", page{Status: f.Form.Status(), Title: l.Title, Tab: l.tab}, p)
}

// narrowed is the address of the log's records with one value of a filter.
func (l auditLog) narrowed(name, value string) string {
	return l.Path + "?" + url.Values{name: {value}}.Encode()
}

// short is a resource's name as the log's pages show it, e.g. "api-keys/key-ab12cd34"
// in a project's; full is the other way round, and leaves full ones alone.
func (l auditLog) short(resource string) string { return strings.TrimPrefix(resource, l.within) }

func (l auditLog) full(resource string) string {
	resource = strings.Trim(strings.TrimSpace(resource), "/")
	if resource == "" || strings.HasPrefix(resource, "projects/") {
		return resource
	}
	return l.within + resource
}

// auditRow is a record as a page shows it.
type auditRow struct {
	wire.AuditRecord

	What      string // "Revoke key"
	Outcome   badge  // none when it succeeded
	Unsettled bool   // begun, and nothing is known of its end
	Who       string // "ada", "webhook", "build 7"
	WhoNote   string // "not signed in"
	Of        string // the resource, in short

	ByActor, ByResource string // paths: the log, narrowed to the same

	Changes       []auditChange
	Before, After bool // there was something before, is something afterwards
}

// auditChange is one field of what was changed.
type auditChange struct {
	Name     string
	Old, New auditValue
}

// NameParts are the pieces of a field's name between which a line may end.
func (c auditChange) NameParts() []string { return strings.SplitAfter(c.Name, "_") }

// auditValue is a field's value.
type auditValue struct {
	Text string
	None bool // there is none; Text says so
	Cut  int  // so many characters are not shown
}

// maxValue bounds what is shown of a value, in characters: a page stays small even
// when somebody has scoped a key to a thousand apps.
const maxValue = 400

func (l auditLog) row(r wire.AuditRecord) (auditRow, error) {
	row := auditRow{
		AuditRecord: r, What: actionText(audit.Action(r.Action)), Of: l.short(r.Resource),
		ByResource: l.narrowed("resource", l.short(r.Resource)),
	}
	row.Who, row.WhoNote = whoDid(r.Actor)
	if r.Actor.Name != "" {
		row.ByActor = l.narrowed("actor", r.Actor.Name)
	}
	switch audit.Outcome(r.Outcome) {
	case audit.Succeeded:
	case audit.Failed:
		row.Outcome = badge{Text: "failed", Tone: toneBad}
	default:
		row.Outcome, row.Unsettled = badge{Text: r.Outcome, Tone: toneAmber}, true
	}
	before, err := fieldsOf(r.Old)
	if err != nil {
		return auditRow{}, fmt.Errorf("read the old values of record %s: %w", r.ID, err)
	}
	after, err := fieldsOf(r.New)
	if err != nil {
		return auditRow{}, fmt.Errorf("read the new values of record %s: %w", r.ID, err)
	}
	row.Before, row.After = before != nil, after != nil
	row.Changes = changesOf(before, after)
	return row, nil
}

// whoDid names who made a change. Who was not signed in is named only if they gave the
// name of a user.
func whoDid(a wire.AuditActor) (name, note string) {
	if trace.Kind(a.Kind) != trace.Anonymous {
		return a.Name, ""
	}
	if a.Name == "" {
		return "Somebody", "not signed in, under no user's name"
	}
	return a.Name, "not signed in"
}

// fieldsOf reads values, an object or null: then the fields are nil.
func fieldsOf(values json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(cmp.Or(string(values), "null")))
	d.UseNumber() // shown as they came
	var fields map[string]any
	err := d.Decode(&fields)
	return fields, err
}

// changesOf lists the fields of both, in the order of their names.
func changesOf(before, after map[string]any) []auditChange {
	names := map[string]bool{}
	for _, fields := range []map[string]any{before, after} {
		for name := range fields {
			names[name] = true
		}
	}
	var all []auditChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, auditChange{Name: name, Old: valueOf(before[name]), New: valueOf(after[name])})
	}
	return all
}

func valueOf(v any) auditValue {
	text := valueText(v)
	if text == "" {
		return auditValue{Text: nothingText(v), None: true}
	}
	cut := utf8.RuneCountInString(text) - maxValue
	if cut <= 0 {
		return auditValue{Text: text}
	}
	return auditValue{Text: string([]rune(text)[:maxValue]), Cut: cut}
}

// nothingText says that there is nothing, in the way of its kind.
func nothingText(v any) string {
	switch v.(type) {
	case string:
		return "empty"
	case []any, map[string]any:
		return "empty list"
	}
	return "none"
}

// valueText is a value without JSON's marks: lists with commas between, the fields of
// an object each with its name.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, valueText(item))
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := valueText(v[name]); text != "" {
				parts = append(parts, name+" "+text)
			}
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v) // texts and numbers
}

// auditFilter is the form that narrows a log: a GET, so that what it shows has an
// address.
type auditFilter struct {
	Form    form
	example string
	actions []option
}

// Fields are the form's, as they were asked for.
func (f auditFilter) Fields() []input {
	all := []input{
		f.Form.Text("actor", "Who", ""),
		f.Form.Select("action", "Action", "", f.actions),
		f.Form.Text("resource", "Resource", "").Like(f.example),
		f.Form.Text("from", "From", "").As("date"),
		f.Form.Text("to", "To", "").As("date"),
	}
	for i := range all {
		all[i].Filter = true
	}
	return all
}

// filter reads what is asked for. Days are UTC days, both included.
func (l auditLog) filter(asked url.Values) (auditFilter, client.AuditQuery) {
	f := auditFilter{Form: form{Typed: asked}, example: l.Example, actions: actionOptions(l.actions, asked.Get("action"))}
	q := client.AuditQuery{
		Actor: strings.TrimSpace(asked.Get("actor")), Action: asked.Get("action"), Resource: l.full(asked.Get("resource")),
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

// actionsOf lists the actions of projects, or of the installation.
func actionsOf(installation bool) []audit.Action {
	return slices.DeleteFunc(audit.Actions(), func(a audit.Action) bool { return a.OfInstallation() != installation })
}

// actionOptions are the choices of the filter. One that is asked for and none of them
// is a choice too: the form shows what the list is narrowed to.
func actionOptions(actions []audit.Action, asked string) []option {
	all := []option{{Label: "Any"}}
	for _, a := range actions {
		all = append(all, option{Value: string(a), Label: actionText(a)})
	}
	if asked != "" && !slices.Contains(actions, audit.Action(asked)) {
		all = append(all, option{Value: asked, Label: asked})
	}
	return all
}

// actionText says what was done, e.g. "Revoke key"; an action that the console does
// not know yet has its own name.
func actionText(a audit.Action) string {
	texts := map[audit.Action]string{
		audit.SignIn: "Sign in", audit.SignOut: "Sign out",
		audit.CreateUser: "Create user", audit.UpdateUser: "Change user", audit.ChangePassword: "Set password",
		audit.CreateProject: "Create project", audit.DeleteProject: "Delete project", audit.SetMembers: "Change members",
		audit.CreateEnvironment: "Create environment", audit.DeleteEnvironment: "Delete environment",
		audit.CreateApp: "Create app", audit.UpdateApp: "Change app", audit.DeleteApp: "Delete app",
		audit.EnableWebhook: "Enable webhook or renew its token", audit.DisableWebhook: "Disable webhook",
		audit.Deploy: "Deploy", audit.RequestBuild: "Request build",
		audit.CreatePlan: "Create plan", audit.UpdatePlan: "Change plan", audit.DeletePlan: "Delete plan",
		audit.CreateKey: "Create key", audit.UpdateKey: "Change key", audit.RotateKey: "Rotate key", audit.RevokeKey: "Revoke key",
	}
	if text, ok := texts[a]; ok {
		return text
	}
	return string(a)
}
