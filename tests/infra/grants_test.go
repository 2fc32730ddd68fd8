package infra

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// right is a verb on a resource that a role grants.
type right struct{ Role, Group, Resource, Verb string }

func (r right) String() string {
	group := r.Group
	if group == "" {
		group = "core"
	}
	return fmt.Sprintf("%s: %s %s (%s)", r.Role, r.Verb, r.Resource, group)
}

// policy is the set of rights that infra/chart grants.
type policy struct {
	granted map[right][]string // values: resource names, none for all
}

// Scopes of a role.
const (
	everywhere    = "everywhere"
	inEnvironment = "in environments"
	inSystem      = "in sluice-system"
	inWebhooks    = "in sluice-webhooks"
)

func readPolicy(t *testing.T) policy {
	t.Helper()
	p := policy{granted: map[right][]string{}}
	for _, o := range render(t, "plain") {
		var role rbac.ClusterRole // a Role has the same fields
		switch o.GetKind() {
		case "ClusterRole", "Role":
			convert(t, o, &role)
		default:
			continue
		}
		if role.AggregationRule != nil {
			t.Errorf("%s aggregates other roles", role.Name)
		}
		for _, rule := range role.Rules {
			p.add(t, key(o.GetKind(), role.Name, role.Namespace), rule)
		}
	}
	return p
}

// key distinguishes a Role from a ClusterRole with the same name.
func key(kind, name, namespace string) string {
	if kind == "Role" {
		return name + " in " + namespace
	}
	return name
}

func (p policy) add(t *testing.T, role string, rule rbac.PolicyRule) {
	t.Helper()
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if group == "*" || strings.Contains(resource, "*") || verb == "*" {
					t.Errorf("%s grants rights by a wildcard: %v", role, rule)
				}
				r := right{role, group, resource, verb}
				if _, twice := p.granted[r]; twice {
					t.Errorf("%v is granted twice", r)
				}
				p.granted[r] = rule.ResourceNames
			}
		}
	}
}

// allows reports whether the manifests allow an access, independently of the API server.
func (p policy) allows(function, scope, group, resource, verb, name string) bool {
	roles := []string{"sluice-" + function}
	switch scope {
	case inEnvironment:
		roles = append(roles, "sluice-"+function+"-environment")
	case inSystem, inWebhooks:
		roles = append(roles, "sluice-"+function+" "+scope)
	}
	for _, role := range roles {
		names, ok := p.granted[right{role, group, resource, verb}]
		if ok && (len(names) == 0 || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

func convert(t *testing.T, o *unstructured.Unstructured, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, to); err != nil {
		b, _ := json.Marshal(o)
		t.Fatalf("%v: %s", err, b)
	}
}
