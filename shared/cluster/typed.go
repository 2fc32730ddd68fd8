package cluster

import (
	"context"
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// typed reads and writes the objects of one kind in one namespace as Go values. It uses the dynamic
// client, because client-go's typed clients double the size of a function and add 12 MB of memory.
type typed[T any] struct {
	api  dynamic.ResourceInterface
	kind schema.GroupVersionKind
	at   string
}

type anyKind = typed[unstructured.Unstructured]

// typedOf returns the access to a kind. An empty namespace can only be used to list all namespaces.
func typedOf[T any](c *Cluster, version schema.GroupVersion, kind, namespace string) typed[T] {
	resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)) // correct for all kinds used here
	return typed[T]{c.dynamic.Resource(resource).Namespace(namespace), version.WithKind(kind), path.Join(resource.Resource, namespace)}
}

func (c *Cluster) deployments(namespace string) typed[appsv1.Deployment] {
	return typedOf[appsv1.Deployment](c, appsv1.SchemeGroupVersion, "Deployment", namespace)
}

func (c *Cluster) services(namespace string) typed[corev1.Service] {
	return typedOf[corev1.Service](c, corev1.SchemeGroupVersion, "Service", namespace)
}

func (c *Cluster) secrets(namespace string) typed[corev1.Secret] {
	return typedOf[corev1.Secret](c, corev1.SchemeGroupVersion, "Secret", namespace)
}

func (c *Cluster) namespaces() typed[corev1.Namespace] {
	return typedOf[corev1.Namespace](c, corev1.SchemeGroupVersion, "Namespace", "")
}

func (c *Cluster) roleBindings(namespace string) typed[rbacv1.RoleBinding] {
	return typedOf[rbacv1.RoleBinding](c, rbacv1.SchemeGroupVersion, "RoleBinding", namespace)
}

func (c *Cluster) accessReviews() typed[authv1.SelfSubjectAccessReview] {
	return typedOf[authv1.SelfSubjectAccessReview](c, authv1.SchemeGroupVersion, "SelfSubjectAccessReview", "")
}

func (c *Cluster) objects(kind schema.GroupVersionKind, namespace string) anyKind {
	return typedOf[unstructured.Unstructured](c, kind.GroupVersion(), kind.Kind, namespace)
}

func traefikKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "traefik.io", Version: "v1alpha1", Kind: kind}
}

func middlewareKind() schema.GroupVersionKind { return traefikKind("Middleware") }

func gatewayKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: gatewayGroup, Version: "v1", Kind: kind}
}

func envoyKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: envoyGroup, Version: "v1alpha1", Kind: kind}
}

func (c *Cluster) knativeServices(namespace string) anyKind {
	return typedOf[unstructured.Unstructured](c, schema.GroupVersion{Group: knativeGroup, Version: "v1"}, "Service", namespace)
}

func (c *Cluster) pipelineRuns(namespace string) anyKind { return c.tekton("PipelineRun", namespace) }

func (c *Cluster) taskRuns(namespace string) anyKind { return c.tekton("TaskRun", namespace) }

func (c *Cluster) tekton(kind, namespace string) anyKind {
	return typedOf[unstructured.Unstructured](c, schema.GroupVersion{Group: "tekton.dev", Version: "v1"}, kind, namespace)
}

// get returns a not_found problem if the object does not exist.
func (k typed[T]) get(ctx context.Context, name string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := k.api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = problem.FromCode(problem.NotFound).WithCause(err)
	}
	return k.result("get", name, u, err)
}

// find is like get, but returns nil if the object does not exist.
func (k typed[T]) find(ctx context.Context, name string) (*T, error) {
	object, err := k.get(ctx, name)
	if problem.Is(err, problem.NotFound) {
		return nil, nil //nolint:nilnil // callers check for nil
	}
	return object, err
}

