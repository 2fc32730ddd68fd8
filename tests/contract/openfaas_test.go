package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAll(text, []byte("$1"))
	var s struct {
		Version string `json:"version"`
		stack
	}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatal(err)
	}
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
		if _, ok := known[name]; !ok {
			t.Errorf("%s does not read %s", function, name)
		}
	}
	for name, required := range known {
		if _, set := f.Environment[name]; required && !set {
			t.Errorf("%s must have %s", function, name)
		}
	}
	if f.Environment["SESSION_KEYS_DIR"] != "" && !slices.ContainsFunc(f.Secrets, func(s string) bool { return strings.HasPrefix(s, "sluice-session-") }) {
		t.Errorf("%s has no session keys", function)
	}
}

// route is what is looked at of an IngressRoute.
type route struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Routes []struct {
			Match       string `json:"match"`
			Priority    int    `json:"priority"`
			Middlewares []struct {
				Name string `json:"name"`
			} `json:"middlewares"`
		} `json:"routes"`
		AddPrefix struct {
			Prefix string `json:"prefix"`
		} `json:"addPrefix"`
	} `json:"spec"`
}

func readRoutes(t *testing.T, file string) []route {
	t.Helper()
	var all []route
	for _, text := range strings.Split(string(mustRead(t, filepath.Join(checkout, "infra", file))), "\n---\n") {
		var r route
		if err := yaml.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestStackRoutes: OpenFaaS' gateway gets the requests that the functions get elsewhere,
// by the same rules, with the function's path before them.
func TestStackRoutes(t *testing.T) {
	t.Parallel()
	prefixes, matches := map[string]string{}, map[string]string{}
	for _, r := range readRoutes(t, "openfaas/routes.yaml") {
		if r.Kind == "Middleware" {
			prefixes[r.Metadata.Name] = r.Spec.AddPrefix.Prefix
			continue
		}
		for _, one := range r.Spec.Routes {
			matches[fmt.Sprint(one.Priority, " ", one.Match)] = one.Middlewares[0].Name
		}
	}
	elsewhere := readRoutes(t, "traefik/routes.yaml")
	for _, r := range elsewhere {
		for _, one := range r.Spec.Routes {
			function := r.Metadata.Labels["sluice.dev/function"]
			if got := prefixes[matches[fmt.Sprint(one.Priority, " ", one.Match)]]; got != "/function/"+function {
				t.Errorf("%s at priority %d leads to %q", one.Match, one.Priority, got)
			}
		}
	}
	if len(matches) != len(elsewhere) {
		t.Errorf("%d routes, want %d", len(matches), len(elsewhere))
	}
}
