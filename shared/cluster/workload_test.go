package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func (b *bench) conflict(err error) {
	b.Helper()
	if !problem.Is(err, problem.Conflict) {
		b.Errorf("got %v, want a conflict", err)
	}
}

func TestStrategy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seen, err := b.cluster.Workload(t.Context(), b.app.Ref())
	b.must(err)
	if !seen.Absent() || seen.Runs(b.app) {
		t.Errorf("before: %+v", seen)
	}
	b.must(b.cluster.ApplyWorkload(t.Context(), seen, b.app))
	d, err := b.kube.AppsV1().Deployments(b.app.Namespace).Get(t.Context(), "hello", metav1.GetOptions{})
	b.must(err)
	if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.String() != "25%" {
		t.Errorf("strategy %+v", d.Spec.Strategy)
	}
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d, err = b.kube.AppsV1().Deployments(b.app.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
	b.must(err)
	b.app.Image, b.app.Revision = "hello:v2", 2
	b.conflict(b.cluster.ApplyWorkload(t.Context(), Workload{ref: b.app.Ref(), deployment: of(d, "1")}, b.app))
	b.must(b.cluster.ApplyWorkload(t.Context(), Workload{ref: b.app.Ref(), deployment: d}, b.app))
	if d, err = b.kube.AppsV1().Deployments(b.app.Namespace).Get(t.Context(), "hello", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("strategy %+v", d.Spec.Strategy)
	}
}

func of(d *appsv1.Deployment, version string) *appsv1.Deployment {
	old := d.DeepCopy()
	old.ResourceVersion = version
	return old
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seen, err := b.cluster.Workload(t.Context(), b.app.Ref())
	b.must(err)
	b.app.Port = 70000
	if reason, refused := Refusal(b.cluster.ApplyWorkload(t.Context(), seen, b.app)); !refused || !strings.Contains(reason, "70000") {
		t.Errorf("%q, %v", reason, refused)
	}
	for _, err := range []error{nil, errors.New("other"), problem.FromCode(problem.Unavailable), problem.FromCode(problem.Conflict)} {
		if _, refused := Refusal(err); refused {
			t.Errorf("Refusal(%v): got true, want false", err)
		}
	}
}

func TestDeploymentObservation(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "shop-prod", Generation: 2}}
	d.Spec.Template.Annotations = map[string]string{revisionAnnotation: "3"}
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(at)},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"},
	}
	if o := (Workload{deployment: d}).Observation(); o.Revision != 3 || !o.ProgressAt.IsZero() || o.Message == "exceeded quota" {
		t.Errorf("previous generation: %+v", o)
	}
	d.Status.ObservedGeneration = 2
	if o := (Workload{deployment: d}).Observation(); !o.ProgressAt.Equal(at) || o.Message != "exceeded quota" || o.Ready {
		t.Errorf("without pods: %+v", o)
	}
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1, 1
	if o := (Workload{deployment: d}).Observation(); !o.Ready {
		t.Errorf("with its pod: %+v", o)
	}
	if o := (Workload{}).Observation(); o.Ready || o.Revision != 0 {
		t.Errorf("without a workload: %+v", o)
	}
}

func TestRollout(t *testing.T) {
	t.Parallel()
	two := int32(2)
	tests := []struct {
		name   string
		status appsv1.DeploymentStatus
		want   deploy.Observation
	}{
		{
			"not seen yet",
			appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			deploy.Observation{Message: "Kubernetes has not processed the change yet."},
		},
		{
			"pods missing",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2},
			deploy.Observation{Message: "1 of 2 pods run the new revision."},
		},
		{
			"old pods left",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3},
			deploy.Observation{Message: "Pods of the previous revision still running: 1."},
		},
		{
			"new pods not ready",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1},
			deploy.Observation{Message: "1 of 2 new pods are ready."},
		},
		{
			"an old pod is ready",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1},
			deploy.Observation{Message: "Pods of the previous revision still running: 1."},
		},
		{
			"an old pod and a new pod are ready",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2},
			deploy.Observation{PodReady: true, Message: "Pods of the previous revision still running: 1."},
		},
		{
			"ready",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2},
			deploy.Observation{Ready: true, PodReady: true},
		},
		{"given up", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "too slow"},
		}}, deploy.Observation{Message: "too slow"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "hello", Generation: 2}, Status: tt.status}
			d.Spec.Replicas = &two
			d.Spec.Template.Annotations = map[string]string{revisionAnnotation: "7"}
			tt.want.Revision = 7
			check.Equal(t, "rollout", tt.want, (Workload{deployment: d}).Observation())
		})
	}
}

func TestDeploymentScaledToZeroIsIdle(t *testing.T) {
	t.Parallel()
	zero := int32(0)
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &zero}}
	d.Spec.Template.Annotations = map[string]string{revisionAnnotation: "7"}
	want := deploy.Observation{Revision: 7, Idle: true, Message: "The workload is scaled to zero replicas."}
	check.Equal(t, "observation", want, (Workload{deployment: d}).Observation())
}

func TestRolloutOfARealDeployment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if !b.objects().Absent() {
		t.Fatal("the app has a workload before its Deployment")
	}
	b.place()
	w, err := b.cluster.Workload(t.Context(), b.app.Ref())
	b.must(err)
	if got := w.Observation(); got.Ready || got.Revision != 1 || !w.Runs(b.app) || got.Message == "" {
		t.Errorf("rollout without a controller: %+v", got)
	}
}
