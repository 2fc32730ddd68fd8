// Package audit defines audit records: who changed what, when and from where, with the previous and
// new values.
//
// # Recorded changes
//
// Records exist for every change through the management API or a webhook, deployments by finished
// builds, sign-ins, sign-outs and requests to explain a denial. Rejected calls are not recorded,
// except failed sign-ins. Reactions of Sluice, such as a gate that engages, are not recorded.
//
// The store writes a record in the transaction of its change, so neither exists without the other.
// A change outside the store (webhook tokens) is first recorded as [Requested]. If the record is
// not completed, the change may or may not have happened.
//
// # Secrets
//
// Values contain no key, hash, token, password or signature. The username of a failed sign-in is
// recorded only if the user exists, because people may type their password there.
//
// # Readers
//
// Owners can read their project's records since its creation, but not those of an earlier project
// with the same name. Members can read the records of its environments, without addresses. Admins
// can read records without a project (users, sign-ins, creation and deletion of projects).
package audit

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/reqctx"
)

// Retention is the retention period of records.
const Retention = 365 * 24 * time.Hour

// Action is the kind of a change, such as "key.revoke".
type Action string

// The actions.
const (
	SignIn  Action = "session.sign_in"
	SignOut Action = "session.sign_out"

	CreateUser     Action = "user.create"
	UpdateUser     Action = "user.update"
	ChangePassword Action = "user.change_password"
	EndSessions    Action = "user.end_sessions"
	RemoveUser     Action = "user.remove"

	CreateProject Action = "project.create"
	UpdateProject Action = "project.update"
	DeleteProject Action = "project.delete"
	SetMembers    Action = "project.set_members"

	CreateToken Action = "token.create"
	RevokeToken Action = "token.revoke"
	LeakToken   Action = "token.leak" // the token was public and is revoked

	CreateEnvironment Action = "environment.create"
	DeleteEnvironment Action = "environment.delete"

	CreateApp Action = "app.create"
	UpdateApp Action = "app.update"
	DeleteApp Action = "app.delete"

	ReleaseHost Action = "host.release"

	EnableWebhook  Action = "webhook.enable" // or replace its token
	DisableWebhook Action = "webhook.disable"
	AddTrust       Action = "webhook.trust"
	RemoveTrust    Action = "webhook.distrust"

	Deploy       Action = "deployment.create" // the new value contains the trigger
	RequestBuild Action = "build.request"

	CreatePlan Action = "plan.create"
	UpdatePlan Action = "plan.update"
	DeletePlan Action = "plan.delete"

	CreateKey Action = "key.create"
	UpdateKey Action = "key.update"
	RotateKey Action = "key.rotate"
	RevokeKey Action = "key.revoke"
	LeakKey   Action = "key.leak"

	ReleaseQuota Action = "key.release_quota" // requests held by lost checkers

	ExplainRequest Action = "request.explain" // changes nothing

	// CallWebhook is not recorded: a webhook call that changed nothing, for activities.
	CallWebhook Action = "webhook.call"
)

// Actions returns all actions, grouped by object.
func Actions() []Action {
	return []Action{
		SignIn, SignOut, CreateUser, UpdateUser, ChangePassword, EndSessions, RemoveUser,
		CreateProject, UpdateProject, DeleteProject, SetMembers, ReleaseHost, CreateToken, RevokeToken, LeakToken, CreateEnvironment, DeleteEnvironment,
		CreateApp, UpdateApp, DeleteApp, EnableWebhook, DisableWebhook, AddTrust, RemoveTrust, CallWebhook, Deploy, RequestBuild,
		CreatePlan, UpdatePlan, DeletePlan, CreateKey, UpdateKey, RotateKey, RevokeKey, LeakKey, ReleaseQuota, ExplainRequest,
	}
}

// Recorded returns the actions of audit records.
func Recorded() []Action {
	return slices.DeleteFunc(Actions(), func(a Action) bool { return a == CallWebhook })
}

// Kind is a filter for an environment's activity.
type Kind string

// The kinds.
const (
	Deployments Kind = "deployments" // and builds
	Keys        Kind = "keys"        // and plans
	Settings    Kind = "settings"    // of apps, their webhooks and the environment
	Calls       Kind = "calls"       // webhook calls that changed nothing
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Deployments, Keys, Settings, Calls} }

// Actions returns the actions of a kind.
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

// OfInstallation reports whether records of the action have no project.
func (a Action) OfInstallation() bool {
	switch a {
	case SignIn, SignOut, CreateUser, UpdateUser, ChangePassword, EndSessions, RemoveUser, CreateProject, DeleteProject, ReleaseHost:
		return true
	default:
		return false
	}
}

// Outcome is the result of a change.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"    // only for sign-ins and changes outside the store
	Requested Outcome = "requested" // the result is unknown
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Succeeded, Failed, Requested} }

// Record is an audit record.
type Record struct {
	ID       string         `firestore:"-"` // sorts by time, newest first
	At       time.Time      `firestore:"at"`
	Actor    reqctx.Actor   `firestore:"-"`
	Origin   reqctx.Request `firestore:"-"`
	Action   Action         `firestore:"action"`
	Outcome  Outcome        `firestore:"outcome"`
	Project  string         `firestore:"project"`
	Resource string         `firestore:"resource"` // such as "projects/shop/api-keys/key-ab12cd34"
	Old, New Values         `firestore:"-"`        // only differences
}

// Change is the part of a record that the caller provides.
type Change struct {
	Action   Action
	Outcome  Outcome // the default is [Succeeded]
	Project  string
	Resource string
	Besides  string // optional other resource that shows the change, such as a key's environment
	Old, New Values
}

// Query selects records. Zero fields select all.
type Query struct {
	Project  string
	From, To time.Time
	Actor    string // such as a username, "token:nightly", "webhook" or "build 7"
	Actions  []Action
	Resource string // with its parts
}

// Path joins the parts of a resource's name.
func Path(parts ...string) string { return strings.Join(parts, "/") }

// Within returns a resource and its parents, outermost first: "a/b/c" is within "a", "a/b" and
// "a/b/c".
func Within(resource string) []string {
	var all []string
	for i, c := range []byte(resource) {
		if c == '/' {
			all = append(all, resource[:i])
		}
	}
	return append(all, resource)
}

// Values are the recorded fields of a resource; nil if it does not exist.
type Values map[string]any

// Diff returns the fields that differ. It returns all fields of a resource that was created or
// deleted.
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
