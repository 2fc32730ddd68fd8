// Package audit says what is recorded of a change: who made it, to what, when, from
// where, and what was there before and after.
//
// # What is recorded
//
// Every change that somebody makes through the management API or a webhook, what a
// finished build deploys, every sign-in and sign-out, and who has asked why the gate
// refused a request, which its client must not learn. Refused calls leave no
// record, failed sign-ins apart. What Sluice does by itself to follow such a change
// (a rollout that goes live, a gate that engages) is no change of its own: it shows in
// the app's history and in its gate.
//
// The document store writes a record in the very transaction of its change (package
// store), so that there is neither without the other. What is not kept in the store,
// webhook tokens, is recorded before it is changed, as [Requested], and the record is
// completed afterwards: a record that says no more than that is of a change that may
// or may not have happened.
//
// # What is never in a record
//
// Old and new values are views made for this purpose, field by field: no key, no
// hash, no token, no password and no signature is in any of them. The username of a
// failed sign-in stands there only when there is such a user: what people type in its
// place by mistake is their password.
//
// # Who reads it
//
// A project's owners read what belongs to it, from the moment it was made: not what
// befell an earlier project of that name. All its members read what befell one of its
// environments, without the addresses that changes came from: it tells no more of a key, a
// plan or an app than each of them shows. Records that belong to no project (users,
// sign-ins, projects made and deleted) are for admins. Records are kept for [Kept].
package audit

import (
	"reflect"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/trace"
)

// Kept is how long records are kept.
const Kept = 365 * 24 * time.Hour

// Action says what was done, e.g. "key.revoke".
type Action string

// The actions.
const (
	SignIn  Action = "session.sign_in"
	SignOut Action = "session.sign_out"

	CreateUser     Action = "user.create"
	UpdateUser     Action = "user.update"
	ChangePassword Action = "user.change_password"

	CreateProject Action = "project.create"
	UpdateProject Action = "project.update"
	DeleteProject Action = "project.delete"
	SetMembers    Action = "project.set_members"

	CreateToken Action = "token.create" // a service token
	RevokeToken Action = "token.revoke"
	LeakToken   Action = "token.leak" // the public could read it, so it is revoked

	CreateEnvironment Action = "environment.create"
	DeleteEnvironment Action = "environment.delete"

	CreateApp Action = "app.create"
	UpdateApp Action = "app.update"
	DeleteApp Action = "app.delete"

	ReleaseHost Action = "host.release" // a reserved one

	EnableWebhook  Action = "webhook.enable" // or give it another token
	DisableWebhook Action = "webhook.disable"
	AddTrust       Action = "webhook.trust" // pipelines deploy without a secret from now on
	RemoveTrust    Action = "webhook.distrust"

	Deploy       Action = "deployment.create" // the new value's trigger says how
	RequestBuild Action = "build.request"

	CreatePlan Action = "plan.create"
	UpdatePlan Action = "plan.update"
	DeletePlan Action = "plan.delete"

	CreateKey Action = "key.create"
	UpdateKey Action = "key.update"
	RotateKey Action = "key.rotate"
	RevokeKey Action = "key.revoke"
	LeakKey   Action = "key.leak" // a secret of it was found where strangers can read it

	ReleaseQuota Action = "key.release_quota" // what lost checkers held of it

	ExplainRequest Action = "request.explain" // changes nothing: who has asked why a request was refused

	// CallWebhook is no record's: an environment's activity has calls that changed nothing
	// beside its records.
	CallWebhook Action = "webhook.call"
)

// Actions lists all actions, those of one thing together.
func Actions() []Action {
	return []Action{
		SignIn, SignOut, CreateUser, UpdateUser, ChangePassword,
		CreateProject, UpdateProject, DeleteProject, SetMembers, ReleaseHost, CreateToken, RevokeToken, LeakToken, CreateEnvironment, DeleteEnvironment,
		CreateApp, UpdateApp, DeleteApp, EnableWebhook, DisableWebhook, AddTrust, RemoveTrust, CallWebhook, Deploy, RequestBuild,
		CreatePlan, UpdatePlan, DeletePlan, CreateKey, UpdateKey, RotateKey, RevokeKey, LeakKey, ReleaseQuota, ExplainRequest,
	}
}

