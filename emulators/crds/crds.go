// Package crds applies the resource definitions of Knative, Tekton, Traefik, the Gateway
// API and Envoy Gateway, from the modules that modules/go.mod and Traefik's go.mod pin.
// Conversion webhooks do not run here, so only the stored versions can be used.
package crds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/internal/thirdparty"
	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	pins        = "emulators/crds/modules"
	traefikPins = thirdparty.Module
)

// Set is a set of definitions of one project.
type Set struct {
	pins   string
	module string
	files  []string
	least  int // minimum number of definitions
}

// Tekton returns Pipelines, Tasks and their runs.
func Tekton() Set {
	return Set{pins, "github.com/tektoncd/pipeline", []string{
		"config/300-crds/300-pipeline.yaml", "config/300-crds/300-pipelinerun.yaml", "config/300-crds/300-task.yaml",
		"config/300-crds/300-taskrun.yaml",
	}, 4}
}

// Serving returns Knative Services and domain mappings.
func Serving() Set {
	return Set{pins, "knative.dev/serving", []string{
		"config/core/300-resources/service.yaml", "config/core/300-resources/domain-mapping.yaml",
	}, 2}
}

// Eventing returns PingSources and SinkBindings.
func Eventing() Set {
	return Set{pins, "knative.dev/eventing", []string{
		"config/core/resources/pingsource.yaml", "config/core/resources/sinkbindings.yaml",
	}, 2}
}

// Traefik returns Traefik's routes and middlewares.
func Traefik() Set {
	return Set{traefikPins, thirdparty.Traefik, []string{
		"docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml",
	}, 10}
}

// Gateway returns the Gateway API in Traefik's version.
func Gateway() Set {
	return Set{traefikPins, "sigs.k8s.io/gateway-api", []string{
		"config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml", "config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml", "config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml",
		"config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml", "config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml",
	}, 6}
}

// EnvoyGateway returns the part of Envoy Gateway that gates need.
func EnvoyGateway() Set {
	const generated = "charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_"
	return Set{pins, "github.com/envoyproxy/gateway", []string{
		generated + "backends.yaml", generated + "clienttrafficpolicies.yaml", generated + "securitypolicies.yaml",
	}, 3}
}

// Define applies definitions and waits until the API server serves them. in is a folder in the
// repository.
func Define(ctx context.Context, in string, client dynamic.Interface, sets ...Set) error {
	root, err := tool.Root(in)
	if err != nil {
		return err
	}
	var all []*unstructured.Unstructured
	for _, s := range sets {
		list, err := s.read(ctx, root)
		if err != nil {
			return fmt.Errorf("read the resource definitions of %s: %w", s.module, err)
		}
		all = append(all, list...)
	}
	return manifest.Define(ctx, client, all)
}

func (s Set) read(ctx context.Context, root string) ([]*unstructured.Unstructured, error) {
	dir, err := tool.ModuleDir(ctx, filepath.Join(root, filepath.FromSlash(s.pins)), s.module)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, file := range s.files {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		list, err := manifest.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, list...)
	}
	if len(all) < s.least {
		return nil, fmt.Errorf("got %d definitions in %v, want at least %d", len(all), s.files, s.least)
	}
	return all, nil
}
