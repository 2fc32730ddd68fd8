package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// unreachable is a kubeconfig of a cluster that nobody runs.
func unreachable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],
		"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"users":[{"name":"x","user":{}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOpenRefusesABadConfiguration(t *testing.T) {
	t.Parallel()
	good := Options{Kubeconfig: unreachable(t), EntryPoints: []string{"web"}, CheckerURL: checkerURL}
	if _, err := Open(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no entry points":        func(o *Options) { o.EntryPoints = nil },
		"a checker without TLS":  func(o *Options) { o.CheckerURL = "http://checker:8443" },
		"a checker with a path":  func(o *Options) { o.CheckerURL = "https://checker/x" },
		"a checker with a query": func(o *Options) { o.CheckerURL = "https://checker?x=1" },
		"a kubeconfig not there": func(o *Options) { o.Kubeconfig = "/nonexistent/kubeconfig" },
	} {
		o := good
		change(&o)
		if _, err := Open(o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ns := t.Context(), b.app.Namespace
	b.must(b.cluster.EnsureNamespace(ctx, ns))
	if _, err := b.cluster.Secret(ctx, ns, "s"); !problem.Is(err, problem.NotFound) {
		t.Fatalf("a secret that is not there: %v, want not_found", err)
	}
	fresh := Secret{Namespace: ns, Name: "s", Type: OpaqueSecret, Data: map[string][]byte{"k": []byte("hush")}}
	written, err := b.cluster.WriteSecret(ctx, fresh)
	b.must(err)
	if _, err := b.cluster.WriteSecret(ctx, fresh); !problem.Is(err, problem.Conflict) {
		t.Errorf("creating it twice: %v, want conflict", err)
	}
	written.Data = map[string][]byte{"k": []byte("hush hush")}
	if _, err = b.cluster.WriteSecret(ctx, written); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cluster.WriteSecret(ctx, written); !problem.Is(err, problem.Conflict) {
		t.Errorf("a late write: %v, want conflict", err)
	}
	got, err := b.cluster.Secret(ctx, ns, "s")
	b.must(err)
	if !got.Managed || !got.Exists() || string(got.Data["k"]) != "hush hush" {
		t.Errorf("read %+v", got.Data)
	}
	if s := got.LogValue().String(); strings.Contains(s, "hush") {
		t.Errorf("a log would say %q", s)
	}
	_, err = b.kube.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	b.must(err)
	if theirs, err := b.cluster.Secret(ctx, ns, "theirs"); err != nil || theirs.Managed {
		t.Errorf("somebody else's secret: managed %v, %v", theirs.Managed, err)
	}
}

func TestRollout(t *testing.T) {
	t.Parallel()
	two := int32(2)
	tests := []struct {
		name   string
		status appsv1.DeploymentStatus
		want   Rollout
	}{
		{
			"not seen yet",
			appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			Rollout{Message: "Kubernetes has not taken up the change yet."},
		},
		{
			"pods missing",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2},
			Rollout{Message: "1 of 2 pods are new."},
		},
		{
			"old pods left",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3},
			Rollout{Message: "1 old pods are still there."},
		},
		{
			"new pods not ready",
			appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1},
			Rollout{Message: "1 of 2 new pods are ready."},
		},
		{"ready", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, Rollout{Ready: true}},
		{"given up", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "too slow"},
		}}, Rollout{Failed: true, Message: "too slow"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "hello", Generation: 2}, Status: tt.status}
			d.Spec.Replicas = &two
			d.Spec.Template.Annotations = map[string]string{revisionAnnotation: "7"}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "hello", Image: "i:1"}}
			tt.want.Revision, tt.want.Image = 7, "i:1"
			if diff := cmp.Diff(tt.want, rolloutOf(d, app.Ref{Namespace: "n", Name: "hello"})); diff != "" {
				t.Errorf("rollout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolloutOfARealDeployment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.cluster.Rollout(t.Context(), b.app.Ref()); !problem.Is(err, problem.NotFound) {
		t.Fatalf("no deployment: %v, want not_found", err)
	}
	b.place()
	got, err := b.cluster.Rollout(t.Context(), b.app.Ref())
	b.must(err)
	if got.Ready || got.Revision != 1 || got.Image != b.app.Image || got.Message == "" {
		t.Errorf("rollout of a deployment that nobody runs: %+v", got)
	}
}
