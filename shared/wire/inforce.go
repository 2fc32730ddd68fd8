package wire

import "time"

// InForce says whether a change is in force: whether no checker can allow a request any
// more by what was before it (promise F7).
type InForce struct {
	Change     string           `json:"change"`     // names the change, for GET …/changes/{change}; "" where nothing was changed
	Everywhere bool             `json:"everywhere"` // false is not known yet
	At         *time.Time       `json:"at"`         // when that was known; null until then
	Replicas   []ReplicaInForce `json:"replicas"`   // those that may allow anything; none is nobody
}

// ReplicaInForce is a checker's part in it.
type ReplicaInForce struct {
	Replica    string     `json:"replica"`
	State      string     `json:"state" kind:"replica_state"`
	AfterMS    *int64     `json:"after_ms,omitempty"`    // from the commit until it said so, in milliseconds; of a call that waited
	DeniesFrom *time.Time `json:"denies_from,omitempty"` // when one that is silent denies everything, unless it follows by then
}

// Effect is the part of an answer that says whether a change is in force. It is there
// where the caller asked for it with Prefer: wait.
type Effect struct {
	InForce *InForce `json:"in_force,omitempty"`
}

// Force is what was said; nil where nobody asked.
func (e Effect) Force() *InForce { return e.InForce }

// Effective says whether what is answered is in force.
func (e *Effect) Effective(f InForce) { e.InForce = &f }

// Effective says whether the change is in force.
func (f *InForce) Effective(to InForce) { *f = to }
