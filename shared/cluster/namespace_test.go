package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

// as returns a Cluster that uses a service account of the system namespace. The test grants its
// rights.
func (b *bench) as(system, account string) *Cluster {
	b.Helper()
	cfg := rest.CopyConfig(clustertest.Config(b.T))
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	dyn, err := dynamic.NewForConfig(cfg)
	b.must(err)
	return &Cluster{dynamic: dyn, system: system}
}

func (b *bench) role(name, system, account string, rules ...rbacv1.PolicyRule) {
	b.Helper()
	ctx := b.Context()
	_, err := b.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	if account == "" {
		return
	}
	_, err = b.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: system, Name: account}},
	}, metav1.CreateOptions{})
	b.must(err)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, system := t.Context(), clustertest.Name()
	b.role(system+"-apps", system, "apps",
		rule("", "namespaces", "get", "create"), rule("rbac.authorization.k8s.io", "rolebindings", "create"),
		rule("rbac.authorization.k8s.io", "clusterroles", "bind"))
	b.role("sluice-apps-environment", "", "", rule("apps", "deployments", "create"))
	apps := b.as(system, "apps")

	// The API server applies the account's rights with a delay.
	b.eventually(func() error { return apps.EnsureNamespace(ctx, b.app.Namespace) })
	if allowed, err := apps.mayWrite(ctx, b.app.Namespace); err != nil || !allowed {
		t.Errorf("mayWrite after the grant: got %v, %v", allowed, err)
	}
	list, err := b.kube.RbacV1().RoleBindings(b.app.Namespace).List(ctx, metav1.ListOptions{})
	b.must(err)
	got := map[string]string{}
	for _, binding := range list.Items {
		got[binding.Name] = binding.RoleRef.Name + " to " + binding.Subjects[0].Namespace + "/" + binding.Subjects[0].Name
	}
	want := map[string]string{}
	for _, f := range []string{"apps", "builds", "deploys", "wiring"} {
		name := "sluice-" + f + "-environment"
		want[name] = name + " to " + system + "/" + f
	}
	check.Equal(t, "bindings", want, got)
	b.must(apps.EnsureNamespace(ctx, b.app.Namespace))
}

func TestRestoreGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, system := t.Context(), clustertest.Name()
	b.must(b.cluster.EnsureNamespace(ctx, b.app.Namespace))
	bindings := b.kube.RbacV1().RoleBindings(b.app.Namespace)
	c := &Cluster{dynamic: b.cluster.dynamic, system: system}
	restore := func(want ...string) {
		t.Helper()
		restored, err := c.RestoreGrants(ctx, slices.Values([]string{clustertest.Name(), b.app.Namespace})) // the first does not exist
		var got []string
		for _, ref := range restored {
			if ref.Namespace != b.app.Namespace {
				t.Errorf("got a grant in the namespace %s", ref.Namespace)
			}
			got = append(got, ref.Name)
		}
		check.OK(t, err)
		check.Equal(t, "restored", want, got)
	}
	restore("sluice-builds-environment", "sluice-deploys-environment", "sluice-wiring-environment", "sluice-apps-environment")
	restore()
	b.must(bindings.Delete(ctx, "sluice-deploys-environment", metav1.DeleteOptions{}))
	restore("sluice-deploys-environment")
	binding, err := bindings.Get(ctx, "sluice-deploys-environment", metav1.GetOptions{})
	b.must(err)
	if s := binding.Subjects; len(s) != 1 || s[0].Name != "deploys" || s[0].Namespace != system || binding.RoleRef.Name != binding.Name {
		t.Errorf("restored binding: got %+v", binding)
	}
	if restored, err := new(Cluster).RestoreGrants(ctx, slices.Values([]string{b.app.Namespace})); err != nil || restored != nil {
		t.Errorf("without a system namespace: got %v, %v", restored, err)
	}
}

func TestUngranted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, system := t.Context(), clustertest.Name()
	b.role(system+"-deploys", system, "deploys", rule("", "namespaces", "get"))
	deploys := b.as(system, "deploys")
	b.eventually(func() error { // the account's own right comes through a watch
		if err := deploys.EnsureNamespace(ctx, clustertest.Name()); !problem.Is(err, problem.Unavailable) {
			return fmt.Errorf("create namespace without the right: %w", err)
		}
		return nil
	})
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.app.Namespace, Labels: managed()}}
	_, err := b.kube.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
	b.must(err)
	if err := deploys.EnsureNamespace(ctx, b.app.Namespace); !problem.Is(err, problem.Unavailable) {
		t.Errorf("grant without the right: got %v, want unavailable", err)
	}
}

func TestLacksRight(t *testing.T) {
	t.Parallel()
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"denied", apierrors.NewForbidden(deployments, "hello", errors.New(`User "u" cannot patch resource "deployments" in API group "apps" in the namespace "n"`)), true},
		{"quota", apierrors.NewForbidden(deployments, "hello", errors.New("exceeded quota: q")), false},
		{"absent", apierrors.NewNotFound(deployments, "hello"), false},
		{"other", errors.New(`is forbidden: User "u" cannot`), false},
		{"none", nil, false},
	}
	for _, tt := range tests {
		if got := lacksRight(tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
