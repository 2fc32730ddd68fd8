package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
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
