package deploy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// BuildStatus is the status of a build.
type BuildStatus string

// The statuses of a build.
const (
	Queued          BuildStatus = "queued"  // without a run
	Running         BuildStatus = "running" // has a run
	Succeeded       BuildStatus = "succeeded"
	BuildFailed     BuildStatus = "failed"     // includes canceled and timed out
	BuildSuperseded BuildStatus = "superseded" // succeeded, but not deployed
)

// BuildStatuses returns all statuses of a build.
func BuildStatuses() []BuildStatus {
	return []BuildStatus{Queued, Running, Succeeded, BuildFailed, BuildSuperseded}
}

// MaxQueued is the maximum number of queued builds of an app.
const MaxQueued = 20

// Final reports whether the status can no longer change.
func (s BuildStatus) Final() bool { return s != Queued && s != Running }

// maxSeen limits the stored events. A run normally sends four types.
const maxSeen = 16

// Build is a build of a git app.
type Build struct {
	Number  int64         `firestore:"build"`  // ascending within the app
	Commit  string        `firestore:"commit"` // requested hash or prefix, or "" for the branch's head; after the build, the full hash
	Source  app.GitSource `firestore:"source"`
	Trigger Trigger       `firestore:"trigger"` // of its revision: Webhook or Manual
	Actor   string        `firestore:"actor"`   // requester, e.g. "webhook"
	Status  BuildStatus   `firestore:"status"`
	Message string        `firestore:"message"` // for people

	RunUID   string `firestore:"run_uid"` // of its PipelineRun, or ""
	Image    string `firestore:"image"`   // with a tag
	Digest   string `firestore:"digest"`
	Note     string `firestore:"note"`     // about the digest
	Revision int64  `firestore:"revision"` // deployed from the build, or 0

	Seen []string `firestore:"seen"` // processed events, "{run uid}/{type}"

	RequestedAt time.Time `firestore:"requested_at"`
	FinishedAt  time.Time `firestore:"finished_at"` // zero until the status is final
}

// NewBuild returns a build without a number.
func NewBuild(source app.GitSource, commit string, trigger Trigger, actor string, at time.Time) Build {
	return Build{Source: source, Commit: commit, Trigger: trigger, Actor: actor, Status: Queued, RequestedAt: at}
}

// RunName returns the name of the build's run, e.g. "hello-build-7-1f0c9a2b". It is stable, so
// that a build runs only once. It has at most 63 characters up to build 999999.
func (b Build) RunName(ref app.Ref) string { return ref.Name + "-" + b.ID() }

// ID returns the build's ID, e.g. "build-7-1f0c9a2b". A later app with the same name has different
// IDs.
func (b Build) ID() string {
	sum := sha256.Sum256([]byte(b.RequestedAt.UTC().Format(time.RFC3339Nano)))
	return fmt.Sprintf("build-%d-%x", b.Number, sum[:4])
}

// Final reports whether the build has ended.
func (b Build) Final() bool { return b.Status.Final() }

// Run is the state of a build's run, from an event or the cluster.
type Run struct {
	UID     string
	Event   string // e.g. "successful", or "" if read from the cluster
	Done    bool
	OK      bool // with Done: succeeded
	Stale   bool // with Done: never started, because the git source changed
	Image   string
	Digest  string
	Note    string // about the digest
	Commit  string
	Message string
}

// Observe updates a build from the state of its run, and reports whether it changed. Events can
// be repeated, late and unordered: events of other runs, events of a final build, and repeated
// events before the end of the run have no effect. A successful run does not make the build
// final; see [Build.Deploys]. If the run built another commit than requested, the build fails.
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
		b.Message = "The run succeeded, but its results contain no image. Set IMAGE_URL in the pipeline."
	case b.commitProblem(r.Commit) != "":
		b.Status, b.Message, b.FinishedAt = BuildFailed, b.commitProblem(r.Commit), now
	default:
		b.Image, b.Digest, b.Note, b.Commit = r.Image, r.Digest, r.Note, r.Commit
	}
	return b, true
}

// commitProblem describes the problem with the commit that the run reports, or returns "". The
// run may omit the commit if none was requested.
func (b Build) commitProblem(commit string) string {
	switch {
	case commit == "" && b.Commit == "":
		return ""
	case commit == "":
		return fmt.Sprintf("Commit %s was requested, but the run's results contain no commit. Set COMMIT in the pipeline.", b.Commit)
	case !fullCommit(commit):
		return fmt.Sprintf("The run's COMMIT result is not a full commit hash: %.80q.", commit)
	case !strings.HasPrefix(commit, b.Commit):
		return fmt.Sprintf("Commit %s was requested, but the run built %s.", b.Commit, commit)
	}
	return ""
}

func fullCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Deploys returns the final build and reports whether to deploy its image as rev (promises D7,
// D9, D10). The build is superseded if a newer build was deployed, the app was rolled back after
// the request, or the git source changed.
func (b Build) Deploys(a app.App, current Revision, now time.Time) (done Build, rev Revision, deploy bool) {
	b.FinishedAt = now
	switch {
	case current.NewestBuild > b.Number:
		b.Status, b.Message = BuildSuperseded, fmt.Sprintf("Build %d was deployed before this build finished.", current.NewestBuild)
		return b, Revision{}, false
	case b.Number <= current.HeldBuild:
		b.Status, b.Message = BuildSuperseded, "The app was rolled back after this build was requested."
		return b, Revision{}, false
	case a.GitSource == nil:
		b.Status, b.Message = BuildSuperseded, "The git source was removed before this build finished."
		return b, Revision{}, false
	case *a.GitSource != b.Source:
		b.Status, b.Message = BuildSuperseded, "The git source was replaced before this build finished."
		return b, Revision{}, false
	}
	b.Status, b.Message = Succeeded, ""
	rev = New(b.Image, b.Digest, b.Trigger, fmt.Sprintf("build %d", b.Number), now)
	rev.Commit, rev.Build, rev.Note = b.Commit, b.Number, b.Note
	return b, rev, true
}
