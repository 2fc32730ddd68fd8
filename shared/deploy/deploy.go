// Package deploy contains the rules for deployments and builds (promises D1, D3, D4, D6, D9, D10).
//
// # Revisions
//
// Each deployment of an app is a [Revision]; their numbers ascend. The newest one is the app's
// current revision. The status of a revision changes as follows:
//
//	rolling_out ──► live ──────► superseded
//	     │  ▲         (a newer revision became live)
//	     ▼  │
//	   failed                    rolling_out ──► superseded
//	                               (a newer revision was recorded)
//
// A live revision stays live while the next one rolls out or fails, because its pods still serve.
// A failed revision stays current, and becomes live if its pods become ready after all.
//
// # Rollback
//
// A rollback is a new revision with the image, digest and commit of another revision, its source.
//
//   - If the caller names a revision, it is the source, even if it is current or failed.
//   - Otherwise the source is the newest earlier revision that ever had a ready pod. If there is
//     none, it is the newest earlier revision that did not fail. Without a source, the call
//     returns a no_previous_revision problem.
//   - A second rollback by default undoes the first one, because the new revision of a rollback
//     also counts as an earlier revision.
//   - Builds that were requested before a rollback are superseded. The order of the store's
//     transactions decides, not clocks. Later builds are deployed. Promotions and manual
//     deployments do not supersede builds.
//
// # Promotion
//
// A promotion is a new revision with the image, digest and commit of a revision of another app, its
// source. That app has the same name, but is in another environment. By default, the source is the
// newest revision that ever had a ready pod. The call returns a revision_not_live problem if the
// source never had one. A git app rejects promotions and manual deployments.
package deploy

import (
	"iter"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// Trigger is the origin of a deployment (promise D1).
type Trigger string

// The triggers.
const (
	Webhook   Trigger = "webhook" // a webhook call, directly or through a build
	Manual    Trigger = "manual"  // a user, directly or through a build
	Promotion Trigger = "promotion"
	Rollback  Trigger = "rollback"
)

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{Webhook, Manual, Promotion, Rollback} }

// Status is the status of a revision.
type Status string

// The statuses of a revision.
const (
	RollingOut Status = "rolling_out"
	Live       Status = "live"
	Failed     Status = "failed"
	Superseded Status = "superseded"
)

// Statuses returns all statuses of a revision.
func Statuses() []Status { return []Status{RollingOut, Live, Failed, Superseded} }

// AppStatus is the status of an app: that of its current revision, or Idle.
type AppStatus string

// Idle is the status of an app whose workload has zero desired replicas. The status of its
// revision does not change, and the revision's deadline starts when the workload is scaled up.
const Idle AppStatus = "idle"

// AppStatuses returns all statuses of an app.
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

// Revision is a deployment of an app.
type Revision struct {
	Number            int64   `firestore:"revision"` // ascending within the app
	Image             string  `firestore:"image"`    // as requested
	Digest            string  `firestore:"digest"`   // of the tag when accepted, e.g. "sha256:9f86…", or ""
	Commit            string  `firestore:"commit"`
	Trigger           Trigger `firestore:"trigger"`
	Actor             string  `firestore:"actor"`              // username, "webhook" or e.g. "build 7"
	Source            int64   `firestore:"source_revision"`    // of a rollback or promotion, or 0
	SourceEnvironment string  `firestore:"source_environment"` // of a promotion, or ""
	Note              string  `firestore:"note"`               // why the digest is missing
	Status            Status  `firestore:"status"`
	Message           string  `firestore:"message"` // reason for the status
	Idle              bool    `firestore:"idle"`    // zero desired replicas

	DeployedAt time.Time `firestore:"deployed_at"`
	AppliedAt  time.Time `firestore:"applied_at"` // accepted by the cluster; zero before
	ReadyAt    time.Time `firestore:"ready_at"`   // first ready pod; zero before
	FinishedAt time.Time `firestore:"settled_at"` // last became live or failed; zero before

	Build       int64 `firestore:"build"`        // build of the image, or 0
	NewestBuild int64 `firestore:"newest_build"` // highest deployed build so far, see [Build.Deploys]
	HeldBuild   int64 `firestore:"held_build"`   // highest build before the last rollback
}

// New returns a revision without a number.
func New(image, digest string, trigger Trigger, actor string, at time.Time) Revision {
	return Revision{Image: image, Digest: digest, Trigger: trigger, Actor: actor, Status: RollingOut, DeployedAt: at}
}

// First returns an app's first revision. It has no actor and no digest.
func First(a app.App) Revision {
	r := New(a.Image, "", Manual, "", a.CreatedAt)
	r.Number = a.Revision
	return r
}

// Copy returns a revision without a number that rolls back to r or promotes it.
func (r Revision) Copy(trigger Trigger, actor string, at time.Time) Revision {
	c := New(r.Image, r.Digest, trigger, actor, at)
	c.Commit, c.Source = r.Commit, r.Number
	if r.Digest == "" {
		c.Note = r.Note
	}
	return c
}

// Runs returns the image reference for the cluster, e.g.
// "registry.example.com/hello:v2@sha256:9f86…".
func (r Revision) Runs() string {
	if r.Digest == "" || strings.Contains(r.Image, "@") {
		return r.Image
	}
	return r.Image + "@" + r.Digest
}

// DisplayMessage returns the note and the message.
func (r Revision) DisplayMessage() string { return strings.TrimSpace(r.Note + " " + r.Message) }

// NoDigest returns the reason for a missing digest, or "".
func (r Revision) NoDigest() string {
	switch {
	case r.Digest != "":
		return ""
	case r.Note != "":
		return r.Note
	}
	return "The tag was deployed without a digest, because no registry was queried."
}

// After returns r as the successor of current, with a number. highest is the highest revision
// number in use, builds the highest build number.
func (r Revision) After(current Revision, highest, builds int64) Revision {
	r.Number = max(current.Number, highest) + 1
	r.NewestBuild = max(current.NewestBuild, r.Build)
	r.HeldBuild = current.HeldBuild
	if r.Trigger == Rollback {
		r.HeldBuild = builds
	}
	return r
}

// FirstReady returns the time at which a pod was first ready, or zero. Earlier versions of Sluice
// stored no ReadyAt; their revisions had a ready pod if they were ever live.
func (r Revision) FirstReady() time.Time {
	if r.ReadyAt.IsZero() && (r.Status == Live || r.Status == Superseded) {
		return r.FinishedAt
	}
	return r.ReadyAt
}

// Worked reports whether a pod of the revision was ever ready.
func (r Revision) Worked() bool { return !r.FirstReady().IsZero() }

// Previous returns the default source of a rollback, from a history in descending order. It
// returns false if there is none.
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

// Supersede returns r after a newer revision was recorded, and reports whether r changed.
func (r Revision) Supersede(by int64) (Revision, bool) {
	if r.Status != RollingOut {
		return r, false
	}
	r.Status, r.Message = Superseded, supersededBy(by)
	return r, true
}

// Replaced returns the live revision r after a newer one became live.
func (r Revision) Replaced(by int64) Revision {
	r.Status, r.Message = Superseded, supersededBy(by)
	return r
}

// Outcome is the reported end of a deployment.
type Outcome string

// The outcomes of a deployment.
const (
	Deployed   Outcome = "deployed" // the first revision became live
	Upgraded   Outcome = "upgraded"
	RolledBack Outcome = "rolledback"
	Broke      Outcome = "failed"
)

// OutcomeFor returns the outcome of a finished revision. first is true if no earlier revision was
// live.
func OutcomeFor(r Revision, first bool) Outcome {
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
