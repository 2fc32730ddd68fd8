// Package app holds apps and what they live in: projects and environments.
//
// An app is a workload on Kubernetes with a public host. Whether requests need
// an API key is its one gate setting; what the gate's state is, is observed.
package app

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Kind is how an app gets its image (promises D7, D8).
type Kind string

// The kinds of app.
const (
	ImageApp Kind = "image" // deployed from an image reference
	GitApp   Kind = "git"   // built from its git source
)

// Kinds lists the kinds of app.
func Kinds() []Kind { return []Kind{ImageApp, GitApp} }

// DefaultPort is what an app listens on unless told otherwise.
const DefaultPort = 8080

// App is one app in one environment.
type App struct {
	Name        string     `firestore:"name"` // as [CheckName] has it, e.g. "hello"
	Project     string     `firestore:"project"`
	Environment string     `firestore:"environment"`
	Namespace   string     `firestore:"namespace"` // "{project}-{environment}"
	Host        string     `firestore:"host"`      // public host name, lower case, e.g. "hello.shop-prod.apps.example.com"
	Port        int        `firestore:"port"`      // of the app's Service, 1 to 65535
	Image       string     `firestore:"image"`     // what runs now; "" before a git app's first build
	GitSource   *GitSource `firestore:"git_source"`

	RequireAPIKey bool      `firestore:"require_api_key"`     // the switch
	Preflight     Preflight `firestore:"preflight,omitempty"` // of a gated app; empty means PreflightApp
	Gate          Gate      `firestore:"gate"`                // what is

	Trusts []Trust `firestore:"trusts"` // pipelines that deploy it without a secret, oldest first

	Revision  int64     `firestore:"revision"` // the current deployment; 0 before the first
	Deployed  Deployed  `firestore:"deployed"`
	CreatedAt time.Time `firestore:"created_at"`
	UpdatedAt time.Time `firestore:"updated_at"`
}

// Asked returns the app without what is only observed: its gate, and its deployment's status.
// Its entity tag is that of an app. Times are as the store keeps them, in microseconds.
func (a App) Asked() App {
	a.Gate, a.Deployed = Gate{}, Deployed{}
	a.CreatedAt, a.UpdatedAt = a.CreatedAt.UTC().Truncate(time.Microsecond), a.UpdatedAt.UTC().Truncate(time.Microsecond)
	return a
}

// Deployed is what an app's own document tells about its current deployment, so that
// a list of apps shows it without reading their histories. It is zero before the
// first deployment.
type Deployed struct {
	At     time.Time `firestore:"at"`     // when it was recorded
	Status string    `firestore:"status"` // as in the history, e.g. "live"
}

// GitSource is where a git app is built from.
type GitSource struct {
	Repository string `firestore:"repository"` // clone URL
	Branch     string `firestore:"branch"`     // e.g. "main"
	Path       string `firestore:"path"`       // folder in the repository; "" is its root
}

// Kind follows from whether the app has a git source.
func (a App) Kind() Kind {
	if a.GitSource != nil {
		return GitApp
	}
	return ImageApp
}

// GateState says how far the gate of an app is (promises G2, G4).
type GateState string

// The gate's states: what Require API key asks for, against what is wired.
const (
	Ungated   GateState = "ungated"   // off, and nothing on the route
	Pending   GateState = "pending"   // switched on, not proven yet
	Engaged   GateState = "engaged"   // proven: a request without a key got the gate's own 401
	Releasing GateState = "releasing" // switched off, still on the route
)

// GateStates lists all states of a gate.
func GateStates() []GateState { return []GateState{Ungated, Pending, Engaged, Releasing} }

// Gate is the observed state of an app's gate. Only wiring moves it on.
type Gate struct {
	State   GateState `firestore:"state"`
	Since   time.Time `firestore:"since"`
	Message string    `firestore:"message"` // why it is not further; "" when all is well
}

// Switch gives the gate's state right after Require API key has been set to on,
// before wiring has acted: a change in either direction starts on its way, and
// setting what already is changes nothing.
func (g Gate) Switch(on bool, now time.Time) Gate {
	heading := g.State == Pending || g.State == Engaged
	if on == heading {
		return g
	}
	if on {
		return Gate{State: Pending, Since: now}
	}
	return Gate{State: Releasing, Since: now}
}

// Generation names the route that puts a gate in this state in place, e.g. "h5f0qk2m3ys":
// 1 to 13 of 0-9a-z. Each change of the state makes another. Package gateproof explains
// its use.
func (g Gate) Generation() string {
	return strconv.FormatUint(uint64(g.Since.UnixMicro()), 36)
}

// Renew returns the gate's state after a change of its settings. A gate that is switched
// on is pending until it is proven with the new settings.
func (g Gate) Renew(now time.Time) Gate {
	if g.State == Pending || g.State == Engaged {
		return Gate{State: Pending, Since: now}
	}
	return g
}

// Preflight is the handling of CORS preflights without a key at a gated app (promise G10).
type Preflight string

// The ways to handle preflights.
const (
	PreflightApp    Preflight = "app"    // the app answers them, without the client's credentials
	PreflightRefuse Preflight = "refuse" // the gate denies them like any other request
)

// Preflights lists the ways to handle preflights.
func Preflights() []Preflight { return []Preflight{PreflightApp, PreflightRefuse} }

// CheckPreflight returns an invalid_preflight problem if p is not one of [Preflights].
func CheckPreflight(p Preflight) error {
	if !slices.Contains(Preflights(), p) {
		return problem.Of(problem.InvalidPreflight)
	}
	return nil
}

// GateRequested is the type of the CloudEvent that tells wiring that an app's
// Require API key was switched or its settings changed; its subject is the app's [Ref]. It only hurries
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
