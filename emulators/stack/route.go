package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	routesFile    = "infra/traefik/routes.yaml"
	functionLabel = "sluice.dev/function"

	// hostRule is what routes.yaml leaves open: the hosts of {base_url}.
	hostVariable = "${SLUICE_HOST_RULE}"
	hostRule     = "Host(`localhost`) || Host(`127.0.0.1`)"
)

// route applies the routes of the management API, as in a cluster, for the
// functions that exist.
func (s *Stack) route(ctx context.Context, list []function) error {
	text, err := os.ReadFile(filepath.Join(s.o.Root, routesFile))
	if err != nil {
		return fmt.Errorf("read the routes: %w", err)
	}
	objects, err := manifest.Decode([]byte(strings.ReplaceAll(string(text), hostVariable, hostRule)))
	if err != nil {
		return fmt.Errorf("read %s: %w", routesFile, err)
	}
	var wanted []*unstructured.Unstructured
	for _, o := range objects {
		if f := o.GetLabels()[functionLabel]; f == "" || has(list, f) {
			wanted = append(wanted, o)
		}
	}
	applier, err := manifest.NewApplier(s.config)
	if err != nil {
		return err
	}
	return applier.Apply(ctx, wanted)
}
