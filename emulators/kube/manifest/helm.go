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

// Helm returns the program helm. It builds it unless this machine has built its pins. progress
// may be nil.
func Helm(ctx context.Context, root string, progress io.Writer) (string, error) {
	return tool.Program{Root: root, Module: "scripts/helm", Packages: []string{"helm.sh/helm/v4/cmd/helm"}, Name: "helm", Progress: progress}.Path(ctx)
}

// RunHelm runs helm without the user's settings and returns its output. Errors contain Helm's
// messages.
func RunHelm(ctx context.Context, root string, args ...string) ([]byte, error) {
	program, err := Helm(ctx, root, nil)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "sluice-helm-")
	if err != nil {
		return nil, fmt.Errorf("create a home for helm: %w", err)
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
