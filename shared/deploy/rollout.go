package deploy

import (
	"fmt"
	"time"
)

// Observation is what the cluster reports about an app's workload.
type Observation struct {
	Revision   int64     // that the workload shall run
	Ready      bool      // every pod is of that revision and serves
	PodReady   bool      // at least one pod of that revision is ready
	Idle       bool      // the workload has zero desired replicas
	Message    string    // why it is not ready
	ProgressAt time.Time // when the rollout last got on; zero when unknown
}

// Observe moves a revision on by what the cluster reports about its workload, and
// tells whether anything has changed. deadline is how long a rollout may make no
// progress (120 s by default, promise D3); it is this rule's own and not
// Kubernetes' verdict, so that it means the same for every kind of workload.
func (r Revision) Observe(o Observation, deadline time.Duration, now time.Time) (Revision, bool) {
	before := r
	if o.Revision != r.Number {
		return r, false
	}
	if r.ReadyAt.IsZero() && (o.Ready || o.PodReady) {
		r.ReadyAt = now
	}
	r.Idle = o.Idle
	if r.Status == Live || r.Status == Superseded {
		return r, r != before
	}
	if o.Idle { // the deadline starts when there are to be pods
		r.AppliedAt = time.Time{}
		if r.Status == RollingOut {
			r.Message = o.Message
		}
		return r, r != before
	}
	if r.AppliedAt.IsZero() {
		r.AppliedAt = now
	}
	if o.Ready {
		r.Status, r.Message, r.FinishedAt = Live, "", now
		return r, true
	}
	since := r.AppliedAt
	if o.ProgressAt.After(since) && !o.ProgressAt.After(now) {
		since = o.ProgressAt
	}
	switch {
	case r.Status == RollingOut && now.Sub(since) >= deadline:
		r.Status, r.FinishedAt = Failed, now
		r.Message = fmt.Sprintf("It made no progress for %s: %s", deadline, reason(o.Message))
	case r.Status == RollingOut:
		r.Message = o.Message
	}
	return r, r != before
}

// Refused is what becomes of a revision that the cluster does not take. The
// reason is shown to people.
func (r Revision) Refused(reason string, now time.Time) (Revision, bool) {
	before := r
	switch r.Status {
	case RollingOut:
		r.Status, r.FinishedAt = Failed, now
		r.Message = refusal + reason
	case Failed:
		r.Message = refusal + reason
	case Live, Superseded:
	}
	return r, r != before
}

const refusal = "The cluster refused it: "

// Delayed notes why a revision that is rolling out has not reached the cluster yet.
func (r Revision) Delayed(reason string) (Revision, bool) {
	before := r
	if r.Status == RollingOut {
		r.Message = reason
	}
	return r, r != before
}

// Finished tells whether the deployment has come to its end, for better or worse.
func (r Revision) Finished() bool { return r.Status == Live || r.Status == Failed }

func overtakenBy(n int64) string { return fmt.Sprintf("Revision %d took its place.", n) }

func reason(s string) string {
	if s == "" {
		return "the workload is not ready."
	}
	return s
}
