// Package architecture checks the imports, links, promises and vocabularies of the repository, and
// that it contains no secrets.
package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

const (
	module = "github.com/sluicegate/sluice/"
	root   = "../.." // of the checkout
)

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string // without tests
	Imports    []string
}

func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...").Output()
	check.OK(t, err)
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestImportDirection checks that packages import only in this direction: cmd → function →
// {store, cluster, httpapi} → domain → standard library.
func TestImportDirection(t *testing.T) {
	t.Parallel()
	domain := []string{"shared/plan", "shared/apikey", "shared/usage", "shared/app", "shared/deploy", "shared/hook", "shared/problem", "shared/reqctx", "shared/audit", "shared/event"}
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			own, ours := strings.CutPrefix(imported, module)
			switch {
			case slices.Contains(domain, p.path()):
				if ours && !slices.Contains(domain, own) || !ours && strings.Contains(imported, ".") {
					t.Errorf("%s is a domain package but imports %s", p.path(), imported)
				}
			case function(p.path()) != "" && function(own) != "" && function(p.path()) != function(own):
				t.Errorf("%s imports another function: %s", p.path(), own)
			case p.path() == "functions/console/internal/view" && own == "shared/client":
				t.Errorf("%s renders values but imports %s", p.path(), own)
			case strings.HasPrefix(p.path(), "shared/") && (strings.HasPrefix(own, "functions/") || strings.HasPrefix(own, "scripts/")):
				t.Errorf("%s imports %s", p.path(), own)
			case !forTests(p.path()) && ours && forTests(own):
				t.Errorf("%s imports %s, which is for tests", p.path(), own)
			}
		}
	}
}

// forTests reports whether the code of a folder runs only in tests and in the local stack.
func forTests(path string) bool {
	return strings.HasPrefix(path, "emulators/") || strings.HasPrefix(path, "tests/") || path == "scripts/test"
}

func function(path string) string {
	rest, ok := strings.CutPrefix(path, "functions/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// TestOnlyImporter restricts the libraries of external systems to the listed packages.
func TestOnlyImporter(t *testing.T) {
	t.Parallel()
	only := map[string][]string{
		"cloud.google.com/go/firestore":   {"shared/store/internal/fire"},
		"google.golang.org/grpc":          {"shared/store/internal/fire"},
		"google.golang.org/api":           {"shared/store/internal/fire"},
		"k8s.io/client-go":                {"shared/cluster"},
		"k8s.io/client-go/util/workqueue": {"shared/reconcile"},
		"github.com/golang-jwt/jwt":       {"shared/identity", "functions/webhook/internal/issuers", "emulators/issuer"},
		"github.com/coreos/go-oidc":       {"functions/webhook/internal/issuers"},
		"github.com/prometheus/":          {"functions/", "shared/funcmain"},
		"github.com/spf13/cobra":          {"scripts/sluice"},
		"github.com/cloudevents/":         {"shared/funcmain", "shared/buildevent", "shared/notify", "shared/reconcile", "functions/"},
		"github.com/GoogleCloudPlatform":  {"shared/funcmain"},
		"go.opentelemetry.io/":            {"shared/span"},
	}
	for _, p := range packages(t) {
		if forTests(p.path()) {
			continue
		}
		for _, imported := range p.Imports {
			foreign := "" // the longest matching prefix
			for prefix := range only {
				if strings.HasPrefix(imported, prefix) && len(prefix) > len(foreign) {
					foreign = prefix
				}
			}
			allowed := slices.ContainsFunc(only[foreign], func(place string) bool { return strings.HasPrefix(p.path(), place) })
			if foreign != "" && !allowed {
				t.Errorf("%s imports %s; only %v may import it", p.path(), imported, only[foreign])
			}
		}
	}
}

func TestSharedHasNoFiles(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if p.path() == "shared" || p.path() == "functions" {
			t.Errorf("%s contains Go files", p.path())
		}
	}
}

func TestOnlySDKWritesCloudEvents(t *testing.T) {
	t.Parallel()
	header := regexp.MustCompile(`(?i)"ce-[a-z]+"`)
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			check.OK(t, err)
			if found := header.Find(text); found != nil {
				t.Errorf("%s/%s writes the header %s", p.path(), name, found)
			}
		}
	}
}
