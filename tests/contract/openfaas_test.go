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

// stack is the checked part of infra/openfaas/stack.yaml.
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

// stackFile reads the file as faas-cli does with an empty environment.
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

// settingsOf returns a function's settings and whether each is required, from the tags of its
// configuration and funcmain's.
func settingsOf(t *testing.T, function string) map[string]bool {
	t.Helper()
	config, ok := map[string]any{
		"apps": apps.Config{}, "builds": builds.Config{}, "checker": checker.Config{}, "console": console.Config{}, "deploys": deploys.Config{},
		"keys": keys.Config{}, "rollup": rollup.Config{}, "session": session.Config{}, "standin": standin.Config{}, "usage": usage.Config{},
		"webhook": webhook.Config{}, "wiring": wiring.Config{},
	}[function]
	if !ok {
		t.Fatalf("no configuration of %s", function)
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

// notInOpenFaaS lists the functions that OpenFaaS does not run, with the reason.
var notInOpenFaaS = map[string]string{
	"checker": "it is on the path of every request: a Deployment of two replicas with TLS",
	"standin": "it is behind the checkers' Service",
}

// TestStackFile checks the stack file's functions, images and settings.
func TestStackFile(t *testing.T) {
	t.Parallel()
	file := stackFile(t)
	if file.Provider.Name != "openfaas" {
		t.Errorf("provider %q", file.Provider.Name)
	}
	for _, function := range functions() {
		f, ok := file.Functions[function]
		if ok == (notInOpenFaaS[function] != "") {
			t.Errorf("%s in the stack file: %v", function, ok)
		}
		if ok {
			checkStackFunction(t, function, f)
		}
	}
	for function := range file.Functions {
		if shipped[function] == nil {
			t.Errorf("unknown function %q", function)
		}
	}
}

func checkStackFunction(t *testing.T, function string, f stackFunction) {
	t.Helper()
	if !strings.HasSuffix(f.Image, "/"+function+":latest") || !f.SkipBuild {
		t.Errorf("%s: image %q, skip_build %v", function, f.Image, f.SkipBuild)
	}
	if !f.ReadOnly || f.Requests["memory"] == "" || f.Limits["memory"] == "" || f.Annotations["com.openfaas.serviceaccount"] == "" {
		t.Errorf("%s lacks limits or a service account: %+v", function, f)
	}
	known := settingsOf(t, function)
	for name := range f.Environment {
		if _, ok := known[name]; !ok && name != "GOMEMLIMIT" {
			t.Errorf("%s does not read %s", function, name)
		}
	}
	for name, required := range known {
		if _, set := f.Environment[name]; required && !set {
			t.Errorf("%s lacks %s", function, name)
		}
	}
	for _, name := range []string{"CHECKER_URL", "CHECKER_CA_FILE"} {
		if _, reads := known[name]; reads && f.Environment[name] == "" && function != "wiring" {
			t.Errorf("%s lacks %s, which it needs to call checkers", function, name)
		}
	}
	if f.Environment["SESSION_KEYS_DIR"] != "" && !slices.ContainsFunc(f.Secrets, func(s string) bool { return strings.HasPrefix(s, "sluice-session-") }) {
		t.Errorf("%s has no session keys", function)
	}
}

// TestStackRoutes checks that the routes to OpenFaaS' gateway equal those to the functions in
// other installations.
func TestStackRoutes(t *testing.T) {
	t.Parallel()
	faas, err := chart("openfaas")
	check.OK(t, err)
	if got, want := routes(t, faas, true), routes(t, rendered(t, "plain"), false); !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("routes to OpenFaaS' gateway: got %v\nwant %v", got, want)
	}
}

// routes returns target functions by priority and match. With byPath, a Middleware's prefix names
// the function.
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
			if byPath && len(r.Middlewares) > 0 { // other routes lead to the checkers
				to = strings.TrimPrefix(prefixes[r.Middlewares[0].Name], "/function/")
			}
			leads[fmt.Sprint(r.Priority, " ", r.Match)] = to
		}
	}
	return leads
}

// TestStackList checks that the stack file and the chart's functions.yaml agree.
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
		t.Errorf("functions of the list: got %v, want %v as in the stack file", got, want)
	}
	secrets := map[string]string{"": "", "public": "sluice-session-public-keys", "private": "sluice-session-keys"}
	for name, f := range list {
		other := file.Functions[name]
		for _, called := range f.Calls {
			if at := other.Environment[strings.ToUpper(called)+"_URL"]; at != "http://gateway.openfaas:8080/function/"+called {
				t.Errorf("%s calls %s at %q", name, called, at)
			}
		}
		if secret := secrets[f.SessionKeys]; secret != "" && !slices.Contains(other.Secrets, secret) {
			t.Errorf("%s lacks %s: %v", name, secret, other.Secrets)
		}
		if manages := f.SessionKeys != "" || name == "console"; manages != slices.Contains(other.Secrets, "sluice-console-token") {
			t.Errorf("%s: got Secrets %v", name, other.Secrets)
		}
		if other.Environment["TRUSTED_PROXIES"] != "sluice-proxies-0.openfaas.svc.cluster.local" {
			t.Errorf("%s: TRUSTED_PROXIES: got %q", name, other.Environment["TRUSTED_PROXIES"])
		}
		if kept := other.Labels["com.openfaas.scale.zero"] == "false"; f.Timer && !kept {
			t.Errorf("%s scales to zero, but a timer wakes it every minute", name)
		}
	}
}
