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
		if err := gone(c.services(ref.Namespace).delete(ctx, ref.Name, same(o.service))); err != nil {
			return fmt.Errorf("delete service %s: %w", ref, err)
		}
	}
	if err := c.removeWorkload(ctx, Workload{ref: ref, deployment: o.deployment, knative: o.knative}); err != nil {
		return err
	}
	for _, u := range append(o.gate[:], o.host) {
		if u == nil {
			continue
		}
		if err := c.removeMiddleware(ctx, u, ref, same(u)); err != nil {
			return err
		}
	}
	return nil
}

// RemoveWorkload deletes what runs an app, if there is anything: for one that was
// started when the app had been deleted already. Problem: conflict when it has been
// replaced by another object of that name.
func (c *Cluster) RemoveWorkload(ctx context.Context, ref app.Ref) error {
	w, err := c.Workload(ctx, ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.removeWorkload(ctx, w)
}

func (c *Cluster) removeWorkload(ctx context.Context, w Workload) error {
	if w.deployment != nil {
		opts := same(w.deployment)
		background := metav1.DeletePropagationBackground
		opts.PropagationPolicy = &background
		if err := gone(c.deployments(w.ref.Namespace).delete(ctx, w.ref.Name, opts)); err != nil {
			return fmt.Errorf("delete deployment %s: %w", w.ref, err)
		}
	}
	if w.knative != nil {
		err := c.dynamic.Resource(knativeServices()).Namespace(w.ref.Namespace).Delete(ctx, w.ref.Name, same(w.knative))
		if err := gone(err); err != nil {
			return fmt.Errorf("delete knative service %s: %w", w.ref, err)
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
