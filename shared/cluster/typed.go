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

// typed reads and writes the objects of one kind in one namespace as values of their
// Go type. Each call has a deadline, and its error says what was called and is in the
// words of package problem.
//
// It does this over the dynamic client, because client-go's own typed clients
// bring every kind of Kubernetes with them: twice the program, and 12 MB of memory for
// each function.
type typed[T any] struct {
	api  dynamic.ResourceInterface
	kind schema.GroupVersionKind
	at   string // in errors, e.g. "services/shop-prod"
}

// anyKind is for kinds without a Go type of their own.
type anyKind = typed[unstructured.Unstructured]

// typedOf gives the objects of a kind. The namespace "" stands for all, to list them.
func typedOf[T any](c *Cluster, version schema.GroupVersion, kind, namespace string) typed[T] {
	resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)) // right for every kind that is used here
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

// objects gives those of a kind that has no Go type here.
func (c *Cluster) objects(kind schema.GroupVersionKind, namespace string) anyKind {
	return typedOf[unstructured.Unstructured](c, kind.GroupVersion(), kind.Kind, namespace)
}

// The kinds of others that apps are led to by.
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

// get reads an object. Problem: not_found.
func (k typed[T]) get(ctx context.Context, name string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u, err := k.api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = problem.Of(problem.NotFound).Because(err)
	}
	return k.result("get", name, u, err)
}

// look is get of what need not be there: then it gives nil.
func (k typed[T]) look(ctx context.Context, name string) (*T, error) {
	object, err := k.get(ctx, name)
	if problem.Is(err, problem.NotFound) {
		return nil, nil //nolint:nilnil // callers look for nil
	}
	return object, err
}

// write creates an object or, if it is of a version that was seen, replaces that.
// Problem: conflict.
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
		if apierrors.IsNotFound(err) { // somebody has deleted it since it was seen
			err = problem.Of(problem.Conflict).Because(err)
		}
	} else {
		verb = "create"
		is, err = k.api.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager})
	}
	return k.result(verb, u.GetName(), is, err)
}

// apply writes the fields that are given, and no others, by server-side apply. An
// object with a resource version must still be of that version. Problem: conflict.
func (k typed[T]) apply(ctx context.Context, fields *unstructured.Unstructured) error {
	return k.applyWith(ctx, fields, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
}

// tryApply returns the error that apply would return, and writes nothing.
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

// delete takes what is gone already for deleted.
func (k typed[T]) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := k.api.Delete(ctx, name, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return k.failed("delete", name, err)
}

// object is a *T that Kubernetes keeps.
type object[T any] interface {
	*T
	metav1.Object
}

// deleteSeen deletes an object that was looked at, if there was one.
func deleteSeen[T any, P object[T]](ctx context.Context, k typed[T], seen P, allowed func(metav1.Object) metav1.DeleteOptions) error {
	if seen == nil {
		return nil
	}
	return k.delete(ctx, seen.GetName(), allowed(seen))
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

// listPage is how many objects the API server is asked for at a time.
const listPage = 500

// list lists all objects, page by page, each page with a deadline of its own.
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

// allByRef lists all objects of a kind that carry Sluice's label, by where they are.
// selector chooses among them by their fields; "" takes all.
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
