package app

import "strings"

// GateRequested is the type of the CloudEvent that tells wiring that an app's
// Require API key was switched; its subject is the app's [Ref]. It only hurries
// wiring up: the periodic one finds the same work.
const GateRequested = "dev.sluicegate.app.gate_requested.v1"

// DeployRequested and BuildRequested are the types of the CloudEvents that tell
// deploys that a revision of an app was recorded, and builds that a build was; the
// subject is the app's [Ref]. They too only hurry things up.
const (
	DeployRequested = "dev.sluicegate.app.deploy_requested.v1"
	BuildRequested  = "dev.sluicegate.app.build_requested.v1"
)

// Ref names an app in the whole installation, e.g. "shop-prod.hello".
type Ref struct{ Namespace, Name string }

// String joins the two; neither can hold a dot.
func (r Ref) String() string { return r.Namespace + "." + r.Name }

// ParseRef reads what [Ref.String] wrote.
func ParseRef(s string) (Ref, bool) {
	ns, name, ok := strings.Cut(s, ".")
	return Ref{ns, name}, ok && ValidNamespace(ns) && ValidLabel(name)
}

// Ref names the app.
func (a App) Ref() Ref { return Ref{a.Namespace, a.Name} }
