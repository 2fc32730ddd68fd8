package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

type recordLog struct {
	Title, Lead string
	About       string
	Path        string
	Kinds       []kindOfLog // filter by kind; nil for a log with a filter by action
	Example     string

	tab     string
	within  string // prefix of all resources, optional in the filter
	actions []audit.Action
	read    func(client.AuditQuery, client.Page) ([]wire.Activity, string, error)
	denied  func() ([]wire.UsageDay, error) // usage of the last days; nil for a log without it
}

const auditFilterAbout = "An actor is a username, a service token such as “token:nightly”, a build such as “build 7”, or “webhook”. A resource includes everything below it. Days are UTC days; the first and last day are included."

func (r *request) projectLog() recordLog {
	return recordLog{
		Title: "Audit log", tab: tabAudit, Path: r.inProject("audit"), About: auditFilterAbout,
		Lead:    "All changes in this project, newest first. Records are stored for one year and contain no secrets.",
		Example: "environments/prod/apps/hello",
		within:  audit.Path("projects", r.project) + "/", actions: actionsOf(false),
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			return plain(r.api.AuditPage(r.Context(), r.project, q, p))
		},
	}
}

func plain(list wire.List[wire.AuditRecord], err error) ([]wire.Activity, string, error) {
	items := make([]wire.Activity, len(list.Items))
	for i, record := range list.Items {
		items[i].AuditRecord = record
	}
	return items, list.NextPageToken, err
}

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

func (l recordLog) narrowed(name, value string) string {
	return l.Path + "?" + url.Values{name: {value}}.Encode()
}

// full returns the full name of a resource, which may be relative to the project, e.g.
// "api-keys/key-ab12cd34".
func (l recordLog) full(resource string) string {
	resource = strings.Trim(strings.TrimSpace(resource), "/")
	if resource == "" || strings.HasPrefix(resource, "projects/") {
		return resource
	}
	return l.within + resource
}

func actionsOf(installation bool) []audit.Action {
	return slices.DeleteFunc(audit.Recorded(), func(a audit.Action) bool { return a.OfInstallation() != installation })
}

const historyShown = 5

// history reads the newest records of a resource, and returns the path of the filtered log. It
// returns nothing if the user is not an owner.
func (r *request) history(resource string) (rows []recordRow, path string, err error) {
	if f, err := r.layout(); err != nil || !f.Can("owner") {
		return nil, "", err
	}
	l := r.projectLog()
	items, _, err := l.read(client.AuditQuery{Resource: l.full(resource)}, client.Page{Size: historyShown})
	if err == nil {
		rows, err = l.rows(r, items)
	}
	return rows, l.narrowed("resource", resource), err
}

type recordRow struct {
	wire.Activity

	Who       string // "ada", "webhook", "build 7"
	WhoNote   string // "Not signed in"
	Did       string // "revoked"
	Thing     string // "Old integration", or ""
	Path      string // page of the thing; "" if it was deleted or has no page
	Outcome   badge  // empty if it succeeded
	Unsettled bool   // started, with an unknown result

	ByActor, ByResource string

	Changes       []recordChange
	Before, After bool
}

type recordDay struct {
	Title            string // "Today", "14 March 2026"
	Date             string // 2026-03-14
	Rows             []recordRow
	wire.UsageTotals // of the day's requests; zero if unknown
}

type recordChange struct {
	Name     string
	Old, New recordValue
}

type recordValue struct {
	Text string
	None bool
	Cut  int // number of characters that were cut
}

const maxValue = 400

func (r *request) recordRow(a wire.Activity) (recordRow, error) {
	row := recordRow{Activity: a}
	row.Who, row.WhoNote = whoDid(a.Actor)
	switch audit.Outcome(a.Outcome) {
	case audit.Succeeded:
	case audit.Failed:
		row.Outcome = badge{Text: "Failed", Tone: toneBad}
	default:
		row.Outcome, row.Unsettled = badge{Text: "Unknown result", Tone: toneAmber}, true
	}
	before, err := fieldsOf(a.Old)
	if err != nil {
		return recordRow{}, fmt.Errorf("read the old values of record %s: %w", a.ID, err)
	}
	after, err := fieldsOf(a.New)
	if err != nil {
		return recordRow{}, fmt.Errorf("read the new values of record %s: %w", a.ID, err)
	}
	row.Before, row.After = before != nil, after != nil
	row.Changes = changesOf(before, after)
	row.Did = did(audit.Action(a.Action), before, after)
	row.Thing, row.Path = r.thing(a, before, after)
	if audit.Action(a.Action) == audit.CallWebhook {
		row.Who, row.WhoNote, row.Outcome = callsText(a), "", badge{}
		row.Status = wire.Text(resultText(hook.Result(a.Status)))
	}
	return row, nil
}

