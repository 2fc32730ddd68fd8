package deploy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// BuildStatus is how far a build is.
type BuildStatus string

// The statuses of a build. Every one after Running is final.
const (
	Queued          BuildStatus = "queued"  // recorded, no run yet
	Running         BuildStatus = "running" // there is a run
	Succeeded       BuildStatus = "succeeded"
	BuildFailed     BuildStatus = "failed"     // also when cancelled or timed out
	BuildSuperseded BuildStatus = "superseded" // it succeeded, but deploys nothing any more
)

// BuildStatuses lists all statuses of a build, in the order in which they can follow.
func BuildStatuses() []BuildStatus {
	return []BuildStatus{Queued, Running, Succeeded, BuildFailed, BuildSuperseded}
}

// MaxQueued is the number of builds of one app that may be queued.
const MaxQueued = 20

// Final tells whether nothing more will come of a build with the status.
func (s BuildStatus) Final() bool { return s != Queued && s != Running }

// maxSeen bounds the events that a build remembers. A run sends four types; the
// rest is room for runs that are started again.
const maxSeen = 16

// Build is one build of a git app.
type Build struct {
	Number  int64         `firestore:"build"`   // 1 and up, ascending within the app
	Commit  string        `firestore:"commit"`  // what was asked for, maybe its first digits, "" for the branch's head; when it is built, the whole hash of what was
	Source  app.GitSource `firestore:"source"`  // what it builds
	Trigger Trigger       `firestore:"trigger"` // of its revision: Webhook or Manual
	Actor   string        `firestore:"actor"`   // who asked for it, e.g. "webhook"
	Status  BuildStatus   `firestore:"status"`
	Message string        `firestore:"message"` // why, for people

	RunUID   string `firestore:"run_uid"` // of its PipelineRun; "" before there is one
	Image    string `firestore:"image"`   // what came out, with a tag
	Digest   string `firestore:"digest"`
	Note     string `firestore:"note"`     // what there is to say about the digest, for its revision
	Revision int64  `firestore:"revision"` // that deployed it; 0 for none

	Seen []string `firestore:"seen"` // events taken in so far, "{run uid}/{type}"

	RequestedAt time.Time `firestore:"requested_at"`
	FinishedAt  time.Time `firestore:"finished_at"` // zero while it is not final
}

// NewBuild makes a build of an app's git source that is still without a number.
func NewBuild(source app.GitSource, commit string, trigger Trigger, actor string, at time.Time) Build {
	return Build{Source: source, Commit: commit, Trigger: trigger, Actor: actor, Status: Queued, RequestedAt: at}
}

// RunName is the name of the build's run, e.g. "hello-build-7-1f0c9a2b": always the
// same, so that the build is never run twice, and another one for the build of that
// number of a later app of the same name. At most 63 characters up to build 999999.
func (b Build) RunName(ref app.Ref) string { return ref.Name + "-" + b.ID() }

// ID tells a build from every other one of its app and of later apps of the same
// name, e.g. "build-7-1f0c9a2b".
func (b Build) ID() string {
	sum := sha256.Sum256([]byte(b.RequestedAt.UTC().Format(time.RFC3339Nano)))
	return fmt.Sprintf("build-%d-%x", b.Number, sum[:4])
}

// Final tells whether nothing more will come of the build.
func (b Build) Final() bool { return b.Status.Final() }

// Run is what is known about the run of a build, from an event or from the run
// itself.
type Run struct {
	UID     string
	Event   string // type of the event, e.g. "successful"; "" when the run was looked at
	Done    bool
	OK      bool // with Done: it built an image
	Stale   bool // with Done: it was not started, because the app has another git source or none
	Image   string
	Digest  string
	Note    string // see [Build]
	Commit  string
	Message string
}

// Observe moves a build on by what is known about its run, and tells whether
// anything has changed. Events may come twice, late and in any order: one that was
// seen before, one of another run and one that comes after the end change nothing.
// A successful end does not make the build final here: [Build.Deploys] decides
// what becomes of its image. But a run that has built another commit than was asked
// for has failed.
func (b Build) Observe(r Run, now time.Time) (Build, bool) {
	if b.Final() || b.RunUID != "" && b.RunUID != r.UID {
		return b, false
	}
	if r.Event != "" {
		mark := r.UID + "/" + r.Event
		if slices.Contains(b.Seen, mark) && !r.Done {
			return b, false
		}
		if !slices.Contains(b.Seen, mark) && len(b.Seen) < maxSeen {
			b.Seen = append(slices.Clip(b.Seen), mark)
		}
	}
	b.RunUID = r.UID
	switch {
	case !r.Done:
		b.Status, b.Message = Running, r.Message
	case r.Stale:
		b.Status, b.Message, b.FinishedAt = BuildSuperseded, r.Message, now
	case !r.OK:
		b.Status, b.Message, b.FinishedAt = BuildFailed, r.Message, now
	case r.Image == "":
		b.Status, b.FinishedAt = BuildFailed, now
		b.Message = "The run succeeded, but names no image in its results."
	case b.misbuilt(r.Commit) != "":
		b.Status, b.Message, b.FinishedAt = BuildFailed, b.misbuilt(r.Commit), now
	default:
		b.Image, b.Digest, b.Note, b.Commit = r.Image, r.Digest, r.Note, r.Commit
	}
	return b, true
}

// misbuilt says what is wrong with the commit that a run says it has built; "" when it
// is the one that was asked for, or when none was and the run says nothing.
func (b Build) misbuilt(commit string) string {
	switch {
	case commit == "" && b.Commit == "":
		return ""
	case commit == "":
		return fmt.Sprintf("Commit %s was asked for, but the run names none in its results.", b.Commit)
	case !wholeCommit(commit):
		return fmt.Sprintf("The run names no commit in its results, but %.80q.", commit)
	case !strings.HasPrefix(commit, b.Commit):
		return fmt.Sprintf("Commit %s was asked for, but the run has built %s.", b.Commit, commit)
	}
	return ""
}

// wholeCommit tells whether s is a commit hash of a SHA-1 or a SHA-256 repository.
func wholeCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Deploys decides whether a build's image is deployed: it is, unless a newer build has
// deployed already, the app was rolled back after the build had been requested, or the
// build's git source was detached or replaced (promises D9, D10, D7). It returns the finished
// build, and the revision to record if deploy is true.
func (b Build) Deploys(a app.App, current Revision, now time.Time) (done Build, rev Revision, deploy bool) {
	b.FinishedAt = now
	switch {
	case current.NewestBuild > b.Number:
		b.Status, b.Message = BuildSuperseded, fmt.Sprintf("Build %d was deployed before this one had finished.", current.NewestBuild)
		return b, Revision{}, false
	case b.Number <= current.HeldBuild:
		b.Status, b.Message = BuildSuperseded, "The app was rolled back after this build had been asked for."
		return b, Revision{}, false
	case a.GitSource == nil:
		b.Status, b.Message = BuildSuperseded, "The git source was detached before this build had finished."
		return b, Revision{}, false
	case *a.GitSource != b.Source:
		b.Status, b.Message = BuildSuperseded, "The git source was replaced before this build had finished."
		return b, Revision{}, false
	}
	b.Status, b.Message = Succeeded, ""
	rev = New(b.Image, b.Digest, b.Trigger, fmt.Sprintf("build %d", b.Number), now)
	rev.Commit, rev.Build, rev.Note = b.Commit, b.Number, b.Note
	return b, rev, true
}