// write creates an object. If the object has a resource version, write replaces that version.
func (k typed[T]) write(ctx context.Context, object *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := k.toAPI(object)
	if err != nil {
		return nil, k.failed("write", "", err)
	}
	var is *unstructured.Unstructured
	verb := "update"
	if u.GetResourceVersion() != "" {
		is, err = k.api.Update(ctx, u, metav1.UpdateOptions{FieldManager: fieldManager})
		if apierrors.IsNotFound(err) { // deleted since it was read
			err = problem.FromCode(problem.Conflict).WithCause(err)
		}
	} else {
		verb = "create"
		is, err = k.api.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager})
	}
	return k.result(verb, u.GetName(), is, err)
}

// apply writes the given fields by server-side apply. If they contain a resource version, the object
// must have that version.
func (k typed[T]) apply(ctx context.Context, fields *unstructured.Unstructured) error {
	return k.applyWith(ctx, fields, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
}

func (k typed[T]) tryApply(ctx context.Context, fields *unstructured.Unstructured) error {
	return k.applyWith(ctx, fields, metav1.ApplyOptions{FieldManager: fieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
}

func (k typed[T]) applyWith(ctx context.Context, fields *unstructured.Unstructured, o metav1.ApplyOptions) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	fields.SetGroupVersionKind(k.kind)
	_, err := k.api.Apply(ctx, fields.GetName(), fields, o)
	return k.failed("apply", fields.GetName(), err)
}

// delete ignores an object that does not exist.
func (k typed[T]) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := k.api.Delete(ctx, name, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return k.failed("delete", name, err)
}

type object[T any] interface {
	*T
	metav1.Object
}

func deleteSeen[T any, P object[T]](ctx context.Context, k typed[T], seen P, allowed func(metav1.Object) metav1.DeleteOptions) error {
	if seen == nil {
		return nil
	}
	return k.delete(ctx, seen.GetName(), allowed(seen))
}

// same allows deletion of the same object, even if it has changed.
func same(o metav1.Object) metav1.DeleteOptions {
	uid := o.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// only allows deletion of the same object if it has not changed.
func only(o metav1.Object) metav1.DeleteOptions {
	opts := same(o)
	version := o.GetResourceVersion()
	opts.Preconditions.ResourceVersion = &version
	return opts
}

const listPage = 500

func (k typed[T]) list(ctx context.Context, o metav1.ListOptions) ([]*T, error) {
	var all []*T
	o.Limit = listPage
	for {
		page, err := k.page(ctx, o)
		if err != nil {
			return nil, k.failed("list", "", err)
		}
		for i := range page.Items {
			object, err := fromAPI[T](&page.Items[i], nil)
			if err != nil {
				return nil, k.failed("list", page.Items[i].GetName(), err)
			}
			all = append(all, object)
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return all, nil
		}
	}
}

func (k typed[T]) page(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return k.api.List(ctx, o)
}

// allByRef lists the objects with Sluice's label. selector is a field selector.
func allByRef[T any, P object[T]](ctx context.Context, k typed[T], selector string) (map[app.Ref]P, error) {
	objects, err := k.list(ctx, metav1.ListOptions{LabelSelector: managedSelector, FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	all := make(map[app.Ref]P, len(objects))
	for _, o := range objects {
		all[app.Ref{Namespace: P(o).GetNamespace(), Name: P(o).GetName()}] = o
	}
	return all, nil
}

func (k typed[T]) failed(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, path.Join(k.at, name), problemOf(err))
}

func (k typed[T]) result(verb, name string, u *unstructured.Unstructured, err error) (*T, error) {
	object, err := fromAPI[T](u, err)
	return object, k.failed(verb, name, err)
}

func (k typed[T]) toAPI(object *T) (*unstructured.Unstructured, error) {
	u, ok := any(object).(*unstructured.Unstructured)
	if !ok {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		u = &unstructured.Unstructured{Object: fields}
	}
	u.SetGroupVersionKind(k.kind)
	return u, nil
}

func fromAPI[T any](u *unstructured.Unstructured, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	if object, ok := any(u).(*T); ok {
		return object, nil
	}
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, err
	}
	return object, nil
}
