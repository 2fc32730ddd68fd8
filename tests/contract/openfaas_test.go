package contract

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/functions/apps"
	"github.com/sluicegate/sluice/functions/builds"
	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/functions/console"
	"github.com/sluicegate/sluice/functions/deploys"
	"github.com/sluicegate/sluice/functions/keys"
	"github.com/sluicegate/sluice/functions/rollup"
	"github.com/sluicegate/sluice/functions/session"
	"github.com/sluicegate/sluice/functions/standin"
	"github.com/sluicegate/sluice/functions/usage"
	"github.com/sluicegate/sluice/functions/webhook"
	"github.com/sluicegate/sluice/functions/wiring"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/tests/check"
)

// stack is what is looked at of infra/openfaas/stack.yaml.
type stack struct {
	Provider struct {
		Name    string `json:"name"`
		Gateway string `json:"gateway"`
	} `json:"provider"`
	Functions map[string]stackFunction `json:"functions"`
}

type stackFunction struct {
	Image       string            `json:"image"`
	SkipBuild   bool              `json:"skip_build"`
	Environment map[string]string `json:"environment"`
	Secrets     []string          `json:"secrets"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	ReadOnly    bool              `json:"readonly_root_filesystem"`
	Requests    map[string]string `json:"requests"`
	Limits      map[string]string `json:"limits"`
	Lang        string            `json:"lang"`
	Handler     string            `json:"handler"`
}

// stackFile reads the file as faas-cli does where its environment sets nothing.
func stackFile(t *testing.T) stack {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, "infra", "openfaas", "stack.yaml"))
	check.OK(t, err)
	text = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAll(text, []byte("$1"))
	var s struct {
		Version string `json:"version"`
		stack
	}
	check.OK(t, yaml.UnmarshalStrict(text, &s))
	return s.stack
}

// settingsOf are the names of the settings that a function reads, from the tags of its
// configuration and of that of the process around it, and whether each must be set.
func settingsOf(t *testing.T, function string) map[string]bool {
	t.Helper()
	config, ok := map[string]any{
		"apps": apps.Config{}, "builds": builds.Config{}, "checker": checker.Config{}, "console": console.Config{}, "deploys": deploys.Config{},
		"keys": keys.Config{}, "rollup": rollup.Config{}, "session": session.Config{}, "standin": standin.Config{}, "usage": usage.Config{},
		"webhook": webhook.Config{}, "wiring": wiring.Config{},
	}[function]
	if !ok {
		t.Fatalf("nobody knows what %s reads", function)
	}
	names := map[string]bool{"FIRESTORE_EMULATOR_HOST": false, "GOOGLE_APPLICATION_CREDENTIALS": false}
	for _, of := range []any{config, funcmain.Config{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name, options, _ := strings.Cut(field.Tag.Get("env"), ","); name != "" {
				names[name] = strings.Contains(options, "required")
			}
		}
	}
	return names
}

// beside are the functions that OpenFaaS does not run, with the reason.
var beside = map[string]string{
	"checker": "it is on the path of every request: a Deployment of two replicas, with TLS of its own",
	"standin": "it is behind the checkers' Service",
}

// TestStackFile: OpenFaaS' stack file has every function, with its image and with
// settings that it really reads, all that it must have among them.
func TestStackFile(t *testing.T) {
	t.Parallel()
	file := stackFile(t)
	if file.Provider.Name != "openfaas" {
		t.Errorf("provider %q", file.Provider.Name)
	}
	for _, function := range functions() {
		f, ok := file.Functions[function]
		if ok == (beside[function] != "") {
			t.Errorf("%s in the stack file: %v", function, ok)
		}
		if ok {
			checkStackFunction(t, function, f)
		}
	}
	for function := range file.Functions {
		if shipped[function] == nil {
			t.Errorf("there is no function %q", function)
		}
	}
}

func checkStackFunction(t *testing.T, function string, f stackFunction) {
	t.Helper()
	if !strings.HasSuffix(f.Image, "/"+function+":latest") || !f.SkipBuild {
		t.Errorf("%s: image %q, skip_build %v", function, f.Image, f.SkipBuild)
	}
	if !f.ReadOnly || f.Requests["memory"] == "" || f.Limits["memory"] == "" || f.Annotations["com.openfaas.serviceaccount"] == "" {
		t.Errorf("%s lacks bounds or an account: %+v", function, f)
	}
	known := settingsOf(t, function)
	for name := range f.Environment {
		if _, ok := known[name]; !ok && name != "GOMEMLIMIT" { // the Go runtime reads it
			t.Errorf("%s does not read %s", function, name)
		}
	}
	for name, required := range known {
		if _, set := f.Environment[name]; required && !set {
			t.Errorf("%s must have %s", function, name)
		}
	}
	for _, name := range []string{"CHECKER_URL", "CHECKER_CA_FILE"} {
		if _, reads := known[name]; reads && f.Environment[name] == "" && function != "wiring" {
			t.Errorf("%s must have %s to call checkers", function, name)
		}
	}
	if f.Environment["SESSION_KEYS_DIR"] != "" && !slices.ContainsFunc(f.Secrets, func(s string) bool { return strings.HasPrefix(s, "sluice-session-") }) {
		t.Errorf("%s has no session keys", function)
	}
}

// TestStackRoutes: the chart leads OpenFaaS' gateway what the functions get elsewhere, by the
// same rules, with the function's path before them.
func TestStackRoutes(t *testing.T) {
	t.Parallel()
	faas, err := chart("openfaas")
	check.OK(t, err)
	if got, want := routes(t, faas, true), routes(t, rendered(t, "plain"), false); !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("routes to OpenFaaS' gateway, by rule: %v\nwant %v", got, want)
	}
}

// routes are the functions that the rules of a rendering lead to, by priority and match. By
// path: those whose path a Middleware puts before the request's, and the checkers.
func routes(t *testing.T, all []*object, byPath bool) map[string]string {
	t.Helper()
	prefixes, leads := map[string]string{}, map[string]string{}
	for _, o := range manifest.OfKinds(all, "Middleware") {
		prefixes[o.GetName()], _, _ = unstructured.NestedString(o.Object, "spec", "addPrefix", "prefix")
	}
	type named struct {
		Name string `json:"name"`
	}
	type ingressRoute struct {
		Spec struct {
			Routes []struct {
				Match       string  `json:"match"`
				Priority    int64   `json:"priority"`
				Middlewares []named `json:"middlewares"`
				Services    []named `json:"services"`
			} `json:"routes"`
		} `json:"spec"`
	}
	for _, o := range manifest.OfKinds(all, "IngressRoute") {
		for _, r := range as[ingressRoute](t, o).Spec.Routes {
			to := r.Services[0].Name
			if byPath && len(r.Middlewares) > 0 { // else it leads to the checkers, which no runtime hosts
				to = strings.TrimPrefix(prefixes[r.Middlewares[0].Name], "/function/")
			}
			leads[fmt.Sprint(r.Priority, " ", r.Match)] = to
		}
	}
	return leads
}

// TestStackList: OpenFaaS' stack file says of each function what the chart's one list says:
// who it tells of work, which keys it has, which timer wakes it.
func TestStackList(t *testing.T) {
	t.Parallel()
	var list map[string]struct {
		Calls       []string `json:"calls"`
		SessionKeys string   `json:"sessionKeys"`
		Timer       bool     `json:"timer"`
	}
	check.OK(t, yaml.Unmarshal(mustRead(t, filepath.Join(checkout, "infra", "chart", "functions.yaml")), &list))
	file := stackFile(t)
	if got, want := slices.Sorted(maps.Keys(list)), slices.Sorted(maps.Keys(file.Functions)); !slices.Equal(got, want) {
		t.Errorf("the list has %v, the stack file %v", got, want)
	}
	secrets := map[string]string{"": "", "public": "sluice-session-public-keys", "private": "sluice-session-keys"}
	for name, f := range list {
		other := file.Functions[name]
		for _, called := range f.Calls {
			if at := other.Environment[strings.ToUpper(called)+"_URL"]; at != "http://gateway.openfaas:8080/function/"+called {
				t.Errorf("%s tells %s at %q", name, called, at)
			}
		}
		if secret := secrets[f.SessionKeys]; secret != "" && !slices.Contains(other.Secrets, secret) {
			t.Errorf("%s lacks %s: %v", name, secret, other.Secrets)
		}
		if manages := f.SessionKeys != "" || name == "console"; manages != slices.Contains(other.Secrets, "sluice-console-token") {
			t.Errorf("%s has the Secrets %v", name, other.Secrets)
		}
		if other.Environment["TRUSTED_PROXIES"] != "sluice-proxies-0.openfaas.svc.cluster.local" {
			t.Errorf("%s trusts %q", name, other.Environment["TRUSTED_PROXIES"])
		}
		if kept := other.Labels["com.openfaas.scale.zero"] == "false"; f.Timer && !kept {
			t.Errorf("%s scales to zero, and a timer would wake it each minute", name)
		}
	}
}
