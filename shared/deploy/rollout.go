package deploy

import (
	"fmt"
	"time"
)

// Observation is the state of an app's workload in the cluster.
type Observation struct {
	Revision   int64
	Ready      bool      // all pods run that revision and serve
	PodReady   bool      // at least one pod of that revision is ready
	Idle       bool      // zero desired replicas
	Message    string    // if not ready
	ProgressAt time.Time // last progress of the rollout; zero if unknown
}

// Observe updates a revision from the state of its workload, and reports whether it changed. A
// rollout without progress for deadline fails (promise D3). The deadline of Kubernetes is not
// used, because it differs between the kinds of workload.
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
	if o.Idle { // the deadline starts when pods are desired
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
		r.Message = fmt.Sprintf("The rollout made no progress for %s: %s", deadline, reason(o.Message))
	case r.Status == RollingOut:
		r.Message = o.Message
	}
	return r, r != before
}

// Refused returns r after the cluster rejected it, and reports whether r changed.
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

const refusal = "The cluster rejected the revision: "

// Delayed sets the reason why the cluster has not accepted a rollout yet, and reports whether r
// changed.
func (r Revision) Delayed(reason string) (Revision, bool) {
	before := r
	if r.Status == RollingOut {
		r.Message = reason
	}
	return r, r != before
}

// Finished reports whether the revision is live or failed.
func (r Revision) Finished() bool { return r.Status == Live || r.Status == Failed }

func supersededBy(n int64) string { return fmt.Sprintf("Revision %d superseded this revision.", n) }

func reason(s string) string {
	if s == "" {
		return "the workload is not ready."
	}
	return s
}
