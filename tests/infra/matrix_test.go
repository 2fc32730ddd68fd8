package infra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	auth "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/tests/stacktest"
)

type access struct{ function, scope, namespace, group, resource, verb, name string }

func (a access) String() string {
	return fmt.Sprintf("%s: %s %s.%s %q in %q (%s)", a.function, a.verb, a.resource, a.group, a.name, a.namespace, a.scope)
}

func verbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate"}
}

// kinds returns the resources that Sluice uses and those that a compromised function would try,
// with the names that matter.
func kinds() []struct {
	group, resource string
	names           []string
} {
	return []struct {
		group, resource string
		names           []string
	}{
		{"", "secrets", []string{"", "sluice-checker-ca", "sluice-checker-tls", "sluice-session-keys", "database"}},
		{"", "namespaces", []string{"", system}},
		{"", "services", []string{""}},
		{"", "pods", []string{""}},
		{"", "pods/exec", []string{""}},
		{"", "configmaps", []string{""}},
		{"", "nodes", []string{""}},
		{"", "serviceaccounts", []string{"", "wiring"}},
		{"", "serviceaccounts/token", []string{"", "wiring"}},
		{"", "users", []string{"admin"}},
		{"apps", "deployments", []string{""}},
		{"apps", "deployments/scale", []string{""}},
		{"apps", "daemonsets", []string{""}},
		{"batch", "jobs", []string{""}},
		{"serving.knative.dev", "services", []string{""}},
		{"serving.knative.dev", "domainmappings", []string{""}},
		{"traefik.io", "ingressroutes", []string{""}},
		{"traefik.io", "ingressroutetcps", []string{""}},
		{"traefik.io", "middlewares", []string{""}},
		{"gateway.networking.k8s.io", "httproutes", []string{""}},
		{"gateway.networking.k8s.io", "grpcroutes", []string{""}},
		{"gateway.networking.k8s.io", "gateways", []string{""}},
		{"gateway.envoyproxy.io", "backends", []string{""}},
		{"gateway.envoyproxy.io", "securitypolicies", []string{""}},
		{"tekton.dev", "pipelineruns", []string{""}},
		{"tekton.dev", "taskruns", []string{""}},
		{"tekton.dev", "pipelines", []string{""}},
		{"rbac.authorization.k8s.io", "roles", []string{""}},
		{"rbac.authorization.k8s.io", "rolebindings", []string{"", "sluice-apps-environment"}},
		{"rbac.authorization.k8s.io", "clusterroles", []string{"", "sluice-apps-environment", "cluster-admin"}},
		{"rbac.authorization.k8s.io", "clusterrolebindings", []string{""}},
		{"networking.k8s.io", "networkpolicies", []string{""}},
		{"networking.k8s.io", "ingresses", []string{""}},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", []string{"", "sluice-grants"}},
		{"apiextensions.k8s.io", "customresourcedefinitions", []string{""}},
	}
}

func functions() []string {
	return []string{"apps", "builds", "checker", "console", "deploys", "keys", "rollup", "session", "standin", "usage", "webhook", "wiring"}
}

func accessCombinations(environment string) []access {
	places := []struct{ scope, namespace string }{
		{everywhere, ""}, {inSystem, system}, {inWebhooks, webhooks}, {inEnvironment, environment}, {everywhere, "kube-system"},
	}
	var all []access
	for _, f := range functions() {
		for _, p := range places {
			for _, k := range kinds() {
				for _, v := range verbs() {
					for _, n := range k.names {
						all = append(all, access{f, p.scope, p.namespace, k.group, k.resource, v, n})
					}
				}
			}
		}
	}
	return all
}

// TestMatrix compares the decisions of the authorizer with the manifests.
func TestMatrix(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello") // creates the rights in the namespace
	p := readPolicy(t)
	all := accessCombinations(s.Project + "-" + s.Env)
	decisions := reviewAll(t, clientOf(t, adminConfig(t)), all)
	allowed := map[string][]string{}
	for i, q := range all {
		if want := p.allows(q.function, q.scope, q.group, q.resource, q.verb, q.name); decisions[i] != want {
			t.Errorf("%v: allowed: got %v, want %v", q, decisions[i], want)
		}
		if decisions[i] {
			row := q.function + " " + q.scope + ": " + strings.TrimSuffix(q.resource+"."+q.group, ".")
			if q.name != "" {
				row += "/" + q.name
			}
			if !slices.Contains(allowed[row], q.verb) {
				allowed[row] = append(allowed[row], q.verb)
			}
		}
	}
	t.Logf("%d access reviews", len(all))
	for _, row := range slices.Sorted(maps.Keys(allowed)) {
		t.Logf("%s: %s", row, strings.Join(allowed[row], " "))
	}
}

func reviewAll(t *testing.T, client kubernetes.Interface, all []access) []bool {
	t.Helper()
	decisions := make([]bool, len(all))
	next := make(chan int)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := range next {
				var err error
				if decisions[i], err = review(t.Context(), client, all[i]); err != nil {
					t.Errorf("%v: %v", all[i], err)
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wait.Wait()
	return decisions
}

func review(ctx context.Context, client kubernetes.Interface, q access) (bool, error) {
	resource, sub, _ := strings.Cut(q.resource, "/")
	got, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &auth.SubjectAccessReview{
		Spec: auth.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + system + ":" + q.function,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
			ResourceAttributes: &auth.ResourceAttributes{
				Namespace: q.namespace, Verb: q.verb, Group: q.group, Resource: resource, Subresource: sub, Name: q.name,
			},
		},
	}, meta.CreateOptions{})
	if err != nil {
		return false, err
	}
	return got.Status.Allowed, nil
}
