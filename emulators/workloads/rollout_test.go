package workloads

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const testReadyAfter = time.Second

func start() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

// deployment has a progress deadline of 10 s.
func deployment(image string, generation int64) *apps.Deployment {
	var limit int32 = 10
	return &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "hello", Namespace: "shop-prod", Generation: generation},
		Spec: apps.DeploymentSpec{
			ProgressDeadlineSeconds: &limit,
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{revisionAnnotation: "1"}},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "app", Image: image}}},
			},
		},
	}
}

type brief struct {
	Replicas, Updated, Ready, Unavailable int32
	Available, Progressing                string // "status reason"
	Serving                               string
}

func briefly(d *apps.Deployment, r rollout, now time.Time) brief {
	s := status(d, r, now)
	b := brief{Replicas: s.Replicas, Updated: s.UpdatedReplicas, Ready: s.ReadyReplicas, Unavailable: s.UnavailableReplicas}
	for _, c := range s.Conditions {
		text := string(c.Status) + " " + c.Reason
		if c.Type == apps.DeploymentAvailable {
			b.Available = text
		} else {
			b.Progressing = text
		}
	}
	if r.serving != nil {
		b.Serving = r.serving.Image
	}
	return b
}

func TestRollout(t *testing.T) {
	t.Parallel()
	const v1, v2, bad = "registry.example/hello:v1", "registry.example/hello:v2", "registry.example/hello:broken"
	type stage struct {
		after  time.Duration
		image  string
		want   brief
		wakeAt time.Duration // since the start, 0 for never
	}
	var (
		coming = brief{
			Replicas: 1, Updated: 1, Unavailable: 1,
			Available: "False MinimumReplicasUnavailable", Progressing: "True ReplicaSetUpdated",
		}
		up = func(image string) brief {
			return brief{1, 1, 1, 0, "True MinimumReplicasAvailable", "True NewReplicaSetAvailable", image}
		}
		over = func(image string) brief {
			return brief{2, 1, 1, 1, "True MinimumReplicasAvailable", "True ReplicaSetUpdated", image}
		}
		stuck = func(image string) brief {
			return brief{2, 1, 1, 1, "True MinimumReplicasAvailable", "False ProgressDeadlineExceeded", image}
		}
		never = brief{
			Replicas: 1, Updated: 1, Unavailable: 1,
			Available: "False MinimumReplicasUnavailable", Progressing: "False ProgressDeadlineExceeded",
		}
	)
	tests := []struct {
		name   string
		stages []stage
	}{
		{"first image", []stage{
			{0, v1, coming, time.Second},
			{time.Second, v1, up(v1), 0},
			{time.Hour, v1, up(v1), 0},
		}},
		{"a new image: the old one serves until the new one is ready", []stage{
			{0, v1, coming, time.Second},
			{time.Second, v1, up(v1), 0},
			{5 * time.Second, v2, over(v1), 6 * time.Second},
			{6 * time.Second, v2, up(v2), 0},
		}},
		{"broken from the start", []stage{
			{0, bad, coming, 10 * time.Second},
			{9 * time.Second, bad, coming, 10 * time.Second},
			{10 * time.Second, bad, never, 0},
		}},
		{"broken later: the old one continues to serve", []stage{
			{0, v1, coming, time.Second},
			{time.Second, v1, up(v1), 0},
			{2 * time.Second, bad, over(v1), 12 * time.Second},
			{12 * time.Second, bad, stuck(v1), 0},
			{20 * time.Second, v2, over(v1), 21 * time.Second},
			{21 * time.Second, v2, up(v2), 0},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r rollout
			for i, l := range tt.stages {
				d := deployment(l.image, int64(i+1))
				now := start().Add(l.after)
				var wakeAt time.Time
				r, wakeAt = step(d, r, now, testReadyAfter)
				if diff := cmp.Diff(l.want, briefly(d, r, now)); diff != "" {
					t.Errorf("stage %d (-want +got):\n%s", i, diff)
				}
				if (l.wakeAt == 0) != wakeAt.IsZero() || (l.wakeAt != 0 && !wakeAt.Equal(start().Add(l.wakeAt))) {
					t.Errorf("stage %d: got wakeAt %v, want %v after the start", i, wakeAt, l.wakeAt)
				}
			}
		})
	}
}

func TestScaledToZero(t *testing.T) {
	t.Parallel()
	d := deployment("registry.example/hello:v1", 1)
	var none int32
	d.Spec.Replicas = &none
	r, wakeAt := step(d, rollout{}, start(), testReadyAfter)
	want := brief{Available: "True MinimumReplicasAvailable", Progressing: "True NewReplicaSetAvailable"}
	if diff := cmp.Diff(want, briefly(d, r, start())); diff != "" || !wakeAt.IsZero() {
		t.Errorf("got wakeAt %v, want zero (-want +got):\n%s", wakeAt, diff)
	}
}

func TestAvailableBefore(t *testing.T) {
	t.Parallel()
	d := deployment("registry.example/hello:v1", 3)
	d.Status = apps.DeploymentStatus{ObservedGeneration: 3, UpdatedReplicas: 1, AvailableReplicas: 1}
	if r, _ := step(d, rollout{}, start(), testReadyAfter); r.serving == nil || !r.ready {
		t.Error("got a Deployment that is not ready, want a serving one")
	}
}

func TestConditionTimesStayWhileNothingChanges(t *testing.T) {
	t.Parallel()
	d := deployment("registry.example/hello:v1", 1)
	r, _ := step(d, rollout{}, start(), 0)
	d.Status = status(d, r, start())
	later := status(d, r, start().Add(time.Hour))
	if diff := cmp.Diff(d.Status, later); diff != "" {
		t.Errorf("the status changed without a change of the Deployment (-before +after):\n%s", diff)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]bool{
		"registry.example/hello:broken":                 true,
		"registry.example:5000/hello:broken":            true,
		"hello:broken@sha256:" + "0123456789abcdef":     true,
		"registry.example/hello:v1":                     false,
		"registry.example/broken:v1":                    false,
		"registry.example/hello":                        false,
		"broken:5000/hello":                             false,
		"registry.example/hello:broken-not":             false,
		"registry.example/hello@sha256:0123456789abcde": false,
	} {
		if got := broken(image); got != want {
			t.Errorf("broken(%q): got %v, want %v", image, got, want)
		}
	}
}
