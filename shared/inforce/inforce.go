// Package inforce decides when a change of a key or of a plan is in force at every
// checker (promise F7).
//
// # The argument
//
// The store gives each commit a time c. A checker's listener delivers consistent
// snapshots in commit order, each with its read time r; once the snapshot with r ≥ c is
// applied, every request that this checker decides from then on sees the change. So a
// checker acknowledges c by saying that its applied read time has reached c. Both times
// are the store's own: no machine's clock is compared with another's.
//
// # Who must acknowledge
//
// Every checker that may allow anything. One can allow only while it has proof, and has
// proof only through its canary documents: so the canaries in the store are the list of
// members, and none can serve that is not on it. The list is read after the commit, and
// strongly; then
//
//   - a member whose applied read time has reached c acknowledges;
//   - a member that has not is silent. Whatever it has proven was proven by a canary whose
//     writing began before the commit of its last one: it denies everything from that
//     commit plus its ceiling, unless it has caught up by then. That instant is said;
//   - a member whose canary is older than its ceiling denies already;
//   - a replica that is not on the list needs no acknowledgement, whenever it began to
//     listen: its first canary is committed after the list was read, so after c, and it
//     serves only once that one has come back, in a snapshot with r > c.
//
// Each data type has its own canaries and so its own list and its own read time; a change
// waits for those that it touches. A replica that hears that its own canary is gone
// takes its proof back at once, else it would serve without being on the list.
//
// Ceilings are counted by a replica's own monotonic clock, and instants by the store's:
// they may go differently fast. [drift] is a hundred times what quartz does.
package inforce

import (
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/explain"
)

// Change is when a change was committed, by the store's clock, for each data type that
// it touches; zero is not touched.
type Change struct {
	ID    string // of its audit record; "" of one that changed nothing
	Keys  time.Time
	Plans time.Time
}

// Member is a replica on the list of one data type: its last canary there.
type Member struct {
	Replica string        // e.g. "checker-7d9f-x2x"
	Run     string        // random per process
	Written time.Time     // when the canary was committed
	Applied time.Time     // the read time that this run has applied, as last heard of it
	Ceiling time.Duration // how long its proofs are good
	Address string        // where it can be asked, host:port; "" nowhere
	Key     explain.Key   // of questions about what it has refused; zero of one that takes none

	Features []Feature // that it has; none of a release before there were features
}

// Feature names a form of messages, proofs or stored values that checkers of some releases
// do not know. A new form is used only once all members of the list have its feature.
type Feature string

// RouteGenerations is the feature of a checker whose proofs name the generation of the
// route (package gateproof).
const RouteGenerations Feature = "route_generations"

// UsageInMemory is the feature of a checker that returns the counts in its memory
// (package usage). Other checkers treat the request as misconfigured.
const UsageInMemory Feature = "usage_in_memory"

// Features lists the features of this release.
func Features() []Feature { return []Feature{RouteGenerations, UsageInMemory} }

// Has reports whether a member has a feature.
func (m Member) Has(f Feature) bool { return slices.Contains(m.Features, f) }

// List is who may allow requests by one data type.
type List struct {
	Read    time.Time // it is complete as of then, by the store's clock
	Members []Member
}

// Without returns the name of a member that does not have a feature, or "" if all have it.
func (l List) Without(f Feature) string {
	for _, m := range l.Members {
		if !m.Has(f) {
			return m.Replica
		}
	}
	return ""
}

// State is what a replica does about a change.
type State string

// The states, each worse than those before it.
const (
	Denying State = "denying" // it allows nothing until it has caught up
	Applied State = "applied" // it decides by it
	Silent  State = "silent"  // not known
)

// States lists all states.
func States() []State { return []State{Denying, Applied, Silent} }

// Replica is a replica's state with regard to a change.
type Replica struct {
	Name       string
	State      State
	DeniesFrom time.Time // of one that is silent: unless it has caught up by then
}

// drift is by how much a second of one machine's clock may be longer than another's.
const drift = 1.0 / 1000

// Of tells what each member of a list does about what was committed at c, in the order
// of names. The list must have been read after c.
func (l List) Of(c time.Time) []Replica {
	all := make([]Replica, len(l.Members))
	for i, m := range l.Members {
		all[i] = m.of(c, l.Read)
	}
	return Together(all)
}

// Proving counts the members whose last proof is still good, and those whose is not: each
// of these denies everything, or is gone.
func (l List) Proving() (proving, denying int) {
	for _, m := range l.Members {
		if l.Read.Before(m.Written.Add(m.Ceiling)) {
			proving++
		} else {
			denying++
		}
	}
	return proving, denying
}

func (m Member) of(c, now time.Time) Replica {
	denies := m.Written.Add(m.Ceiling + time.Duration(drift*float64(m.Ceiling)))
	switch {
	case !m.Applied.Before(c):
		return Replica{Name: m.Replica, State: Applied}
	case !now.Before(denies):
		return Replica{Name: m.Replica, State: Denying}
	}
	return Replica{Name: m.Replica, State: Silent, DeniesFrom: denies}
}

// Together gives each replica the worst of its states, in the order of names: a change
// of several data types is in force where it is for all of them.
func Together(lists ...[]Replica) []Replica {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Replica) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return slices.Index(States(), b.State) - slices.Index(States(), a.State)
	})
	return slices.CompactFunc(all, func(a, b Replica) bool { return a.Name == b.Name })
}

// Everywhere tells whether nobody can allow a request by what was before the change.
func Everywhere(replicas []Replica) bool {
	return !slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == Silent })
}
