// Package deploy holds the rules of deployments and builds: what a revision is,
// how it moves on, what a rollback or a promotion copies, and which of two builds
// wins (promises D1, D3, D4, D6, D9, D10).
//
// # Revisions
//
// Each deployment of an app is a [Revision] with a number of its own, given out in
// ascending order and never again. The newest is the app's current one: what shall
// run. Its status says what is:
//
//	rolling_out ──► live ──────► superseded
//	     │  ▲         (a newer revision became live)
//	     ▼  │
//	   failed                    rolling_out ──► superseded
//	                               (a newer revision was recorded)
//
// The revision that was live stays live while the next one rolls out and when
// that one fails, because it is what serves. A failed revision stays the current
// one, and its workload stays in the cluster beside the pods that serve: should it
// become ready after all (the missing image was pushed), it becomes live. Whoever
// doesn't want that rolls back.
//
// # Rollback
//
// A rollback is a new revision with the image, digest and commit of an older one
// (its source), whatever the tag points to by now.
//
//   - Without a number it takes the last revision before the current one that ever had a
//     ready pod ([Revision.Worked]). If no revision had one, it takes the nearest earlier
//     revision that did not fail. Without such a revision it is no_previous_revision.
//   - With a number it takes exactly that one. A failed one is tried again, the
//     current one is deployed again (its pods are replaced). One that does not exist
//     is not_found.
//   - Of a rollback: source is the rollback itself, not what it was made from. So
//     two rollbacks without a number, one after the other, end where they began.
//   - While another revision is rolling out: that one is superseded, and "before the
//     current one" means before it.
//   - A git app can be rolled back too; it stays a git app. Its builds that were asked
//     for before the rollback don't undo it, whenever they end: they are superseded.
//     What was asked for before is decided by the order of commits, not by clocks. A
//     build that is asked for later is deployed. Promotions and deployments by hand do
//     not hold builds up.
//
// # Promotion
//
// A promotion is a new revision with the image, digest and commit of a revision of the app
// of the same name in another environment of the project. It takes only a revision that
// ever had a ready pod, otherwise it is revision_not_live. Without a number it takes the
// newest such revision. It records the environment and the revision. A git app takes no
// promotion (git_source_attached), as it takes no deployment by hand.
//
// # Idle
//
// An app whose workload has zero desired replicas is idle. Its revision stays what it is: one
// that is rolling out cannot become live without a pod, and its deadline starts when the
// workload is scaled up.
package deploy

