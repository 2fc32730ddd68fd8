package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
)

// Remove deletes the objects of an app that were looked at, the route first, so
// that the app never answers without its gate. What has gone meanwhile is fine;
// what has been replaced by another object of that name is a conflict.
func (c *Cluster) Remove(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	if o.route != nil {
		err := c.dynamic.Resource(ingressRoutes()).Namespace(ref.Namespace).Delete(ctx, ref.Name, same(o.route))
		if err := gone(err); err != nil {
			return fmt.Errorf("delete route %s: %w", ref, err)
		}
	}
	if o.service != nil {
		if err := gone(c.kube.CoreV1().Services(ref.Namespace).Delete(ctx, ref.Name, same(o.service))); err != nil {
			return fmt.Errorf("delete service %s: %w", ref, err)
		}
	}
	if o.deployment != nil {
		opts := same(o.deployment)
		background := metav1.DeletePropagationBackground
		opts.PropagationPolicy = &background
		if err := gone(c.kube.AppsV1().Deployments(ref.Namespace).Delete(ctx, ref.Name, opts)); err != nil {
			return fmt.Errorf("delete deployment %s: %w", ref, err)
		}
	}
	if o.knative != nil {
		err := c.dynamic.Resource(knativeServices()).Namespace(ref.Namespace).Delete(ctx, ref.Name, same(o.knative))
		if err := gone(err); err != nil {
			return fmt.Errorf("delete knative service %s: %w", ref, err)
		}
	}
	if o.middleware != nil {
		err := c.dynamic.Resource(middlewares()).Namespace(ref.Namespace).Delete(ctx, gateName(ref), same(o.middleware))
		if err := gone(err); err != nil {
			return fmt.Errorf("delete middleware of %s: %w", ref, err)
		}
	}
	return nil
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return known(err)
}

// same allows a deletion of this very object, changed or not.
func same(o metav1.Object) metav1.DeleteOptions {
	uid := o.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// only allows a deletion of this very object as long as nobody has changed it.
func only(o metav1.Object) metav1.DeleteOptions {
	opts := same(o)
	version := o.GetResourceVersion()
	opts.Preconditions.ResourceVersion = &version
	return opts
}
