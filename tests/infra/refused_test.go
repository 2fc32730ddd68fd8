package infra

import (
	"context"
	"testing"

	authn "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// intruder is the user agent of test clients, by which readAudit skips their calls.
const intruder = "sluice-tests-intruder"

// clientAs returns a client with the token of a function.
func clientAs(t *testing.T, function string) kubernetes.Interface {
	t.Helper()
	admin := adminConfig(t)
	got, err := clientOf(t, admin).CoreV1().ServiceAccounts(system).CreateToken(t.Context(), function, &authn.TokenRequest{}, meta.CreateOptions{})
	check.OK(t, err)
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.UserAgent = got.Status.Token, intruder
	return clientOf(t, config)
}

func binding(role, function string) *rbac.RoleBinding {
	return &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "trial"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Namespace: system, Name: function}},
	}
}

// TestCompromisedFunctionIsLimited tries the calls that a compromised function would try.
func TestCompromisedFunctionIsLimited(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	environment := s.Project + "-" + s.Env
	customer := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: "database"}, StringData: map[string]string{"password": "hunter2"}}
	_, err := clientOf(t, adminConfig(t)).CoreV1().Secrets(environment).Create(t.Context(), customer, meta.CreateOptions{})
	check.OK(t, err)
	bind := func(namespace string, b *rbac.RoleBinding) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().RoleBindings(namespace).Create(ctx, b, meta.CreateOptions{})
			return err
		}
	}
	secret := func(namespace, name string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets(namespace).Get(ctx, name, meta.GetOptions{})
			return err
		}
	}
	secrets := func(namespace string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets(namespace).List(ctx, meta.ListOptions{})
			return err
		}
	}
	namespace := func(labels map[string]string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			n := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "trial", Labels: labels}}
			_, err := c.CoreV1().Namespaces().Create(ctx, n, meta.CreateOptions{DryRun: []string{"All"}})
			return err
		}
	}
	createSecret := func(namespace, name string, kind core.SecretType) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			made := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{"kubernetes.io/service-account.name": "apps"}}, Type: kind}
			_, err := c.CoreV1().Secrets(namespace).Create(ctx, made, meta.CreateOptions{DryRun: []string{"All"}})
			return err
		}
	}
	managed := map[string]string{"app.kubernetes.io/managed-by": "sluice"}
	lowered := map[string]string{"app.kubernetes.io/managed-by": "sluice", "pod-security.kubernetes.io/enforce": "privileged"}
	foreign := binding("sluice-apps-environment", "apps")
	foreign.Subjects[0].Namespace = "default"
	tests := []struct {
		name, function string
		try            func(context.Context, kubernetes.Interface) error
		allowed        bool
	}{
		{"apps grants its rights in kube-system", "apps", bind("kube-system", binding("sluice-apps-environment", "apps")), false},
		{"apps grants its rights in sluice-system", "apps", bind(system, binding("sluice-apps-environment", "apps")), false},
		{"apps grants itself administrator rights in an environment", "apps", bind(environment, binding("cluster-admin", "apps")), false},
		{"apps grants one function the rights of another", "apps", bind(environment, binding("sluice-apps-environment", "webhook")), false},
		{"apps grants its rights to an account of another namespace", "apps", bind(environment, foreign), false},
		{"apps grants a function its own rights", "apps", bind(environment, binding("sluice-builds-environment", "builds")), true},
		{"apps grants its rights in the namespace of the tokens", "apps", bind(webhooks, binding("sluice-apps-environment", "apps")), false},
		{"webhook grants itself rights", "webhook", bind("kube-system", binding("sluice-apps-environment", "webhook")), false},
		{"wiring creates a namespace", "wiring", namespace(managed), true},
		{"wiring creates a namespace without labels", "wiring", namespace(nil), false},
		{"wiring lowers the pod security of a namespace", "wiring", namespace(lowered), false},
		{"deploys creates a namespace", "deploys", namespace(managed), false},
		{"apps reads the session keys", "apps", secret(system, "sluice-session-keys"), false},
		{"wiring reads the session keys", "wiring", secret(system, "sluice-session-keys"), false},
		{"wiring reads a webhook's token", "wiring", secret(webhooks, environment+".hello"), false},
		{"deploys reads a webhook's token", "deploys", secret(webhooks, environment+".hello"), false},
		{"apps reads a customer's Secret", "apps", secret(environment, "database"), false},
		{"webhook reads a customer's Secret", "webhook", secret(environment, "database"), false},
		{"apps lists customers' Secrets", "apps", secrets(environment), false},
		{"webhook lists customers' Secrets", "webhook", secrets(environment), false},
		{"webhook lists all Secrets", "webhook", secrets(""), false},
		{"webhook lists tokens", "webhook", secrets(webhooks), true},
		{"webhook creates a token", "webhook", createSecret(webhooks, environment+".trial", core.SecretTypeOpaque), false},
		{"apps lists tokens", "apps", secrets(webhooks), false},
		{"checker reads its certificate through the API", "checker", secret(system, "sluice-checker-tls"), false},
		{"wiring lists all Secrets", "wiring", secrets(""), false},
		{"wiring lists the copies of the CA", "wiring", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets("").List(ctx, meta.ListOptions{FieldSelector: "metadata.name=sluice-checker-ca"})
			return err
		}, true},
		{"apps creates a token of a webhook", "apps", createSecret(webhooks, environment+".trial", core.SecretTypeOpaque), true},
		{"apps creates a service account token Secret that it can read", "apps", createSecret(webhooks, environment+".trial", core.SecretTypeServiceAccountToken), false},
		{"apps creates another Secret", "apps", createSecret(environment, "database", core.SecretTypeOpaque), false},
		{"wiring creates another Secret next to its own", "wiring", createSecret(system, "trial", core.SecretTypeOpaque), false},
		{"wiring creates a service account token Secret that it can read", "wiring", createSecret(environment, "sluice-checker-ca", core.SecretTypeServiceAccountToken), false},
		{"apps requests a token of wiring", "apps", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ServiceAccounts(system).CreateToken(ctx, "wiring", &authn.TokenRequest{}, meta.CreateOptions{})
			return err
		}, false},
		{"deploys runs a pod in sluice-system", "deploys", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods(system).Create(ctx, &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "trial"}}, meta.CreateOptions{})
			return err
		}, false},
		{"apps deletes the namespace of an environment", "apps", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Namespaces().Delete(ctx, environment, meta.DeleteOptions{})
		}, false},
		{"keys lists Services", "keys", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Services(environment).List(ctx, meta.ListOptions{})
			return err
		}, false},
	}
	for _, tt := range tests {
		err := tt.try(t.Context(), clientAs(t, tt.function))
		if tt.allowed && err != nil || !tt.allowed && !kerrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want allowed: %v", tt.name, err, tt.allowed)
		}
	}
}
