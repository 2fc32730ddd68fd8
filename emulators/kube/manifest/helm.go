package manifest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// Helm returns the file of the program helm. It builds the program when its pins in scripts/helm
// are new to this machine. progress may be nil.
func Helm(ctx context.Context, root string, progress io.Writer) (string, error) {
	return tool.Program{Root: root, Module: "scripts/helm", Packages: []string{"helm.sh/helm/v4/cmd/helm"}, Name: "helm", Progress: progress}.Path(ctx)
}

// RunHelm runs helm without the person's own settings, and returns what it printed. The error
// contains Helm's messages.
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
