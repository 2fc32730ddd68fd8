package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
)

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