import (
	"iter"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// Trigger is how a deployment came about (promise D1).
type Trigger string

// The triggers.
const (
	Webhook   Trigger = "webhook" // a CI system's call, or a build that one asked for
	Manual    Trigger = "manual"  // an operator's call, or a build that one asked for
	Promotion Trigger = "promotion"
	Rollback  Trigger = "rollback"
)

// Triggers lists all triggers.
func Triggers() []Trigger { return []Trigger{Webhook, Manual, Promotion, Rollback} }

// Status is how far a revision is.
type Status string

// The statuses; the package's documentation says how they follow on each other.
const (
	RollingOut Status = "rolling_out"
	Live       Status = "live"
	Failed     Status = "failed"
	Superseded Status = "superseded"
)

// Statuses lists all statuses of a revision.
func Statuses() []Status { return []Status{RollingOut, Live, Failed, Superseded} }

// AppStatus is the status of an app's deployment: that of its current revision, or Idle.
type AppStatus string

// Idle is the status of an app whose workload has zero desired replicas. No revision has it.
const Idle AppStatus = "idle"

// AppStatuses lists all statuses of an app's deployment.
func AppStatuses() []AppStatus {
	all := []AppStatus{Idle}
	for _, status := range Statuses() {
		all = append(all, AppStatus(status))
	}
	return all
}

// AppStatus returns the status of an app whose current revision is r.
func (r Revision) AppStatus() AppStatus {
	if r.Idle && r.Status != Failed {
		return Idle
	}
	return AppStatus(r.Status)
}

// Revision is one deployment of an app.
type Revision struct {
	Number            int64   `firestore:"revision"` // 1 and up, ascending within the app
	Image             string  `firestore:"image"`    // as asked for, e.g. "registry.example.com/hello:v2"
	Digest            string  `firestore:"digest"`   // what the tag was when accepted, e.g. "sha256:9f86…"; "" when unknown, see [Revision.NoDigest]
	Commit            string  `firestore:"commit"`   // git commit, "" when unknown
	Trigger           Trigger `firestore:"trigger"`
	Actor             string  `firestore:"actor"`              // who: a username, or "webhook", or "build 7"
	Source            int64   `firestore:"source_revision"`    // revision that a rollback or promotion copied; 0 for others
	SourceEnvironment string  `firestore:"source_environment"` // environment that a promotion copied it from; "" for others
	Note              string  `firestore:"note"`               // what there is to say about how it was recorded; stays
	Status            Status  `firestore:"status"`
	Message           string  `firestore:"message"` // why the status is what it is; "" when all is well
	Idle              bool    `firestore:"idle"`    // its workload has zero desired replicas

	DeployedAt time.Time `firestore:"deployed_at"` // when it was recorded
	AppliedAt  time.Time `firestore:"applied_at"`  // when the cluster first took it; zero before
	ReadyAt    time.Time `firestore:"ready_at"`    // when one of its pods was first seen ready; zero before
	FinishedAt time.Time `firestore:"settled_at"`  // when it last became live or failed; zero before

	Build       int64 `firestore:"build"`        // the build that made it; 0 for none
	NewestBuild int64 `firestore:"newest_build"` // the highest build number deployed up to here, see [Build.Deploys]
	HeldBuild   int64 `firestore:"held_build"`   // the highest build number asked for before the last rollback up to here, see [Build.Deploys]
}

// New makes the revision that runs an image, still without a number.
func New(image, digest string, trigger Trigger, actor string, at time.Time) Revision {
	return Revision{Image: image, Digest: digest, Trigger: trigger, Actor: actor, Status: RollingOut, DeployedAt: at}
}

// First is an app's first revision: the image that it was made with. Its actor and its
// digest are the caller's to add.
func First(a app.App) Revision {
	r := New(a.Image, "", Manual, "", a.CreatedAt)
	r.Number = a.Revision
	return r
}

// Copy makes the revision that runs what r runs, still without a number: a
// rollback to r or a promotion of r.
func (r Revision) Copy(trigger Trigger, actor string, at time.Time) Revision {
	c := New(r.Image, r.Digest, trigger, actor, at)
	c.Commit, c.Source = r.Commit, r.Number
	if r.Digest == "" {
		c.Note = r.Note
	}
	return c
}

// Runs is the image reference that the cluster is given: the very bytes where the
// digest is known, e.g. "registry.example.com/hello:v2@sha256:9f86…".
func (r Revision) Runs() string {
	if r.Digest == "" || strings.Contains(r.Image, "@") {
		return r.Image
	}
	return r.Image + "@" + r.Digest
}

// Says is the revision's message for people: the note and why the status is what
// it is.
func (r Revision) Says() string { return strings.TrimSpace(r.Note + " " + r.Message) }

// NoDigest says to people why the digest is not known; "" when it is.
func (r Revision) NoDigest() string {
	switch {
	case r.Digest != "":
		return ""
	case r.Note != "": // the registry was asked
		return r.Note
	}
	return "The tag was deployed without a digest, because no registry was asked for it."
}

// After gives the revision its place after current, the zero Revision for the
// first; highest is the highest number given out so far, and builds the highest one
// given to a build.
func (r Revision) After(current Revision, highest, builds int64) Revision {
	r.Number = max(current.Number, highest) + 1
	r.NewestBuild = max(current.NewestBuild, r.Build)
	r.HeldBuild = current.HeldBuild
	if r.Trigger == Rollback {
		r.HeldBuild = builds
	}
	return r
}

// FirstReady returns the time when a pod of the revision was first ready, zero if none was.
// Earlier versions of Sluice stored no ReadyAt: their revisions had a ready pod if they were
// ever live.
func (r Revision) FirstReady() time.Time {
	if r.ReadyAt.IsZero() && (r.Status == Live || r.Status == Superseded) {
		return r.FinishedAt
	}
	return r.ReadyAt
}

// Worked reports whether a pod of the revision was ever ready.
func (r Revision) Worked() bool { return !r.FirstReady().IsZero() }

// Previous returns the revision that a rollback from revision current takes without a
// number. The history is in descending order. It returns false if there is none.
func Previous(history iter.Seq2[Revision, error], current int64) (Revision, bool, error) {
	var fallback Revision
	for r, err := range history {
		if err != nil {
			return Revision{}, false, err
		}
		switch {
		case r.Number >= current:
		case r.Worked():
			return r, true, nil
		case fallback.Number == 0 && r.Status != Failed:
			fallback = r
		}
	}
	return fallback, fallback.Number != 0, nil
}

// Overtaken is what becomes of r when a newer revision is recorded: one that was
// rolling out is superseded, every other one stays what it is.
func (r Revision) Overtaken(by int64) (Revision, bool) {
	if r.Status != RollingOut {
		return r, false
	}
	r.Status, r.Message = Superseded, overtakenBy(by)
	return r, true
}

// Replaced is what becomes of a live r when a newer revision has become live.
func (r Revision) Replaced(by int64) Revision {
	r.Status, r.Message = Superseded, overtakenBy(by)
	return r
}

// Outcome is what is told of the end of a deployment.
type Outcome string

// The outcomes of a deployment.
const (
	Deployed   Outcome = "deployed"   // the app's first revision became live
	Upgraded   Outcome = "upgraded"   // a revision took another one's place
	RolledBack Outcome = "rolledback" // so did a rollback
	Broke      Outcome = "failed"
)

// OutcomeOf is how a revision that is finished has ended; first says that no other one was
// live before it.
func OutcomeOf(r Revision, first bool) Outcome {
	switch {
	case r.Status == Failed:
		return Broke
	case r.Trigger == Rollback:
		return RolledBack
	case first:
		return Deployed
	}
	return Upgraded
}
