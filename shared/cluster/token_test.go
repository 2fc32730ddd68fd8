package cluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/tests/check"
)

// TestServiceAccountToken tests that an app's pods get a token only if an adopted workload requests
// it.
func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	a := app.App{Name: "hello", Namespace: "shop-prod", Image: "hello:v2", Port: 8080, Revision: 2}
	tests := []struct {
		name    string
		account string
		asks    *bool
		noToken bool // no token is mounted
	}{
		{name: "no account", noToken: true},
		{name: "the default account", account: "default", noToken: true},
		{name: "no token", asks: &no, noToken: true},
		{name: "an account without a token", account: "reader", asks: &no, noToken: true},
		{name: "a custom account", account: "reader"},
		{name: "a requested token", asks: &yes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{ServiceAccountName: tt.account, AutomountServiceAccountToken: tt.asks},
			}}}
			if said := hasNoToken(t, deployment(d, a)); said != tt.noToken {
				t.Errorf("Deployment without a token: got %v, want %v", said, tt.noToken)
			}
			pod := map[string]any{"containers": []any{map[string]any{"image": "hello:v1"}}}
			if tt.account != "" {
				pod["serviceAccountName"] = tt.account
			}
			if tt.asks != nil {
				pod["automountServiceAccountToken"] = *tt.asks
			}
			existing := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod}}}}
			desired, err := knativeRunning(existing, a)
			check.OK(t, err)
			if said := hasNoToken(t, desired); said != tt.noToken {
				t.Errorf("Knative Service without a token: got %v, want %v", said, tt.noToken)
			}
		})
	}
	if !hasNoToken(t, deployment(nil, a)) {
		t.Error("a new Deployment has a token")
	}
}

func hasNoToken(t *testing.T, u *unstructured.Unstructured) bool {
	t.Helper()
	token, said, err := unstructured.NestedBool(u.Object, "spec", "template", "spec", "automountServiceAccountToken")
	check.OK(t, err)
	return said && !token
}
