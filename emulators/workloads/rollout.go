package workloads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	revisionAnnotation      = "sluice.dev/revision"
	brokenTag               = "broken" // an image with this tag never becomes ready
	defaultProgressDeadline = 600 * time.Second
)

// Pod is what serves an app.
type Pod struct{ App, Namespace, Image, Revision string }

// rollout is what is known of one Deployment from one look to the next.
type rollout struct {
	template string    // digest of the pod template that is rolled out
	since    time.Time // when that began
	ready    bool      // its pods are
	empty    bool      // it had no replicas
	serving  *Pod      // the last pod that became ready, nil before
}

// step moves a Deployment's rollout to now. again is when there is something to
// do next, zero if only a change of the Deployment can bring anything.
//
// It is what the deployment controller and a kubelet do together, as seen from
// outside: pods of a new template become ready after readyAfter, or never; the
// former pod serves until then; a rollout that takes longer than the progress
// deadline is said to have failed, but goes on.
func step(d *apps.Deployment, r rollout, now time.Time, readyAfter time.Duration) (next rollout, again time.Time) {
	if digest := templateDigest(d); r.template != digest {
		r.template, r.since, r.ready = digest, now, false
		if seenReady(d) && r.serving == nil {
			r.ready = true // it became ready before this process started
		}
	}
	if r.empty && replicas(d) > 0 { // new pods have to become ready
		r.since, r.ready = now, false
	}
	r.empty = replicas(d) == 0
	pod := podOf(d)
	switch {
	case replicas(d) == 0:
		r.serving, r.ready = nil, true
	case r.ready:
		r.serving = &pod
	case broken(pod.Image) || missing(pod.Image):
		again = r.since.Add(deadline(d))
	case !now.Before(r.since.Add(readyAfter)):
		r.ready, r.serving = true, &pod
	default:
		again = r.since.Add(min(readyAfter, deadline(d)))
	}
	if !again.After(now) {
		again = time.Time{}
	}
	return r, again
}

// seenReady tells whether the status already says that all is done.
func seenReady(d *apps.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == replicas(d) && s.AvailableReplicas == replicas(d)
}

// status tells a rollout the way the deployment controller does.
func status(d *apps.Deployment, r rollout, now time.Time) apps.DeploymentStatus {
	n := replicas(d)
	s := apps.DeploymentStatus{ObservedGeneration: d.Generation}
	switch {
	case r.ready:
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = n, n, n, n
	case r.serving != nil: // one new pod beside the old ones
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas = n+1, 1, n, n, 1
	default:
		s.Replicas, s.UpdatedReplicas, s.UnavailableReplicas = n, n, n
	}
	available := condition(apps.DeploymentAvailable, core.ConditionTrue,
		"MinimumReplicasAvailable", "Deployment has minimum availability.")
	if n > 0 && s.AvailableReplicas == 0 {
		available = condition(apps.DeploymentAvailable, core.ConditionFalse,
			"MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	set := fmt.Sprintf("ReplicaSet %q", d.Name+"-"+r.template[:10])
	progress := condition(apps.DeploymentProgressing, core.ConditionTrue, "ReplicaSetUpdated", set+" is progressing.")
	switch {
	case r.ready:
		progress = condition(apps.DeploymentProgressing, core.ConditionTrue,
			"NewReplicaSetAvailable", set+" has successfully progressed.")
	case !now.Before(r.since.Add(deadline(d))):
		progress = condition(apps.DeploymentProgressing, core.ConditionFalse,
			"ProgressDeadlineExceeded", set+" has timed out progressing.")
	}
	for _, c := range []apps.DeploymentCondition{available, progress} {
		s.Conditions = append(s.Conditions, stamped(c, d.Status.Conditions, now))
	}
	return s
}

func condition(t apps.DeploymentConditionType, s core.ConditionStatus, reason, message string) apps.DeploymentCondition {
	return apps.DeploymentCondition{Type: t, Status: s, Reason: reason, Message: message}
}

// stamped gives a condition its times: those it had while nothing changes.
func stamped(c apps.DeploymentCondition, before []apps.DeploymentCondition, now time.Time) apps.DeploymentCondition {
	c.LastUpdateTime = meta.NewTime(now.Truncate(time.Second))
	c.LastTransitionTime = c.LastUpdateTime
	for _, b := range before {
		if b.Type != c.Type || b.Status != c.Status {
			continue
		}
		c.LastTransitionTime = b.LastTransitionTime
		if b.Reason == c.Reason && b.Message == c.Message {
			c.LastUpdateTime = b.LastUpdateTime
		}
	}
	return c
}

func podOf(d *apps.Deployment) Pod {
	p := Pod{App: d.Name, Namespace: d.Namespace, Revision: d.Spec.Template.Annotations[revisionAnnotation]}
	if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
		p.Image = c[0].Image
	}
	return p
}

// broken tells whether an image's tag is the one that never becomes ready.
func broken(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:] // a colon before it is a port's
	_, tag, _ := strings.Cut(name, ":")
	return tag == brokenTag
}

// missing tells whether an image is one that no registry has, such as
// "registry.example/missing/hello:v1".
func missing(image string) bool {
	_, path, _ := strings.Cut(image, "/")
	return strings.HasPrefix(path, "missing/")
}

func replicas(d *apps.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func deadline(d *apps.Deployment) time.Duration {
	if d.Spec.ProgressDeadlineSeconds == nil {
		return defaultProgressDeadline
	}
	return time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second
}

// templateDigest tells pod templates apart.
func templateDigest(d *apps.Deployment) string {
	b, err := json.Marshal(d.Spec.Template)
	if err != nil { // plain data: it can't
		return strings.Repeat("0", 2*sha256.Size)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
