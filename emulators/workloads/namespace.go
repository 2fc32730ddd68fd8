package workloads

import (
	"context"
	"errors"
	"fmt"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/sluicegate/sluice/emulators/internal/program"
)

// endNamespaces empties and finalizes deleted namespaces. endNamespace reads each namespace
// again: the lister lags, and a new namespace can have the name of a deleted one.
func (c *Controller) endNamespaces(ctx context.Context, namespaces corelisters.NamespaceLister) (failed error) {
	list, err := namespaces.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, n := range list {
		if n.DeletionTimestamp == nil || c.Only != nil && !c.Only(n.Name) {
			continue
		}
		if err := c.endNamespace(ctx, n); err != nil {
			failed = errors.Join(failed, fmt.Errorf("end namespace %s: %w", n.Name, err))
		}
	}
	return failed
}

func (c *Controller) endNamespace(ctx context.Context, listed *core.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
	defer cancel()
	n, err := c.api.CoreV1().Namespaces().Get(ctx, listed.Name, meta.GetOptions{})
	if kerrors.IsNotFound(err) || err == nil && n.UID != listed.UID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	kinds, err := c.collections()
	if err != nil {
		return err
	}
	for kind := range kinds {
		err := c.dynamic.Resource(kind).Namespace(n.Name).
			DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{})
		if err != nil && !kerrors.IsNotFound(err) && !kerrors.IsMethodNotSupported(err) {
			return fmt.Errorf("empty %s: %w", kind.Resource, err)
		}
	}
	n.Spec.Finalizers = nil
	if _, err := c.api.CoreV1().Namespaces().Finalize(ctx, n, meta.UpdateOptions{}); err != nil && !kerrors.IsNotFound(err) {
		return fmt.Errorf("finalize: %w", err)
	}
	return nil
}

func (c *Controller) collections() (map[schema.GroupVersionResource]struct{}, error) {
	lists, err := c.discovery.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	return discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"deletecollection"}}, lists))
}
