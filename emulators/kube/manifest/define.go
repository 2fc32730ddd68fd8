package manifest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	establishEvery = 50 * time.Millisecond
	establishLimit = 60 * time.Second // of all at once, on a busy machine; usually a second
)

// Define applies resource definitions and waits until the API server serves every
// one of them.
func Define(ctx context.Context, client dynamic.Interface, list []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, establishLimit)
	defer cancel()
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range list {
		group.Go(func() error {
			if err := define(ctx, definitions, d); err != nil {
				return fmt.Errorf("define %s: %w", d.GetName(), err)
			}
			return served(ctx, client, d)
		})
	}
	return group.Wait()
}

func define(ctx context.Context, definitions dynamic.ResourceInterface, d *unstructured.Unstructured) error {
	got, err := definitions.Apply(ctx, d.GetName(), d, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	for err == nil && !established(got) {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("not established: %w", err)
		}
		got, err = definitions.Get(ctx, d.GetName(), metav1.GetOptions{})
	}
	return err
}

// established tells whether the API server has taken up a definition.
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

// served waits until a list of the resource is answered: what is established is
// not yet served everywhere.
func served(ctx context.Context, client dynamic.Interface, d *unstructured.Unstructured) error {
	resource, err := storedResource(d)
	if err != nil {
		return fmt.Errorf("define %s: %w", d.GetName(), err)
	}
	for {
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		if pause(ctx) != nil {
			return fmt.Errorf("define %s: not served: %w", d.GetName(), err)
		}
	}
}

// storedResource is what a definition defines, in the version that is stored, which
// no webhook has to convert.
func storedResource(d *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	r := schema.GroupVersionResource{}
	var err error
	if r.Group, _, err = unstructured.NestedString(d.Object, "spec", "group"); err != nil {
		return r, err
	}
	if r.Resource, _, err = unstructured.NestedString(d.Object, "spec", "names", "plural"); err != nil {
		return r, err
	}
	versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
	if err != nil {
		return r, err
	}
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			r.Version, _ = v["name"].(string)
		}
	}
	return r, nil
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(establishEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
