package manifest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// Namespace is the one that the chart is installed in.
const Namespace = "sluice-system"

// chartDir is the product's chart, below the repository's root.
const chartDir = "infra/chart"

// Helm gives the program helm, which it builds when its pins in scripts/helm are new to
// this machine. progress, for a person to read, may be nil.
func Helm(ctx context.Context, root string, progress io.Writer) (string, error) {
	return tool.Program{Root: root, Module: "scripts/helm", Package: "helm.sh/helm/v4/cmd/helm", Name: "helm", Progress: progress}.Path(ctx)
}

// RunHelm runs helm, which is to know nothing of the person's own settings, and gives what
// it printed. The error says what it complained of.
func RunHelm(ctx context.Context, root string, args ...string) ([]byte, error) {
	program, err := Helm(ctx, root, nil)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "sluice-helm-")
	if err != nil {
		return nil, fmt.Errorf("make a home for helm: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w\n%s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}

// Chart renders the product's chart as "helm template" does, with more of its arguments,
// e.g. "--values", "infra/chart/values/plain.yaml". Without a cluster to look at, Secrets
// are made anew each time.
func Chart(ctx context.Context, root string, args ...string) ([]*unstructured.Unstructured, error) {
	out, err := RunHelm(ctx, root, append([]string{"template", "sluice", filepath.Join(root, chartDir), "--namespace", Namespace}, args...)...)
	if err != nil {
		return nil, err
	}
	return Decode(out)
}

// OfKinds are the objects of some kinds.
func OfKinds(all []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind())
	})
}
