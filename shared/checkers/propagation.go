// Package checkers defines how other functions talk to checkers, and what they conclude from
// the responses:
//
//   - when a change is in force at every checker (propagation.go, ack.go; promise F7);
//   - why a checker denied a request (query.go, reason.go; promise O1);
//   - that a denial comes from a checker and not from an app (proof.go).
//
// [Client] makes the calls.
//
// # When a change is in force
//
// The store gives each commit a time c. A checker's listener receives consistent snapshots in
// commit order, each with its read time r. Once it has applied a snapshot with r ≥ c, every
// later decision of this checker uses the change. So a checker acknowledges c by reporting
// that its applied read time has reached c. Both times come from the store: no machine's
// clock is compared with another's.
//
// Every checker that may allow a request must acknowledge. A checker allows requests only
// while it has proof, and it gets proof only through its canary documents. So the canaries
// in the store are the complete list of members. The list is read after the commit, with
// strong consistency. Then each member has one of these states:
//
//   - [Applied]: its applied read time has reached c.
//   - [Silent]: it has not acknowledged. Its proof comes from a canary whose write began
//     before the commit of its last canary. So it denies every request from that commit
//     plus its ceiling, unless it catches up earlier. [Replica] names that instant.
//   - [Denying]: its last canary is older than its ceiling, so it denies every request.
//
// A replica that is not on the list needs no acknowledgement. Its first canary is committed
// after the list was read, so after c. It serves only once that canary comes back, in a
// snapshot with r > c.
//
// Each data type has its own canaries, and so its own list and read time. A change waits for
// the data types that it touches. A replica that finds its own canary deleted drops its proof
// at once; otherwise it would serve without being on the list.
//
// A replica measures its ceiling with its own monotonic clock, and instants are the store's.
// The two clocks may run at different speeds; [drift] is a hundred times what quartz does.
//
// # Who may query a checker
//
// Clients must not learn why a request was denied, so reaching a checker's port is not enough.
// Each checker process makes a random [QueryKey] and writes it into its canaries. Only
// functions that read the store have it; apps, proxies and clients do not. A query carries
// its HMAC under that key ([QueryKey.SignQuery]). A checker reads nothing of a query whose
// signature is wrong. So no secret has to be made, mounted or renewed, and a key is valid only
// while its process lives.
//
//   - A query goes over TLS to the address in the canary, to a server whose certificate the
//     checkers' authority has issued.
//   - It is valid for [QueryWindow] around the time at which the store was read, and once: a
//     checker remembers the queries of the window ([ReplayGuard]). Other checkers, and later
//     processes of this one, reject it.
//   - It names one request and the namespaces that its user may see. A checker reports
//     nothing about other namespaces. The caller decides which ones the user may see.
//   - The size of queries and responses and the number of queries are bounded ([MaxQuery],
//     [MaxQueries], [MaxDenials]).
//
// QueryWindow is the only comparison between the clocks of two machines. A checker whose
// clock is wrong by more rejects the query and counts as one that did not respond.
//
// # Proof of a denial
//
// An app, or a proxy in front of it, can copy a denial byte for byte. So a probe that asks
// whether the gate is in place sends a fresh nonce ([NonceHeader]). A checker that denies the
// request adds a proof ([ProofHeader]): an HMAC over the nonce and the app, under a key that
// only checkers and wiring have. The key is derived from the private key of the checkers'
// certificate, so nothing else has to be made, mounted or renewed. A derived key reveals
// nothing about the key that it comes from.
//
// A proof shows that a checker was asked about this app just now, but not by whom. A program
// that can reach the checkers could pass the probe on. Network policies keep apps away from
// checkers (infra/network.yaml).
//
// Where the address names a generation of the app's route, the proof is for that generation.
// So the response of a route that the ingress is about to replace proves nothing about the
// route that replaces it.
package checkers

import (
	"slices"
	"strings"
	"time"
)

// Change holds the commit times of a change by the store's clock. The time of a data type
// that it does not touch is zero.
type Change struct {
	ID    string // of its audit record; "" if nothing changed
	Keys  time.Time
	Plans time.Time
}

// Member is a replica on the list of one data type, as in its last canary.
type Member struct {
	Replica string        // e.g. "checker-7d9f-x2x"
	Run     string        // random per process
	Written time.Time     // when the canary was committed
	Applied time.Time     // the latest read time that it reports as applied
	Ceiling time.Duration // how long its proof is valid
	Address string        // host:port; "" if it takes no calls
	Key     QueryKey      // zero if it takes no queries

	Features []Feature // none from a release without features
}

// Feature names a form of messages, proofs or stored values that checkers of some releases
// do not know. A new form is used only once all members of the list have its feature.
type Feature string

// RouteGenerations is the feature of a checker whose proofs name the generation of the
// route.
const RouteGenerations Feature = "route_generations"

// UsageInMemory is the feature of a checker that returns the counts in its memory
// . Other checkers treat the request as misconfigured.
const UsageInMemory Feature = "usage_in_memory"

// Features lists the features of this release.
func Features() []Feature { return []Feature{RouteGenerations, UsageInMemory} }

// Has reports whether a member has a feature.
func (m Member) Has(f Feature) bool { return slices.Contains(m.Features, f) }

// List holds the replicas that may allow requests by one data type.
type List struct {
	Read    time.Time // the list is complete at this time of the store's clock
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

// State is a replica's state with regard to a change.
type State string

// The states, each worse than those before it.
const (
	Denying State = "denying" // it denies every request until it has caught up
	Applied State = "applied" // its decisions use the change
	Silent  State = "silent"  // unknown
)

// States lists all states.
func States() []State { return []State{Denying, Applied, Silent} }

// Replica is a replica's state with regard to a change.
type Replica struct {
	Name       string
	State      State
	DeniesFrom time.Time // of a silent replica that does not catch up earlier
}

// drift is by how much a second of one machine's clock may be longer than another's.
const drift = 1.0 / 1000

// Of returns the state of each member with regard to a commit at c, sorted by name. The list
// must have been read after c.
func (l List) Of(c time.Time) []Replica {
	all := make([]Replica, len(l.Members))
	for i, m := range l.Members {
		all[i] = m.of(c, l.Read)
	}
	return Merge(all)
}

// Proving counts the members whose proof is valid and the others, which deny every request
// or are gone.
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

// Merge returns each replica with the worst of its states, sorted by name. A change of several
// data types is in force where it is in force for all of them.
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

// Complete reports whether no replica can allow a request by the state before the change.
func Complete(replicas []Replica) bool {
	return !slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == Silent })
}
