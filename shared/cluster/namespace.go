package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/problem"
)

// EnsureNamespace makes an environment's namespace unless it is there, and grants
// Sluice's functions their rights in it ([Options].SystemNamespace). One that is there
// already is used as it is; where rights are granted, its owner must have given it
// Sluice's label. Problem: unavailable, also while the namespace is being deleted, and
// to functions that may make no namespaces: wiring does, soon.
//
// Nothing here deletes a namespace: it can hold volumes and other things that
// Sluice has not made and could not bring back.
func (c *Cluster) EnsureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var there *corev1.Namespace
	ns, err := c.namespaces().get(ctx, name)
	if err := keep(&there, ns, err); err != nil {
		return fmt.Errorf("look for namespace %s: %w", name, err)
	}
	if there != nil && there.Status.Phase == corev1.NamespaceTerminating {
		return fmt.Errorf("namespace %s is being deleted: %w", name, problem.Of(problem.Unavailable))
	}
	if there == nil {
		_, err = c.namespaces().create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: managed()}})
		if lacksRight(err) {
			return fmt.Errorf("make namespace %s: %w", name, problem.Of(problem.Unavailable).Because(err))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make namespace %s: %w", name, known(err))
		}
	}
	return c.grant(ctx, name)
}
