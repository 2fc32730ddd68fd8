// Package manifest applies YAML documents like "kubectl apply --server-side --validate=strict":
// an unknown field is an error.
package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const (
	fieldManager = "sluice-manifest"
	callLimit    = 15 * time.Second
	kindLimit    = 3 * time.Second // for a new kind to be listed
)

// Decode splits YAML documents into objects.
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
			return nil, fmt.Errorf("read YAML: %w", err)
		}
		if text := bytes.TrimSpace(document); len(text) == 0 || string(text) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(document); err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		list = append(list, o)
	}
}

// Applier applies objects of any kind that the API server serves.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier returns an applier for the API server of config.
func NewApplier(config *rest.Config) (*Applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	return &Applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))}, nil
}

// Apply applies objects in order and overrides conflicts.
func (a *Applier) Apply(ctx context.Context, list []*unstructured.Unstructured) error {
	return a.each(ctx, list, metav1.PatchOptions{})
}

// Check makes the API server validate objects without storing them.
func (a *Applier) Check(ctx context.Context, list []*unstructured.Unstructured) error {
	return a.each(ctx, list, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
}

func (a *Applier) each(ctx context.Context, list []*unstructured.Unstructured, o metav1.PatchOptions) error {
	force := true
	o.Force, o.FieldManager, o.FieldValidation = &force, fieldManager, metav1.FieldValidationStrict
	var failed error
	for _, object := range list {
		if err := a.one(ctx, object, o); err != nil {
			failed = errors.Join(failed, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return failed
}

func (a *Applier) one(ctx context.Context, object *unstructured.Unstructured, o metav1.PatchOptions) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	resource, err := a.served(ctx, object)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body, o)
	return err
}

// served is like resource, but waits until the API server serves a new kind.
func (a *Applier) served(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	ctx, cancel := context.WithTimeout(ctx, kindLimit)
	defer cancel()
	var resource dynamic.ResourceInterface
	var failed error
	err := child.Until(ctx, kindLimit/10, func() error {
		if resource, failed = a.resource(object); meta.IsNoMatchError(failed) {
			return failed
		}
		return nil
	})
	return resource, errors.Join(err, failed)
}

func (a *Applier) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	m, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		m, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return a.client.Resource(m.Resource), nil
	}
	if object.GetNamespace() == "" {
		return nil, errors.New("the object has no namespace")
	}
	return a.client.Resource(m.Resource).Namespace(object.GetNamespace()), nil
}
