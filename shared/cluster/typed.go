package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/shared/app"
)

// typed reads and writes the objects of one kind in one namespace as values of their
// Go type. It does this over the dynamic client, because client-go's own typed clients
// bring every kind of Kubernetes with them: twice the program, and 12 MB of memory for
// each function.
type typed[T any] struct {
	api  dynamic.ResourceInterface
	kind schema.GroupVersionKind
}

func typedOf[T any](c *Cluster, version schema.GroupVersion, resource, kind, namespace string) typed[T] {
	return typed[T]{c.dynamic.Resource(version.WithResource(resource)).Namespace(namespace), version.WithKind(kind)}
}

// The namespace "" stands for all, to list them.

func (c *Cluster) deployments(namespace string) typed[appsv1.Deployment] {
	return typedOf[appsv1.Deployment](c, appsv1.SchemeGroupVersion, "deployments", "Deployment", namespace)
}

func (c *Cluster) services(namespace string) typed[corev1.Service] {
	return typedOf[corev1.Service](c, corev1.SchemeGroupVersion, "services", "Service", namespace)
}

func (c *Cluster) secrets(namespace string) typed[corev1.Secret] {
	return typedOf[corev1.Secret](c, corev1.SchemeGroupVersion, "secrets", "Secret", namespace)
}

func (c *Cluster) namespaces() typed[corev1.Namespace] {
	return typedOf[corev1.Namespace](c, corev1.SchemeGroupVersion, "namespaces", "Namespace", "")
}

func (c *Cluster) roleBindings(namespace string) typed[rbacv1.RoleBinding] {
	return typedOf[rbacv1.RoleBinding](c, rbacv1.SchemeGroupVersion, "rolebindings", "RoleBinding", namespace)
}

func (c *Cluster) accessReviews() typed[authv1.SelfSubjectAccessReview] {
	return typedOf[authv1.SelfSubjectAccessReview](c, authv1.SchemeGroupVersion, "selfsubjectaccessreviews", "SelfSubjectAccessReview", "")
}

// kind is for kinds without a Go type of their own.
func (c *Cluster) kind(kind schema.GroupVersionResource, namespace string) typed[unstructured.Unstructured] {
	return typed[unstructured.Unstructured]{api: c.dynamic.Resource(kind).Namespace(namespace)}
}

func (k typed[T]) get(ctx context.Context, name string) (*T, error) {
	return fromAPI[T](k.api.Get(ctx, name, metav1.GetOptions{}))
}

func (k typed[T]) create(ctx context.Context, object *T) (*T, error) {
	u, err := k.toAPI(object)
	if err != nil {
		return nil, err
	}
	return fromAPI[T](k.api.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager}))
}

func (k typed[T]) update(ctx context.Context, object *T) (*T, error) {
	u, err := k.toAPI(object)
	if err != nil {
		return nil, err
	}
	return fromAPI[T](k.api.Update(ctx, u, metav1.UpdateOptions{FieldManager: fieldManager}))
}

// apply writes the fields that are given, and no others, by server-side apply. An
// object with a resource version must still be of that version.
func (k typed[T]) apply(ctx context.Context, fields *unstructured.Unstructured) error {
	if fields.GetKind() == "" {
		fields.SetGroupVersionKind(k.kind)
	}
	_, err := k.api.Apply(ctx, fields.GetName(), fields, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// delete takes what is gone already for deleted.
func (k typed[T]) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if err := k.api.Delete(ctx, name, o); !apierrors.IsNotFound(err) {
		return problemOf(err)
	}
	return nil
}

// list gives one page, and where the next one starts: "" after the last.
func (k typed[T]) list(ctx context.Context, o metav1.ListOptions) ([]*T, string, error) {
	page, err := k.api.List(ctx, o)
	if err != nil {
		return nil, "", err
	}
	all := make([]*T, 0, len(page.Items))
	for i := range page.Items {
		object, err := fromAPI[T](&page.Items[i], nil)
		if err != nil {
			return nil, "", err
		}
		all = append(all, object)
	}
	return all, page.GetContinue(), nil
}

func (k typed[T]) toAPI(object *T) (*unstructured.Unstructured, error) {
	if u, ok := any(object).(*unstructured.Unstructured); ok {
		return u, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
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

// listPage is how many objects the API server is asked for at a time.
const listPage = 500

// everything lists all objects of a kind, page by page, each page with a deadline of its
// own.
func everything[T any](ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var all []T
	o.Limit = listPage
	for {
		page, next, err := onePage(ctx, o, list)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		o.Continue = next
	}
}

func onePage[T any](ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) ([]T, string, error)) ([]T, string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return list(ctx, o)
}

// allByRef lists all objects of a kind that carry Sluice's label, by where they are.
func allByRef[T metav1.Object](ctx context.Context, what string, list func(context.Context, metav1.ListOptions) ([]T, string, error)) (map[app.Ref]T, error) {
	objects, err := everything(ctx, metav1.ListOptions{LabelSelector: managedSelector}, list)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, problemOf(err))
	}
	all := make(map[app.Ref]T, len(objects))
	for _, o := range objects {
		all[app.Ref{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return all, nil
}