// whoDid returns the name of an actor and a note. An actor without a session may have given the
// name of a user.
func whoDid(a wire.AuditActor) (name, note string) {
	if reqctx.Kind(a.Kind) != reqctx.Anonymous {
		return a.Name, ""
	}
	if a.Name == "" {
		return "Unknown user", "Not signed in, no username given"
	}
	return a.Name, "Not signed in"
}

func callsText(a wire.Activity) string {
	text := callCount(int64(a.Calls))
	if a.Status == wire.Text(hook.Unproven) {
		text += " without a valid token"
	}
	return text
}

// did returns the predicate of a record, e.g. "revoked key". The name of the thing follows it. For
// an unknown action, it returns the name of the action.
func did(a audit.Action, before, after map[string]any) string {
	switch {
	case a == audit.UpdateUser && after["state"] == "deactivated":
		return "deactivated user"
	case a == audit.UpdateUser && after["state"] == "active":
		return "activated user"
	case a == audit.UpdateUser && after["admin"] == true:
		return "granted admin rights to"
	case a == audit.UpdateUser && after["admin"] == false:
		return "revoked the admin rights of"
	case a == audit.UpdateApp && after["require_api_key"] == true:
		return "turned on Require API key for"
	case a == audit.UpdateApp && after["require_api_key"] == false:
		return "turned off Require API key for"
	case a == audit.UpdateKey && after["status"] == "disabled":
		return "disabled"
	case a == audit.UpdateKey && before["status"] == "disabled":
		return "enabled"
	case a == audit.Deploy && after["trigger"] == "rollback":
		return fmt.Sprintf("rolled back to revision %v, as", after["source_revision"])
	case a == audit.Deploy && after["source_environment"] != nil:
		return fmt.Sprintf("promoted revision %v of %v, as", after["source_revision"], after["source_environment"])
	case a == audit.Deploy && after["trigger"] == "promotion":
		return "promoted an app as"
	}
	return wordsOf(a).did
}

func (r *request) thing(a wire.Activity, before, after map[string]any) (name, path string) {
	parts := strings.Split(a.Resource, "/")
	last := parts[len(parts)-1]
	in := map[string]string{} // parts of the resource, e.g. apps → hello
	for i := 0; i+1 < len(parts); i += 2 {
		in[parts[i]] = parts[i+1]
	}
	app := ""
	if in["apps"] != "" {
		app = at("projects", in["projects"], "environments", in["environments"], "apps", in["apps"])
	}
	switch {
	case in["api-keys"] != "":
		name = cmp.Or(string(a.KeyName), given(after["name"]), given(before["name"]), last)
		if env := cmp.Or(r.environment, given(after["environment"])); env != "" {
			path = at("projects", in["projects"], "environments", env, "api-keys", last)
		}
	case in["tokens"] != "":
		name, path = cmp.Or(given(after["name"]), given(before["name"]), last), at("projects", in["projects"], "members")
	case in["requests"] != "":
		name, path = last, at("projects", in["projects"], "requests")+"?"+requestField+"="+last
	case in["plans"] != "":
		name, path = cmp.Or(given(after["name"]), given(before["name"]), last), at("projects", in["projects"], "environments", in["environments"], "plans", last)
	case in["deployments"] != "":
		name, path = "revision "+last+" of "+in["apps"], app+"/deploys"
	case in["builds"] != "":
		name, path = "build "+last+" of "+in["apps"], app+"/builds"
	case in["apps"] != "":
		name, path = in["apps"], app
	case last == "settings":
		path = at("projects", in["projects"], "settings")
	case last == "members":
		path = at("projects", in["projects"], "members")
	case a.Action != string(audit.SignIn) && a.Action != string(audit.SignOut):
		name = last
	}
	if strings.HasSuffix(a.Action, ".delete") {
		path = ""
	}
	return name, path
}

func given(v any) string {
	text, _ := v.(string)
	return text
}

