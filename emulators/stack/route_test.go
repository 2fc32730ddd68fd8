package stack

import (
	"net/url"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/tests/check"
)

type rule struct {
	function string
	path     *regexp.Regexp
	priority int64
}

func readRules(t *testing.T) []rule {
	t.Helper()
	all, err := manifest.Chart("../..", "--values", "values.yaml")
	check.OK(t, err)
	objects := manifest.OfKinds(all, "IngressRoute")
	matcher := regexp.MustCompile("^\\(Host\\(`localhost`\\) \\|\\| Host\\(`127.0.0.1`\\)\\) && (PathRegexp|PathPrefix|Path)\\(`([^`]*)`\\)$")
	var rules []rule
	for _, o := range objects {
		routes, _, err := unstructured.NestedSlice(o.Object, "spec", "routes")
		if err != nil || len(routes) == 0 {
			t.Fatalf("%s has no routes: %v", o.GetName(), err)
		}
		for _, r := range routes {
			fields, _ := r.(map[string]any)
			match, _ := fields["match"].(string)
			priority, _ := fields["priority"].(int64)
			parts := matcher.FindStringSubmatch(match)
			if parts == nil {
				t.Fatalf("%s: rule %q", o.GetName(), match)
			}
			if parts[1] == "PathPrefix" {
				parts[2] = "^" + regexp.QuoteMeta(parts[2])
			}
			if parts[1] == "Path" {
				parts[2] = "^" + regexp.QuoteMeta(parts[2]) + "$"
			}
			rules = append(rules, rule{o.GetLabels()["sluice.dev/function"], regexp.MustCompile(parts[2]), priority})
		}
	}
	return rules
}

// functionFor returns the function whose rule has the highest priority, as in Traefik.
func functionFor(t *testing.T, rules []rule, path string) string {
	t.Helper()
	var best rule
	for _, r := range rules {
		if !r.path.MatchString(path) {
			continue
		}
		if r.priority == best.priority {
			t.Errorf("%s: %s and %s have the same priority", path, r.function, best.function)
		}
		if r.priority > best.priority {
			best = r
		}
	}
	return best.function
}

// TestRoutes checks the routes of the API table and paths with the same prefixes. Unknown API
// paths reach apps.
func TestRoutes(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	const environment = "/api/v1/projects/shop/environments/prod"
	for path, want := range map[string]string{
		"/api/v1/session":                                    "session",
		"/api/v1/users":                                      "session",
		"/api/v1/users/ann/password":                         "session",
		"/api/v1/users/ann/sessions":                         "session",
		"/api/v1/session/all":                                "session",
		"/api/v1/sessions":                                   "apps",
		"/api/v1/key":                                        "checker",
		"/api/v1/key/":                                       "apps",
		"/api/v1/keys":                                       "apps",
		"/api/v1/leaks":                                      "keys",
		"/api/v1/leaks/report":                               "keys",
		"/api/v1/leaks-of-mine":                              "apps",
		"/api/v1/projects":                                   "apps",
		"/api/v1/audit":                                      "apps",
		"/api/v1/audits":                                     "apps",
		"/api/v1/projects/shop/audit":                        "apps",
		"/api/v1/projects/shop":                              "apps",
		"/api/v1/projects/shop/members/ann":                  "apps",
		"/api/v1/projects/api-keys":                          "apps",
		environment:                                          "apps",
		environment + "/apps":                                "apps",
		environment + "/apps/hello":                          "apps",
		environment + "/apps/hello/git-source":               "apps",
		environment + "/apps/hello/webhook":                  "apps",
		environment + "/apps/plans":                          "apps",
		environment + "/apps/hello/deployments":              "deploys",
		environment + "/apps/hello/rollback":                 "deploys",
		environment + "/apps/hello/promote":                  "deploys",
		environment + "/plans":                               "keys",
		environment + "/plans/plan-starter":                  "keys",
		environment + "/api-keys":                            "keys",
		"/api/v1/projects/shop/api-keys":                     "keys",
		"/api/v1/projects/shop/api-keys/key-ab12cd34":        "keys",
		"/api/v1/projects/shop/api-keys/key-ab12cd34/rotate": "keys",
		"/api/v1/projects/shop/api-keys/key-ab12cd34/usage":  "usage",
		environment + "/usage":                               "usage",
		environment + "/plans/plan-a/forecast":               "usage",
		environment + "/apps/hello/gate/forecast":            "usage",
		environment + "/usage.csv":                           "usage",
		environment + "/activity":                            "apps",
		"/api/v1/webhook/shop-prod/hello":                    "webhook",
		"/api":                                               "apps",
		"/api/":                                              "apps",
		"/api/v2/projects":                                   "apps",
		"/API/v1/session":                                    "apps",
		"/api%2Fv1/session":                                  "apps",
		"/apis":                                              "",
		"/console":                                           "console",
		"/console/keys":                                      "console",
		"/consoles":                                          "",
		"/":                                                  "console",
	} {
		if got := functionFor(t, rules, path); got != want {
			t.Errorf("%s: got function %q, want %q", path, got, want)
		}
	}
	for _, row := range api.Table() {
		path := row.URL(url.PathEscape, slices.Repeat([]string{"a"}, len(row.Parameters()))...)
		if got := functionFor(t, rules, path); got != row.Function {
			t.Errorf("%s: got function %q, want %q", row.Pattern(), got, row.Function)
		}
	}
	for _, r := range rules {
		if _, ok := find(r.function); !ok {
			t.Errorf("got a route to the unknown function %q", r.function)
		}
	}
}
