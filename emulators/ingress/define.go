package ingress

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	definitionsFile  = "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml"
	definitionsCount = 10 // at least; fewer means that the file is not what it was
)

// Define applies the resource definitions that come with the pinned Traefik and
// waits until the API server serves them.
func Define(ctx context.Context, root string, client dynamic.Interface) error {
	list, err := definitions(ctx, root)
	if err != nil {
		return err
	}
	return manifest.Define(ctx, client, list)
}

// definitions reads Traefik's resource definitions from the pinned module.
func definitions(ctx context.Context, root string) ([]*unstructured.Unstructured, error) {
	dir, err := tool.ModuleDir(ctx, filepath.Join(root, toolModule), traefik)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, definitionsFile))
	if err != nil {
		return nil, fmt.Errorf("read Traefik's resource definitions: %w", err)
	}
	list, err := manifest.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read Traefik's resource definitions: %w", err)
	}
	if len(list) < definitionsCount {
		return nil, fmt.Errorf("read Traefik's resource definitions: only %d in %s", len(list), definitionsFile)
	}
	return list, nil
}
