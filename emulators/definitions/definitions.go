// Package definitions gives the API server of the local stack and of tests the
// resource definitions of Knative, Tekton, Traefik, the Gateway API and Envoy Gateway: the
// projects' own, as they come with the modules that modules/go.mod and Traefik's own go.mod
// pin. The controllers of Knative, Tekton and Envoy Gateway do not run here; their webhooks
// neither, so only the versions that are stored can be used.
package definitions

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
	pins        = "emulators/definitions/modules"
	traefikPins = thirdparty.Module
)

// Set is a part of a project's definitions.
type Set struct {
	pins   string // folder of the go.mod
	module string
	files  []string // below the module
	least  int      // definitions; fewer mean that the files are not what they were
}

// Tekton is what builds need: Pipelines, Tasks and their runs.
func Tekton() Set {
	return Set{pins, "github.com/tektoncd/pipeline", []string{
		"config/300-crds/300-pipeline.yaml", "config/300-crds/300-pipelinerun.yaml", "config/300-crds/300-task.yaml",
		"config/300-crds/300-taskrun.yaml",
	}, 4}
}

// Serving is Knative Services, and hosts that lead to them.
func Serving() Set {
	return Set{pins, "knative.dev/serving", []string{
		"config/core/300-resources/service.yaml", "config/core/300-resources/domain-mapping.yaml",
	}, 2}
}

// Eventing is the sources that Sluice is driven by, and the binding of a sink.
func Eventing() Set {
	return Set{pins, "knative.dev/eventing", []string{
		"config/core/resources/pingsource.yaml", "config/core/resources/sinkbindings.yaml",
	}, 2}
}

// Traefik is its routes and middlewares.
func Traefik() Set {
	return Set{traefikPins, thirdparty.Traefik, []string{
		"docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml",
	}, 10}
}

// Gateway is the Gateway API, in the version that Traefik is built with.
func Gateway() Set {
	return Set{traefikPins, "sigs.k8s.io/gateway-api", []string{
		"config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml", "config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml", "config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml",
		"config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml", "config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml",
	}, 6}
}

// EnvoyGateway is what Envoy Gateway adds to the Gateway API, as far as gates need it.
func EnvoyGateway() Set {
	const generated = "charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_"
	return Set{pins, "github.com/envoyproxy/gateway", []string{
		generated + "backends.yaml", generated + "clienttrafficpolicies.yaml", generated + "securitypolicies.yaml",
	}, 3}
}

// Define applies sets of definitions and waits until the API server serves them.
// in is a folder inside the repository.
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
		return nil, fmt.Errorf("only %d in %v", len(all), s.files)
	}
	return all, nil
}