// Kind is what people look for in an environment's activity.
type Kind string

// The kinds.
const (
	Deployments Kind = "deployments" // and builds
	Keys        Kind = "keys"        // and the plans that they are on
	Settings    Kind = "settings"    // of apps, their webhooks and the environment
	Calls       Kind = "calls"       // of webhooks, that changed nothing
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{Deployments, Keys, Settings, Calls} }

// Actions lists the actions of a kind.
func (k Kind) Actions() []Action {
	switch k {
	case Deployments:
		return []Action{Deploy, RequestBuild}
	case Keys:
		return []Action{CreateKey, UpdateKey, RotateKey, RevokeKey, LeakKey, ReleaseQuota, CreatePlan, UpdatePlan, DeletePlan}
	case Settings:
		return []Action{CreateApp, UpdateApp, DeleteApp, EnableWebhook, DisableWebhook, AddTrust, RemoveTrust, CreateEnvironment, DeleteEnvironment}
	case Calls:
		return []Action{CallWebhook}
	}
	return nil
}

// OfInstallation tells whether records of the action belong to no project.
func (a Action) OfInstallation() bool {
	switch a {
	case SignIn, SignOut, CreateUser, UpdateUser, ChangePassword, CreateProject, DeleteProject, ReleaseHost:
		return true
	default:
		return false
	}
}

// Outcome says what came of it.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"    // of sign-ins, and of what is not kept in the store
	Requested Outcome = "requested" // begun; nothing is known of the end
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome { return []Outcome{Succeeded, Failed, Requested} }

// Record is one entry.
type Record struct {
	ID       string // sorts by time, the newest first
	At       time.Time
	Actor    trace.Actor
	Origin   trace.Request // address and request id
	Action   Action
	Outcome  Outcome
	Project  string // that it belongs to; "" is the installation
	Resource string // e.g. "projects/shop/api-keys/key-ab12cd34"
	Old, New Values // only what differs; nil of what was not there before or is not after
}

// Change is what a record tells beside who, when and from where.
type Change struct {
	Action   Action
	Outcome  Outcome // "" is [Succeeded]
	Project  string
	Resource string
	Besides  string // another resource whose history it is a part of, e.g. a key's environment; "" is none
	Old, New Values
}

// Query says which records are wanted. Zero fields do not matter.
type Query struct {
	Project  string // "" are the installation's
	From, To time.Time
	Actor    string   // a username, "token:nightly", "webhook", "build 7", …
	Actions  []Action // one of these
	Resource string   // and everything below it
}

// Path joins the parts of a resource's name.
func Path(parts ...string) string { return strings.Join(parts, "/") }

// Within lists a resource and everything that it is a part of, the largest first:
// "a/b/c" is within "a", "a/b" and "a/b/c".
func Within(resource string) []string {
	var all []string
	for i, c := range []byte(resource) {
		if c == '/' {
			all = append(all, resource[:i])
		}
	}
	return append(all, resource)
}

// Values are the fields of a resource as a record shows them: texts, numbers,
// booleans, lists of them, or nil. nil Values stand for a resource that is not there.
type Values map[string]any

// Diff gives the fields in which two views of a resource differ. One that was not
// there, or is not any more, shows whole.
func Diff(before, after Values) (changedFrom, changedTo Values) {
	if before == nil || after == nil {
		return before, after
	}
	changedFrom, changedTo = Values{}, Values{}
	for name := range after {
		if !reflect.DeepEqual(before[name], after[name]) {
			changedFrom[name], changedTo[name] = before[name], after[name]
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			changedFrom[name], changedTo[name] = before[name], nil
		}
	}
	return changedFrom, changedTo
}
