// Package checkers defines how other functions talk to checkers. [Client] makes the calls.
//
// # When a change is in force (propagation.go, ack.go; promise F7)
//
// No checker may allow a request by the previous version. All times are the store's; no clocks of
// machines are compared.
//
//  1. The change is committed at time c. A checker's listener receives consistent snapshots in
//     commit order, each with a read time r. After it has applied a snapshot with r ≥ c, all its
//     decisions use the change. It acknowledges c by reporting its applied read time.
//  2. A checker allows requests only with a current proof, which needs a returned canary. The
//     canaries in the store are therefore the complete list of members. The list is read after the
//     commit, with strong consistency. There is one list for each data type in the change.
//  3. A member is [Applied] if its applied read time has reached c.
//  4. A member is [Denying] if its last canary is older than its ceiling. Otherwise it is [Silent].
//     The write of the canary began before its commit, so a silent member denies all requests from
//     that commit plus the ceiling, unless it applies the change first ([Replica]).
//  5. A replica that is not on the list commits its first canary after the list was read, and
//     thus after c. The canary returns in a snapshot with r > c, so the replica never uses the
//     old version.
//  6. A replica whose canary is deleted invalidates its proof: it is no longer on the list.
//
// A ceiling is measured with the replica's monotonic clock; [drift] allows for different speeds.
//
// # Who may query a checker (query.go, reason.go; promise O1)
//
// Clients must not learn the reason for a denial. Each checker process writes a random [QueryKey]
// to its canaries, which only functions that read the store can see. A query has an HMAC with that
// key, and goes over TLS to the address in the canary. It contains the namespaces that the user may
// see. It is valid only once ([ReplayGuard]), within [QueryWindow] of the store's time. This is the
// only comparison of two machines' clocks.
//
// # Proof of a denial (proof.go)
//
// An app or a proxy can copy a denial. A probe of a gate therefore sends a nonce ([NonceHeader]).
// A checker that denies the request adds an HMAC over the nonce and the app ([ProofHeader]). The
// key is derived from the private key of the checkers' certificate. If the URL names a generation
// of the app's route, the proof is valid only for that generation. A program that can reach
// checkers could forward a probe; network policies keep apps away from checkers
// (infra/network.yaml).
package checkers

import (
	"slices"
	"strings"
	"time"
)

// Change contains the commit times of a change, zero for a data type that it does not affect.
type Change struct {
	ID    string // ID of the audit record; "" if nothing changed
	Keys  time.Time
	Plans time.Time
}

// Member is a replica in the list of a data type, as described by its last canary.
type Member struct {
	Replica string        // e.g. "checker-7d9f-x2x"
	Run     string        // random per process
	Written time.Time     // commit time of the canary
	Applied time.Time     // latest read time that it has reported as applied
	Ceiling time.Duration // validity of its proof
	Address string        // host:port; "" if it accepts no calls
	Key     QueryKey      // zero if it accepts no queries

	Features []Feature // empty for earlier releases
}

// Feature is a format of messages, proofs or stored values that some releases do not support. It is
// used only if all members have the feature.
type Feature string

// RouteGenerations means that proofs include the generation of the route.
const RouteGenerations Feature = "route_generations"

// UsageInMemory means that the checker returns the counts in its memory.
const UsageInMemory Feature = "usage_in_memory"

// Features returns the features of this release.
func Features() []Feature { return []Feature{RouteGenerations, UsageInMemory} }

// Has reports whether the member has a feature.
func (m Member) Has(f Feature) bool { return slices.Contains(m.Features, f) }

// List contains the replicas that may allow requests, for one data type.
type List struct {
	Read    time.Time // time at which the list was complete
	Members []Member
}

// Without returns the name of a member without the feature, or "" if all members have it.
func (l List) Without(f Feature) string {
	for _, m := range l.Members {
		if !m.Has(f) {
			return m.Replica
		}
	}
	return ""
}

// State is the state of a change at a replica.
type State string

// The states, from best to worst.
const (
	Denying State = "denying" // denies all requests until it has applied the change
	Applied State = "applied" // uses the change in all decisions
	Silent  State = "silent"  // may allow requests by the previous version
)

// States returns all states.
func States() []State { return []State{Denying, Applied, Silent} }

// Replica is the state of a change at the named replica.
type Replica struct {
	Name       string
	State      State
	DeniesFrom time.Time // set for silent replicas
}

// drift is the maximum relative difference in speed between two clocks, 100 times that of quartz.
const drift = 1.0 / 1000

// Of returns the state of a commit at c for each member, sorted by name. The list must have been
// read after c.
func (l List) Of(c time.Time) []Replica {
	all := make([]Replica, len(l.Members))
	for i, m := range l.Members {
		all[i] = m.of(c, l.Read)
	}
	return Merge(all)
}

// Proving returns the numbers of members with and without a valid proof.
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

// Merge returns each replica with the worst of its states, sorted by name.
func Merge(lists ...[]Replica) []Replica {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Replica) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return slices.Index(States(), b.State) - slices.Index(States(), a.State)
	})
	return slices.CompactFunc(all, func(a, b Replica) bool { return a.Name == b.Name })
}

// Complete reports whether no replica can allow a request by the previous version.
func Complete(replicas []Replica) bool {
	return !slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == Silent })
}