func daysOf(rows []recordRow, now time.Time) []recordDay {
	var days []recordDay
	for _, row := range rows {
		date := row.At.UTC().Format(time.DateOnly)
		if len(days) == 0 || days[len(days)-1].Date != date {
			days = append(days, recordDay{Title: view.RelativeDay(date, now), Date: date})
		}
		days[len(days)-1].Rows = append(days[len(days)-1].Rows, row)
	}
	return days
}

func fieldsOf(values json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(cmp.Or(string(values), "null")))
	d.UseNumber()
	var fields map[string]any
	err := d.Decode(&fields)
	return fields, err
}

func changesOf(before, after map[string]any) []recordChange {
	names := map[string]bool{}
	for _, fields := range []map[string]any{before, after} {
		for name := range fields {
			names[name] = true
		}
	}
	var all []recordChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, recordChange{Name: name, Old: valueOf(before[name]), New: valueOf(after[name])})
	}
	return all
}

func valueOf(v any) recordValue {
	text := valueText(v)
	if text == "" {
		return recordValue{Text: nothingText(v), None: true}
	}
	cut := utf8.RuneCountInString(text) - maxValue
	if cut <= 0 {
		return recordValue{Text: text}
	}
	return recordValue{Text: string([]rune(text)[:maxValue]), Cut: cut}
}

func nothingText(v any) string {
	switch v.(type) {
	case string:
		return "empty"
	case []any, map[string]any:
		return "empty list"
	}
	return "none"
}

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
	return fmt.Sprint(v)
}

type actionWords struct{ name, did string }

func wordsOf(a audit.Action) actionWords {
	if words, ok := map[audit.Action]actionWords{
		audit.SignIn:            {"Sign in", "signed in"},
		audit.SignOut:           {"Sign out", "signed out"},
		audit.CreateUser:        {"Create user", "created user"},
		audit.UpdateUser:        {"Change user", "changed user"},
		audit.ChangePassword:    {"Set password", "set the password of"},
		audit.EndSessions:       {"End sessions", "ended all sessions of"},
		audit.RemoveUser:        {"Remove user", "removed user"},
		audit.CreateProject:     {"Create project", "created project"},
		audit.UpdateProject:     {"Change project settings", "changed the project settings"},
		audit.DeleteProject:     {"Delete project", "deleted project"},
		audit.ReleaseHost:       {"Release reserved host", "released the reserved host"},
		audit.SetMembers:        {"Change members", "changed the members"},
		audit.CreateToken:       {"Create service token", "created service token"},
		audit.RevokeToken:       {"Revoke service token", "revoked service token"},
		audit.LeakToken:         {"Report leak of service token", "reported the leak of service token"},
		audit.CreateEnvironment: {"Create environment", "created environment"},
		audit.DeleteEnvironment: {"Delete environment", "deleted environment"},
		audit.CreateApp:         {"Create app", "created app"},
		audit.UpdateApp:         {"Change app", "changed app"},
		audit.DeleteApp:         {"Delete app", "deleted app"},
		audit.AddTrust:          {"Add trusted pipeline", "added a trusted pipeline to"},
		audit.RemoveTrust:       {"Remove trusted pipeline", "removed a trusted pipeline from"},
		audit.EnableWebhook:     {"Enable webhook or replace its token", "created a webhook token for"},
		audit.DisableWebhook:    {"Disable webhook", "disabled the webhook of"},
		audit.Deploy:            {"Deploy", "deployed"},
		audit.RequestBuild:      {"Request build", "requested"},
		audit.CreatePlan:        {"Create plan", "created plan"},
		audit.UpdatePlan:        {"Change plan", "changed plan"},
		audit.DeletePlan:        {"Delete plan", "deleted plan"},
		audit.CreateKey:         {"Create key", "created key"},
		audit.UpdateKey:         {"Change key", "changed key"},
		audit.RotateKey:         {"Rotate key", "rotated key"},
		audit.RevokeKey:         {"Revoke key", "revoked key"},
		audit.LeakKey:           {"Report leak of key", "reported the leak of key"},
		audit.ReleaseQuota:      {"Release quota of key", "released the quota of key"},
		audit.CallWebhook:       {"Call webhook", "to the webhook of"},
		audit.ExplainRequest:    {"Search for denied request", "searched for denied request"},
	}[a]; ok {
		return words
	}
	return actionWords{string(a), string(a)}
}
