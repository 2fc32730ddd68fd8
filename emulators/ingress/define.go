package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

const (
	definitionsFile  = "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml"
	establishEvery   = 50 * time.Millisecond
	establishLimit   = 30 * time.Second
	fieldManager     = "sluice-local-stack"
	definitionsCount = 10 // at least; fewer means that the file is not what it was
)

// Define applies the resource definitions that come with the pinned Traefik and
// waits until the API server serves them.
func Define(ctx context.Context, root string, client dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, establishLimit)
	defer cancel()
	list, err := definitions(ctx, root)
	if err != nil {
		return err
	}
	resource := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range list {
		group.Go(func() error { return define(ctx, resource, d) })
	}
	return group.Wait()
}

func define(ctx context.Context, resource dynamic.ResourceInterface, d *unstructured.Unstructured) error {
	name := d.GetName()
	tick := time.NewTicker(establishEvery)
	defer tick.Stop()
	got, err := resource.Apply(ctx, name, d, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	for {
		if err != nil {
			return fmt.Errorf("define %s: %w", name, err)
		}
		if established(got) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("define %s: not served: %w", name, context.Cause(ctx))
		case <-tick.C:
		}
		got, err = resource.Get(ctx, name, metav1.GetOptions{})
	}
}

// established tells whether the API server serves a definition's resources.
func established(d *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(d.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" {
			return c["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}

// definitions reads Traefik's resource definitions from the pinned module.
func definitions(ctx context.Context, root string) ([]*unstructured.Unstructured, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", traefik)
	cmd.Dir = filepath.Join(root, toolModule)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find Traefik's module: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), definitionsFile))
	if err != nil {
		return nil, fmt.Errorf("read Traefik's resource definitions: %w", err)
	}
	list, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read Traefik's resource definitions: %w", err)
	}
	if len(list) < definitionsCount {
		return nil, fmt.Errorf("read Traefik's resource definitions: only %d in %s", len(list), definitionsFile)
	}
	return list, nil
}

// Decode splits a file of YAML documents into objects.
func Decode(text []byte) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if text := bytes.TrimSpace(document); len(text) == 0 || string(text) == "null" {
			continue // nothing but comments
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(document); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
}

// Apply applies namespaced objects as they stand; the plural of a kind is found by
// the API's own rule.
func Apply(ctx context.Context, client dynamic.Interface, list []*unstructured.Unstructured) error {
	for _, o := range list {
		plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		_, err := client.Resource(plural).Namespace(o.GetNamespace()).
			Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
