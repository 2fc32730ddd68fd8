package builds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

const (
	definitionFile = "infra/tekton/pipelinerun-crd.yaml"
	defineLimit    = 30 * time.Second
	defineEvery    = 50 * time.Millisecond
)

// Define applies the resource definition of PipelineRuns and waits until the API
// server serves it. root is the repository's.
func Define(ctx context.Context, root string, client dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, defineLimit)
	defer cancel()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(definitionFile)))
	if err != nil {
		return fmt.Errorf("read the definition of PipelineRuns: %w", err)
	}
	var d unstructured.Unstructured
	if err := yaml.Unmarshal(text, &d.Object); err != nil {
		return fmt.Errorf("read the definition of PipelineRuns: %w", err)
	}
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	if _, err := definitions.Apply(ctx, d.GetName(), &d, metav1.ApplyOptions{FieldManager: "sluice-local-stack", Force: true}); err != nil {
		return fmt.Errorf("define PipelineRuns: %w", err)
	}
	// Established is not yet served everywhere: a list is the proof.
	for {
		_, err := client.Resource(pipelineRuns()).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("define PipelineRuns: %w", err)
		}
		pause(ctx, defineEvery)
	}
}
