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

// Pod is a pod that serves an app.
type Pod struct{ App, Namespace, Image, Revision string }

type rollout struct {
	template string // digest
	since    time.Time
	ready    bool
	empty    bool
	serving  *Pod // last pod that became ready; may be nil
}

// step advances a rollout to now, and returns the time of the next step, or zero.
//
// New pods become ready after readyAfter, or never. The previous pod serves until then. A
// rollout that exceeds the progress deadline is reported as failed, but continues.
func step(d *apps.Deployment, r rollout, now time.Time, readyAfter time.Duration) (next rollout, wakeAt time.Time) {
	if digest := templateDigest(d); r.template != digest {
		r.template, r.since, r.ready = digest, now, false
		if seenReady(d) && r.serving == nil {
			r.ready = true
		}
	}
	if r.empty && replicas(d) > 0 {
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
		wakeAt = r.since.Add(deadline(d))
	case !now.Before(r.since.Add(readyAfter)):
		r.ready, r.serving = true, &pod
	default:
		wakeAt = r.since.Add(min(readyAfter, deadline(d)))
	}
	if !wakeAt.After(now) {
		wakeAt = time.Time{}
	}
	return r, wakeAt
}

func seenReady(d *apps.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == replicas(d) && s.AvailableReplicas == replicas(d)
}

func status(d *apps.Deployment, r rollout, now time.Time) apps.DeploymentStatus {
	n := replicas(d)
	s := apps.DeploymentStatus{ObservedGeneration: d.Generation}
	switch {
	case r.ready:
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = n, n, n, n
	case r.serving != nil:
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

// stamped sets a condition's times. They change only if the condition does.
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

func broken(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:] // an earlier colon belongs to a port
	_, tag, _ := strings.Cut(name, ":")
	return tag == brokenTag
}

// missing reports whether no registry has an image, e.g. "registry.example/missing/hello:v1".
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

func templateDigest(d *apps.Deployment) string {
	b, err := json.Marshal(d.Spec.Template)
	if err != nil { // never fails for plain data
		return strings.Repeat("0", 2*sha256.Size)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
