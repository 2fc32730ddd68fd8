package cluster

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

//go:embed manifests/*.yaml
var own embed.FS

// source is a set of files of a module or of this package.
type source struct {
	pins   string // folder below emulators; "" is this package
	module string
	files  []string
}

type part struct {
	name     string
	sources  []source
	settings map[string]map[string]string
}

// parts returns the components besides Kubernetes. It omits files that one node does not need.
func parts() []part {
	const pins, core = "cluster/tools/knative", "config/core/"
	return []part{
		{name: "CoreDNS", sources: []source{{files: []string{"dns.yaml"}}}},
		{name: "Traefik", sources: []source{
			{"tools", "github.com/traefik/traefik/v3", []string{"docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml"}},
			{files: []string{"traefik.yaml", "gateway.yaml"}},
		}},
		{
			name: "Knative Serving",
			sources: []source{
				{pins, serving, []string{
					core + "100-*.yaml", core + "200-*.yaml", core + "200-roles/*.yaml", core + "300-resources/*.yaml", core + "configmaps/*.yaml",
					core + "deployments/*.yaml", core + "webhooks/*.yaml", core + "300-*.yaml", core + "999-*.yaml",
				}},
				{pins, "knative.dev/networking", []string{
					"config/certificate.yaml", "config/domain-claim.yaml", "config/ingress.yaml", "config/serverlessservice.yaml", "config/config-network.yaml",
				}},
				{pins, "knative.dev/caching", []string{"config/image.yaml"}},
			},
			settings: map[string]map[string]string{
				"config-network": {"ingress-class": "traefik.ingress.networking.knative.dev"},
				"config-domain":  {"knative.example.com": ""},
				"config-deployment": {
					// Knative cannot resolve the last registry; only containerd's mirror serves
					// it.
					"registries-skipping-tag-resolving": "kind.local,ko.local,dev.local," + exampleRegistry,
					"queue-sidecar-cpu-request":         "5m",
				},
			},
		},
		{name: "Knative Eventing", sources: []source{{"cluster/tools/eventing", eventing, []string{
			core + "100-*.yaml", core + "200-*.yaml", core + "roles/*.yaml", core + "resources/*.yaml", core + "configmaps/*.yaml",
			core + "deployments/controller.yaml", core + "deployments/pingsource-mt-adapter.yaml", core + "deployments/webhook.yaml", core + "webhooks/*.yaml",
			"third_party/eventing-integrations-latest/*-images.yaml",
		}}}},
		{name: "Tekton Pipelines", sources: []source{{"cluster/tools/tekton", tekton, []string{
			"config/100-namespace/*.yaml", "config/200-*.yaml", "config/201-*.yaml", "config/clusterrole-*.yaml", "config/300-crds/*.yaml", "config/config-*.yaml",
			"config/500-webhooks.yaml", "config/controller.yaml", "config/events.yaml", "config/webhook.yaml", "config/resolvers/*.yaml",
		}}}},
	}
}

func (p part) read(ctx context.Context, root string, images map[string]string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, s := range p.sources {
		texts, err := s.texts(ctx, root)
		if err != nil {
			return nil, fmt.Errorf("read the manifests of %s: %w", p.name, err)
		}
		for _, text := range texts {
			named, err := withImages(text, images)
			if err != nil {
				return nil, fmt.Errorf("read the manifests of %s: %w", p.name, err)
			}
			list, err := manifest.Decode([]byte(named))
			if err != nil {
				return nil, fmt.Errorf("read the manifests of %s: %w", p.name, err)
			}
			all = append(all, list...)
		}
	}
	return fit(all, p.settings), nil
}

func (s source) texts(ctx context.Context, root string) ([]string, error) {
	var texts []string
	if s.pins == "" {
		for _, file := range s.files {
			text, err := own.ReadFile("manifests/" + file)
			if err != nil {
				return nil, err
			}
			texts = append(texts, string(text))
		}
		return texts, nil
	}
	dir, err := tool.ModuleDir(ctx, filepath.Join(root, "emulators", s.pins), s.module)
	if err != nil {
		return nil, err
	}
	for _, pattern := range s.files {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("%s has no %s", s.module, pattern)
		}
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			texts = append(texts, string(text))
		}
	}
	return texts, nil
}

// withImages replaces the ko:// references and the reference to Tekton's shell image.
func withImages(text string, images map[string]string) (string, error) {
	var missing error
	text = regexp.MustCompile(`ko://[A-Za-z0-9./_-]+`).ReplaceAllStringFunc(text, func(reference string) string {
		ref, ok := images[strings.TrimPrefix(reference, "ko://")]
		if !ok {
			missing = fmt.Errorf("no image was built for %s", reference)
		}
		return ref
	})
	if shell := images[shellImage]; shell != "" {
		text = regexp.MustCompile(`cgr\.dev/chainguard/busybox@sha256:[0-9a-f]+`).ReplaceAllString(text, shell)
	}
	return text, missing
}

// fit adapts objects to one node: it removes autoscalers and disruption budgets, reduces CPU
// requests, and applies settings to ConfigMaps.
func fit(all []*unstructured.Unstructured, settings map[string]map[string]string) []*unstructured.Unstructured {
	var fitted []*unstructured.Unstructured
	for _, o := range all {
		switch o.GetKind() {
		case "HorizontalPodAutoscaler", "PodDisruptionBudget":
			continue
		case "Deployment":
			cutRequests(o)
		case "ConfigMap":
			for key, value := range settings[o.GetName()] {
				_ = unstructured.SetNestedField(o.Object, value, "data", key)
			}
		}
		fitted = append(fitted, o)
	}
	return fitted
}

func cutRequests(o *unstructured.Unstructured) {
	containers, found, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil || !found {
		return
	}
	for _, c := range containers {
		if container, ok := c.(map[string]any); ok {
			_ = unstructured.SetNestedField(container, "5m", "resources", "requests", "cpu") // never fails
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
}

// stages groups objects in the order of application. Objects in late can be applied only once
// Knative's webhooks run.
func stages(all []*unstructured.Unstructured) (namespaces, definitions, rest, late []*unstructured.Unstructured) {
	for _, o := range all {
		group := o.GroupVersionKind().Group
		switch {
		case o.GetKind() == "Namespace":
			namespaces = append(namespaces, o)
		case o.GetKind() == "CustomResourceDefinition":
			definitions = append(definitions, o)
		case strings.HasSuffix(group, "knative.dev") || group == "admissionregistration.k8s.io":
			late = append(late, o)
		default:
			rest = append(rest, o)
		}
	}
	return namespaces, definitions, rest, late
}
