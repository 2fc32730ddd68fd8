// Package event defines the events that an installation sends to a sink: finished deployments,
// changes of API keys, quotas that are nearly used up, and gates (promises D12, D13, D14).
//
// # Outbox
//
// The transaction of a change also writes its [OutboxEntry], so neither exists without the other.
// Functions with changes write to the outbox; only deploys sends. An announcement is deleted once
// the sink has accepted it. Without a sink (no EVENTS, no K_SINK), nothing is written.
//
// # Delivery
//
// Each event is sent at least once. It is dropped, logged and counted if the sink has not accepted
// it within a day.
//
// Events with the same subject are sent in order: the next event follows only when the previous one
// is accepted or dropped. Two concurrent senders, as during a rollout, may repeat an event after a
// later one. Receivers that ignore repeated IDs see the correct order.
//
// The order and the day are by the store's clock. Only the time in the event is by the writer's
// clock.
//
// # Content
//
// Events never contain a secret, its hash, or the actor, who is in the audit log.
package event

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/plan"
)

// Type is the CloudEvents type of an event. Events of deployments are CDEvents and have their own
// types.
type Type string

// The types of events. Their names are permanent. Removing a field or changing its meaning requires
// a v2.
const (
	KeyCreated  Type = "dev.sluicegate.key.created.v1"
	KeyRotated  Type = "dev.sluicegate.key.rotated.v1"
	KeyDisabled Type = "dev.sluicegate.key.disabled.v1"
	KeyEnabled  Type = "dev.sluicegate.key.enabled.v1"
	KeyRevoked  Type = "dev.sluicegate.key.revoked.v1"
	KeyExpiring Type = "dev.sluicegate.key.expiring.v1" // 14 days and one day before
	KeyExpired  Type = "dev.sluicegate.key.expired.v1"
	KeyLeaked   Type = "dev.sluicegate.key.leaked.v1" // the full key was public

	QuotaReached Type = "dev.sluicegate.quota.reached.v1" // at 80% and 100%

	GateEngaged   Type = "dev.sluicegate.gate.engaged.v1"  // verified, see [app.Engaged]
	GateReleased  Type = "dev.sluicegate.gate.released.v1" // turned off and verified
	GateDenying   Type = "dev.sluicegate.gate.denying.v1"  // all gates deny, because no checker has a fresh view
	GateRecovered Type = "dev.sluicegate.gate.recovered.v1"
)

// Types returns all types.
func Types() []Type {
	return []Type{
		KeyCreated, KeyRotated, KeyDisabled, KeyEnabled, KeyRevoked, KeyExpiring, KeyExpired, KeyLeaked,
		QuotaReached, GateEngaged, GateReleased, GateDenying, GateRecovered,
	}
}

// Retention is the time after which an unsent announcement is dropped.
const Retention = 24 * time.Hour

// Installation is the subject of events about all gates.
const Installation = "installation"

// OutboxEntry is an event. Exactly one of the last five fields is set.
type OutboxEntry struct {
	ID          string // the same each time it is sent
	Type        Type   // "" for a deployment
	Subject     string // scope of the order: an [apikey.ID], an [app.Ref], or [Installation]
	Project     string
	Environment string
	At          time.Time // by the writer's clock

	Deployment *Deployment
	Key        *Key
	Quota      *Quota
	Gate       *Gate
	Gates      *Gates
}

// Deployment is a finished deployment.
type Deployment struct {
	App      app.Ref
	Outcome  deploy.Outcome
	Revision deploy.Revision
}

// Key is a key right after the event.
type Key struct {
	ID        apikey.ID     `firestore:"id"`
	Name      string        `firestore:"name"`
	Plan      plan.ID       `firestore:"plan"`
	Apps      []string      `firestore:"apps"`
	Status    apikey.Status `firestore:"status"`
	ExpiresAt time.Time     `firestore:"expires_at"`
	Within    int           `firestore:"within"` // for key.expiring: 14 or 1 days
}

// Quota is the use of a key's quota.
type Quota struct {
	Key     Key         `firestore:"-"`
	Percent int         `firestore:"percent"`
	Quota   int64       `firestore:"quota"`
	Used    int64       `firestore:"used"` // may exceed a soft quota
	Period  plan.Period `firestore:"period"`
	Mode    plan.Mode   `firestore:"mode"`
	ResetAt time.Time   `firestore:"reset_at"`
}

// Gate is the gate of one app.
type Gate struct {
	App   app.Ref
	Host  string
	State app.GateState
}

// Gates is the state of all gates.
type Gates struct {
	Checkers int       `firestore:"checkers"`
	Since    time.Time `firestore:"since"` // start of the denials
}

// Pending is an announcement in the outbox.
type Pending struct {
	OutboxEntry

	Place  Cursor
	Waited time.Duration
}

// Cursor is the position of an announcement in the outbox; zero is before the first.
type Cursor struct {
	At time.Time
	ID string
}

// OfDeployment announces a finished revision. first means that no other revision was live before.
func OfDeployment(a app.App, r deploy.Revision, first bool) OutboxEntry {
	return OutboxEntry{
		ID: rand.Text(), Subject: a.Ref().String(), Project: a.Project, Environment: a.Environment, At: r.FinishedAt,
		Deployment: &Deployment{App: a.Ref(), Outcome: deploy.OutcomeFor(r, first), Revision: r},
	}
}

// OfKey announces an event of a key.
func OfKey(t Type, k apikey.Key, at time.Time) OutboxEntry {
	shown := keyOf(k)
	return OutboxEntry{
		ID: rand.Text(), Type: t, Subject: string(k.ID()), Project: k.Project, Environment: k.Environment, At: at, Key: &shown,
	}
}

func keyOf(k apikey.Key) Key {
	return Key{ID: k.ID(), Name: k.Name, Plan: k.Plan, Apps: k.Apps, Status: k.Status, ExpiresAt: k.ExpiresAt}
}

// OfKeyChange returns the event type of a key's change. ok is false if there is none.
func OfKeyChange(stored, changed apikey.Key) (t Type, ok bool) {
	switch {
	case changed.Secret != stored.Secret:
		return KeyRotated, true
	case changed.Status == stored.Status:
		return "", false
	}
	switch changed.Status {
	case apikey.Revoked:
		return KeyRevoked, true
	case apikey.Disabled:
		return KeyDisabled, true
	case apikey.Active:
	}
	return KeyEnabled, true
}

// OfGate announces the new state of an app's gate. ok is false if there is no event for it.
func OfGate(a app.App, before app.GateState) (n OutboxEntry, ok bool) {
	n = OutboxEntry{
		ID: rand.Text(), Type: GateEngaged, Subject: a.Ref().String(), Project: a.Project, Environment: a.Environment, At: a.Gate.Since,
		Gate: &Gate{App: a.Ref(), Host: a.Host, State: a.Gate.State},
	}
	if a.Gate.State == app.Ungated {
		n.Type = GateReleased
	}
	return n, a.Gate.State != before && (a.Gate.State == app.Engaged || a.Gate.State == app.Ungated)
}

// OfGates announces that all gates deny, or no longer deny.
func OfGates(t Type, g Gates, at time.Time) OutboxEntry {
	name := "denying"
	if t == GateRecovered {
		name = "recovered"
	}
	return OutboxEntry{
		ID: fmt.Sprintf("gates.%s.%d", name, g.Since.UnixMicro()), Type: t, Subject: Installation, At: at, Gates: &g,
	}
}
