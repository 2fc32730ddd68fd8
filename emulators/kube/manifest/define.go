package manifest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const (
	serveEvery = 50 * time.Millisecond
	serveLimit = 3 * time.Minute // on a busy machine; usually a second
)

// Define applies resource definitions and waits until the API server serves them.
func Define(ctx context.Context, client dynamic.Interface, list []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, serveLimit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range list {
		group.Go(func() error {
			if err := define(ctx, client, d); err != nil {
				return fmt.Errorf("define %s: %w", d.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func define(ctx context.Context, client dynamic.Interface, d *unstructured.Unstructured) error {
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	if _, err := definitions.Apply(ctx, d.GetName(), d, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return err
	}
	resource, err := storedResource(d)
	if err != nil {
		return err
	}
	return child.Until(ctx, serveEvery, func() error {
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// storedResource returns the resource in the stored version, which needs no conversion.
func storedResource(d *unstructured.Unstructured) (r schema.GroupVersionResource, err error) {
	var definition struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Plural string `json:"plural"`
			} `json:"names"`
			Versions []struct {
				Name    string `json:"name"`
				Storage bool   `json:"storage"`
			} `json:"versions"`
		} `json:"spec"`
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object, &definition)
	r.Group, r.Resource = definition.Spec.Group, definition.Spec.Names.Plural
	for _, v := range definition.Spec.Versions {
		if v.Storage {
			r.Version = v.Name
		}
	}
	return r, err
}
