package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
)

// listPage is how many objects the API server is asked for at a time.
const listPage = 500

// Inventory is every labelled object of every app, as it was when listed.
type Inventory struct {
	deployments map[app.Ref]*appsv1.Deployment
	services    map[app.Ref]*corev1.Service
	routes      map[app.Ref]*unstructured.Unstructured
	knative     map[app.Ref]*unstructured.Unstructured
	middlewares map[app.Ref]*unstructured.Unstructured // by namespace and the Middleware's own name
	cas         map[string]*corev1.Secret              // by namespace
}

// Of gives the objects of one app. One that lacks Sluice's label shows as absent;
// [Cluster.Objects] would tell.
func (v Inventory) Of(ref app.Ref) Objects {
	o := Objects{
		deployment: v.deployments[ref], knative: v.knative[ref], service: v.services[ref], route: v.routes[ref],
		host: v.middlewares[app.Ref{Namespace: ref.Namespace, Name: hostName(ref)}],
		ca:   v.cas[ref.Namespace],
	}
	for i, name := range gateNames(ref) {
		o.gate[i] = v.middlewares[app.Ref{Namespace: ref.Namespace, Name: name}]
	}
	o.tellPlaceholder()
	return o
}

// Inventory lists every app's objects: a handful of calls, however many apps.
func (c *Cluster) Inventory(ctx context.Context) (Inventory, error) {
	var v Inventory
	var err error
	if v.deployments, err = allTyped(ctx, c.deployments(""), "deployments"); err != nil {
		return Inventory{}, err
	}
	if v.services, err = allTyped(ctx, c.services(""), "services"); err != nil {
		return Inventory{}, err
	}
	if v.cas, err = c.allCAs(ctx); err != nil {
		return Inventory{}, err
	}
	if v.knative, err = c.allKnative(ctx); err != nil {
		return Inventory{}, err
	}
	if v.routes, err = c.allOf(ctx, ingressRoutes()); err != nil {
		return Inventory{}, err
	}
	v.middlewares, err = c.allOf(ctx, middlewares())
	return v, err
}

// allTyped lists the objects of a kind by where they are.
func allTyped[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, kind typed[T], what string) (map[app.Ref]P, error) {
	all := map[app.Ref]P{}
	err := pages(ctx, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		page, next, err := kind.list(ctx, o)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", what, known(err))
		}
		for _, object := range page {
			all[refOf(P(object))] = object
		}
		return next, nil
	})
	return all, err
}

// allCAs lists the copies of the checker's CA by namespace.
func (c *Cluster) allCAs(ctx context.Context) (map[string]*corev1.Secret, error) {
	all := map[string]*corev1.Secret{}
	err := pages(ctx, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		o.FieldSelector = "metadata.name=" + caSecretName // no other Secret leaves the API server
		page, next, err := c.secrets("").list(ctx, o)
		if err != nil {
			return "", fmt.Errorf("list the copies of the CA: %w", known(err))
		}
		for _, ca := range page {
			all[ca.Namespace] = ca
		}
		return next, nil
	})
	return all, err
}

func (c *Cluster) allOf(ctx context.Context, kind schema.GroupVersionResource) (map[app.Ref]*unstructured.Unstructured, error) {
	all := map[app.Ref]*unstructured.Unstructured{}
	err := pages(ctx, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		list, err := c.dynamic.Resource(kind).List(ctx, o)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", kind.Resource, known(err))
		}
		for i := range list.Items {
			all[refOf(&list.Items[i])] = &list.Items[i]
		}
		return list.GetContinue(), nil
	})
	return all, err
}

// pages calls list for one page after the other, each with a deadline of its own.
func pages(ctx context.Context, list func(context.Context, metav1.ListOptions) (next string, err error)) error {
	opts := metav1.ListOptions{LabelSelector: managedSelector, Limit: listPage}
	for {
		next, err := page(ctx, opts, list)
		if err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		opts.Continue = next
	}
}

func page(ctx context.Context, opts metav1.ListOptions, list func(context.Context, metav1.ListOptions) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return list(ctx, opts)
}

func refOf(o metav1.Object) app.Ref { return app.Ref{Namespace: o.GetNamespace(), Name: o.GetName()} }
