// Package app defines apps, projects and environments. An app is a Kubernetes workload with a
// public host.
package app

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Kind is the kind of an app, by the origin of its image (promises D7, D8).
type Kind string

// The kinds of app.
const (
	ImageApp Kind = "image"
	GitApp   Kind = "git" // built from its git source
)

// Kinds returns all kinds of app.
func Kinds() []Kind { return []Kind{ImageApp, GitApp} }

// DefaultPort is the default port of an app.
const DefaultPort = 8080

// App is an app in an environment.
type App struct {
	Name        string     `firestore:"name"` // see [CheckName], e.g. "hello"
	Project     string     `firestore:"project"`
	Environment string     `firestore:"environment"`
	Namespace   string     `firestore:"namespace"` // "{project}-{environment}"
	Host        string     `firestore:"host"`      // e.g. "hello.shop-prod.apps.example.com"
	Port        int        `firestore:"port"`
	Image       string     `firestore:"image"` // "" before a git app's first build
	GitSource   *GitSource `firestore:"git_source"`

	RequireAPIKey bool      `firestore:"require_api_key"` // desired state
	Preflight     Preflight `firestore:"preflight,omitempty"`
	Gate          Gate      `firestore:"gate"` // observed state

	Trusts []Trust `firestore:"trusts"` // oldest first

	Revision  int64     `firestore:"revision"` // 0 before the first
	Deployed  Deployed  `firestore:"deployed"`
	CreatedAt time.Time `firestore:"created_at"`
	UpdatedAt time.Time `firestore:"updated_at"`
}

// Asked returns the app without observed state, for its ETag.
func (a App) Asked() App {
	a.Gate, a.Deployed = Gate{}, Deployed{}
	a.CreatedAt, a.UpdatedAt = a.CreatedAt.UTC().Truncate(time.Microsecond), a.UpdatedAt.UTC().Truncate(time.Microsecond)
	return a
}

// Deployed is the status of the current deployment, copied for lists. It is zero before the first
// deployment.
type Deployed struct {
	At     time.Time `firestore:"at"`
	Status string    `firestore:"status"`
}

// GitSource is the source of a git app's builds.
type GitSource struct {
	Repository string `firestore:"repository"` // clone URL
	Branch     string `firestore:"branch"`
	Path       string `firestore:"path"` // folder in the repository; "" for its root
}

// Kind returns the app's kind.
func (a App) Kind() Kind {
	if a.GitSource != nil {
		return GitApp
	}
	return ImageApp
}

// GateState is the observed state of an app's gate (promises G2, G4).
type GateState string

// The states of a gate.
const (
	Ungated   GateState = "ungated"   // off, not on the route
	Pending   GateState = "pending"   // on, not proven yet
	Engaged   GateState = "engaged"   // proven: requests without a key get the gate's 401
	Releasing GateState = "releasing" // off, still on the route
)

// GateStates returns all states of a gate.
func GateStates() []GateState { return []GateState{Ungated, Pending, Engaged, Releasing} }

// Gate is the observed state of an app's gate. Only the wiring function advances it.
type Gate struct {
	State   GateState `firestore:"state"`
	Since   time.Time `firestore:"since"`
	Message string    `firestore:"message"` // reason for a delay, or ""
}

// Switch returns the gate after Require API key is set to on.
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

// Generation identifies the route for this state, in 1 to 13 characters of 0-9a-z. The proof of
// the gate names it (package wiring).
func (g Gate) Generation() string {
	return strconv.FormatUint(uint64(g.Since.UnixMicro()), 36)
}

// Renew returns the gate after a change of its settings: a gate that is on must be proven again.
func (g Gate) Renew(now time.Time) Gate {
	if g.State == Pending || g.State == Engaged {
		return Gate{State: Pending, Since: now}
	}
	return g
}

// Preflight is the handling of CORS preflights at a gated app (promise G10).
type Preflight string

// The ways to handle preflights.
const (
	PreflightApp    Preflight = "app"    // the app handles them, without the client's credentials
	PreflightRefuse Preflight = "refuse" // the gate denies them like other requests
)

// Preflights returns all values.
func Preflights() []Preflight { return []Preflight{PreflightApp, PreflightRefuse} }

// CheckPreflight returns an invalid_preflight problem if p is not one of [Preflights].
func CheckPreflight(p Preflight) error {
	if !slices.Contains(Preflights(), p) {
		return problem.FromCode(problem.InvalidPreflight)
	}
	return nil
}

// GateRequested is the type of the CloudEvent that requests work on an app's gate. Its subject is
// the app's [Ref].
const GateRequested = "dev.sluicegate.app.gate_requested.v1"

// DeployRequested and BuildRequested are the types of the corresponding CloudEvents for a new
// revision and a new build.
const (
	DeployRequested = "dev.sluicegate.app.deploy_requested.v1"
	BuildRequested  = "dev.sluicegate.app.build_requested.v1"
)

// Ref identifies an app in the installation.
type Ref struct{ Namespace, Name string }

// String returns e.g. "shop-prod.hello". Neither part contains a dot.
func (r Ref) String() string { return r.Namespace + "." + r.Name }

// ParseRef parses the output of [Ref.String].
func ParseRef(s string) (Ref, bool) {
	ns, name, ok := strings.Cut(s, ".")
	return Ref{ns, name}, ok && ValidNamespace(ns) && ValidLabel(name)
}

// Ref returns the app's reference.
func (a App) Ref() Ref { return Ref{a.Namespace, a.Name} }
