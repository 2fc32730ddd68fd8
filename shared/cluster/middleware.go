package cluster

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// identityHeaders matches the two identity headers and the key's header in
	// every spelling that a backend could take for them. Traefik removes what
	// matches from the client's request and then adds what matches in the checker's
	// answer, so aliases are stripped and the key never reaches the app.
	identityHeaders = `(?i)^x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key)$`

	// maxAnswer bounds the checker's body, in bytes. Traefik allocates as much for
	// every request, so it is no more than a denial needs.
	maxAnswer = 4096
)

func middlewares() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"}
}

// WriteMiddleware makes an app's forward-auth Middleware, or puts it back as a
// whole. The namespace must hold the checker's CA already.
func (c *Cluster) WriteMiddleware(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.checker == "" {
		return fmt.Errorf("write middleware of %s: the checker's URL is not set", ref)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": traefikAPI, "kind": "Middleware", "spec": c.gateSpec(ref),
	}}
	u.SetNamespace(ref.Namespace)
	u.SetName(gateName(ref))
	u.SetLabels(labels(ref.Name))
	gates := c.dynamic.Resource(middlewares()).Namespace(ref.Namespace)
	var err error
	if o.middleware == nil {
		_, err = gates.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		u.SetResourceVersion(o.middleware.GetResourceVersion())
		_, err = gates.Update(ctx, u, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write middleware of %s: %w", ref, known(err))
	}
	return nil
}

// gateSpec is the whole of a gate (decisions section 4). The address is made here,
// from configuration and the app's name alone, never from a request.
func (c *Cluster) gateSpec(ref app.Ref) map[string]any {
	return map[string]any{"forwardAuth": map[string]any{
		"address":                  c.checker + "/check/" + ref.Namespace + "/" + ref.Name,
		"tls":                      map[string]any{"caSecret": caSecretName},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(maxAnswer),
		"authResponseHeadersRegex": identityHeaders,
		// What the checker needs to see; X-Forwarded-* comes besides. The client's
		// cookies and credentials for the app are none of its business, and a header
		// too large for it would turn into an answer that is not the gate's.
		"authRequestHeaders": []any{"X-API-Key", "Access-Control-Request-Method", trace.Header},
	}}
}

func (c *Cluster) middlewareStanding(u *unstructured.Unstructured, ref app.Ref) Standing {
	return standing(u == nil, u != nil && hasAll(u.GetLabels(), labels(ref.Name)) && reflect.DeepEqual(u.Object["spec"], c.gateSpec(ref)))
}

// DeleteMiddleware deletes an app's Middleware, if it has not changed since. No
// route may name it any more.
func (c *Cluster) DeleteMiddleware(ctx context.Context, o Objects, ref app.Ref) error {
	if o.middleware == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.dynamic.Resource(middlewares()).Namespace(ref.Namespace).Delete(ctx, gateName(ref), only(o.middleware))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete middleware of %s: %w", ref, known(err))
	}
	return nil
}
