// Package event holds what an installation tells others of: ends of deployments, the lives
// of API keys, quotas that are nearly used up, gates (promises D12, D13, D14).
//
// # One outbox
//
// An [Announcement] is written in the transaction of the change that it tells of, so there
// is no change without its event and no event without its change; what time brings about is
// written together with the mark that says up to where it was. It waits in the store until
// the sink has taken it, and is then deleted. One function sends all of them (deploys, which
// always did); any function writes. An installation that has no sink (EVENTS is off) writes
// none: it pays nothing, and nothing grows.
//
// # What is promised
//
// At least once, for a day: an event that the sink has not taken a day after it was written
// is dropped, logged and counted. In order for one subject, which is a key, an app or, for
// what all gates do, the installation: the sink gets a subject's next event only when it has
// taken the one before, or that was dropped. Two senders at once, as during a rollout, may
// repeat an event after a later one; whoever goes by the first of each id sees the order. An
// id is given once, when the event is written, and is the same each time that it is sent.
//
// The order is that of the store's commits, and the day is the store's day: a clock of ours
// that is wrong, or is set, moves neither. Only the time that an event itself tells is the
// writer's.
//
// # What is told
//
// Ids, names, settings. Never a secret, the hash of one, or who did it: that is in the audit
// log.
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

// Type is the CloudEvents type of an event that is not about a deployment; those are
// CDEvents and have types of their own.
type Type string

// The types. Their names stay; a field that is taken away or means something else makes a v2.
const (
	KeyCreated  Type = "dev.sluicegate.key.created.v1"
	KeyRotated  Type = "dev.sluicegate.key.rotated.v1"
	KeyDisabled Type = "dev.sluicegate.key.disabled.v1"
	KeyEnabled  Type = "dev.sluicegate.key.enabled.v1"
	KeyRevoked  Type = "dev.sluicegate.key.revoked.v1"
	KeyExpiring Type = "dev.sluicegate.key.expiring.v1" // 14 days before, and one day
	KeyExpired  Type = "dev.sluicegate.key.expired.v1"
	KeyLeaked   Type = "dev.sluicegate.key.leaked.v1" // the full key was found where it should not be

	QuotaReached Type = "dev.sluicegate.quota.reached.v1" // 80 %, and all of it

	GateEngaged   Type = "dev.sluicegate.gate.engaged.v1"   // proven, see [app.Engaged]
	GateReleased  Type = "dev.sluicegate.gate.released.v1"  // switched off, and proven to be off
	GateDenying   Type = "dev.sluicegate.gate.denying.v1"   // every gate, because no checker's view is fresh
	GateRecovered Type = "dev.sluicegate.gate.recovered.v1" // the end of that
)

// Types lists all types.
func Types() []Type {
	return []Type{
		KeyCreated, KeyRotated, KeyDisabled, KeyEnabled, KeyRevoked, KeyExpiring, KeyExpired, KeyLeaked,
		QuotaReached, GateEngaged, GateReleased, GateDenying, GateRecovered,
	}
}

// Kept is for how long an announcement is tried.
const Kept = 24 * time.Hour

// Installation is the subject of what is about all gates at once.
const Installation = "installation"

// Announcement is one event, to be told to the outside at least once. Of the last five fields
// one is there.
type Announcement struct {
	ID          string    // unique for ever; the same each time it is sent
	Type        Type      // "" of a deployment
	Subject     string    // what the order is kept of: an [apikey.ID], an [app.Ref], or [Installation]
	Project     string    // "" of the installation
	Environment string    // e.g. "prod"
	At          time.Time // when it happened, by the writer's clock

	Deployment *Deployment
	Key        *Key
	Quota      *Quota
	Gate       *Gate
	Gates      *Gates
}

// Deployment is the end of one.
type Deployment struct {
	App      app.Ref
	Outcome  deploy.Outcome
	Revision deploy.Revision // as it was then
}

// Key is a key as it was right after what happened to it.
type Key struct {
	ID        apikey.ID
	Name      string
	Plan      plan.ID
	Apps      []string // its scope, as [apikey.Key] has it
	Status    apikey.Status
	ExpiresAt time.Time // zero never
	Within    int       // of key.expiring: days, 14 or 1; 0 of the others
}

// Quota is how far a key's quota is used up.
type Quota struct {
	Key     Key
	Percent int   // 80 or 100
	Quota   int64 // of the plan, then
	Used    int64 // may be more than the quota, unless that is hard
	Period  plan.Period
	Mode    plan.Mode
	ResetAt time.Time // when the period ends
}

// Gate is the gate of one app.
type Gate struct {
	App   app.Ref
	Host  string
	State app.GateState
}

// Gates is what all gates do.
type Gates struct {
	Checkers int       // replicas that are there
	Since    time.Time // when it was first seen; of gate.recovered, when that began which is over
}

// Waiting is an announcement in the outbox.
type Waiting struct {
	Announcement

	Place  Place
	Waited time.Duration // since it was written, by the store's clock
}

// Place is where an announcement stands in the outbox; the zero one is before the first.
type Place struct {
	At time.Time // of its commit, by the store's clock
	ID string
}

// OfDeployment announces that a revision is finished; first says that no other one was live
// before it.
func OfDeployment(a app.App, r deploy.Revision, first bool) Announcement {
	return Announcement{
		ID: rand.Text(), Subject: a.Ref().String(), Project: a.Project, Environment: a.Environment, At: r.FinishedAt,
		Deployment: &Deployment{App: a.Ref(), Outcome: deploy.OutcomeOf(r, first), Revision: r},
	}
}

// OfKey announces what happened to a key.
func OfKey(t Type, k apikey.Key, at time.Time) Announcement {
	shown := keyOf(k)
	return Announcement{
		ID: rand.Text(), Type: t, Subject: string(k.ID()), Project: k.Project, Environment: k.Environment, At: at, Key: &shown,
	}
}

func keyOf(k apikey.Key) Key {
	return Key{ID: k.ID(), Name: k.Name, Plan: k.Plan, Apps: k.Apps, Status: k.Status, ExpiresAt: k.ExpiresAt}
}

// OfKeyChange tells what a change of a key is called outside; ok is false of one that nobody
// is told of.
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

// OfGate announces that an app's gate has come to a state; ok is false of one that nobody is
// told of.
func OfGate(a app.App, before app.GateState) (n Announcement, ok bool) {
	n = Announcement{
		ID: rand.Text(), Type: GateEngaged, Subject: a.Ref().String(), Project: a.Project, Environment: a.Environment, At: a.Gate.Since,
		Gate: &Gate{App: a.Ref(), Host: a.Host, State: a.Gate.State},
	}
	if a.Gate.State == app.Ungated {
		n.Type = GateReleased
	}
	return n, a.Gate.State != before && (a.Gate.State == app.Engaged || a.Gate.State == app.Ungated)
}

// OfGates announces that every gate denies, or that this is over. Its id is of the time when
// it began.
func OfGates(t Type, g Gates, at time.Time) Announcement {
	name := "denying"
	if t == GateRecovered {
		name = "recovered"
	}
	return Announcement{
		ID: fmt.Sprintf("gates.%s.%d", name, g.Since.UnixMicro()), Type: t, Subject: Installation, At: at, Gates: &g,
	}
}
