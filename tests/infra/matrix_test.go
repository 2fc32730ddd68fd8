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

// asked is a question to the API server's authorizer.
type asked struct{ function, where, namespace, group, resource, verb, name string }

func (a asked) String() string {
	return fmt.Sprintf("%s: %s %s.%s %q in %q (%s)", a.function, a.verb, a.resource, a.group, a.name, a.namespace, a.where)
}

// verbs are all that there are, the special ones among them.
func verbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate"}
}

// kinds are what Sluice touches, and what somebody would touch who has taken a function
// over: with the names that matter, "" for those that are nobody's.
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

// questions is every combination, in the whole cluster, in Sluice's own namespaces, in an
// environment and in a namespace that is none of Sluice's.
func questions(environment string) []asked {
	places := []struct{ where, namespace string }{
		{everywhere, ""}, {inSystem, system}, {inWebhooks, webhooks}, {inEnvironment, environment}, {everywhere, "kube-system"},
	}
	var all []asked
	for _, f := range functions() {
		for _, p := range places {
			for _, k := range kinds() {
				for _, v := range verbs() {
					for _, n := range k.names {
						all = append(all, asked{f, p.where, p.namespace, k.group, k.resource, v, n})
					}
				}
			}
		}
	}
	return all
}

// TestMatrix asks the API server for every function, verb, resource and place whether it
// is allowed, and compares that with the manifests: what they don't grant is refused, by
// whatever way it might have been granted.
func TestMatrix(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello") // the functions have their rights in its namespace
	p := readPolicy(t)
	all := questions(s.Project + "-" + s.Env)
	answers := ask(t, clientOf(t, adminConfig(t)), all)
	allowed := map[string][]string{}
	for i, q := range all {
		if want := p.allows(q.function, q.where, q.group, q.resource, q.verb, q.name); answers[i] != want {
			t.Errorf("%v: allowed %v, want %v", q, answers[i], want)
		}
		if answers[i] {
			row := q.function + " " + q.where + ": " + strings.TrimSuffix(q.resource+"."+q.group, ".")
			if q.name != "" {
				row += "/" + q.name
			}
			if !slices.Contains(allowed[row], q.verb) {
				allowed[row] = append(allowed[row], q.verb)
			}
		}
	}
	t.Logf("%d questions", len(all))
	for _, row := range slices.Sorted(maps.Keys(allowed)) {
		t.Logf("%s: %s", row, strings.Join(allowed[row], " "))
	}
}

// ask gives the API server's answers, in order.
func ask(t *testing.T, client kubernetes.Interface, all []asked) []bool {
	t.Helper()
	answers := make([]bool, len(all))
	next := make(chan int)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := range next {
				var err error
				if answers[i], err = review(t.Context(), client, all[i]); err != nil {
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
	return answers
}

func review(ctx context.Context, client kubernetes.Interface, q asked) (bool, error) {
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
