package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
)

const (
	visibilityLabel = "networking.knative.dev/visibility"
	clusterLocal    = "cluster-local"

	// hiddenAnnotation marks a Knative Service on which Sluice set visibilityLabel. Sluice removes
	// that label only if this annotation exists.
	hiddenAnnotation = "sluice.dev/visibility"

	knativeServiceLabel = "serving.knative.dev/service"
)

// Bypass lists the addresses at which an app can be reached from outside without its gate.
type Bypass struct {
	Ways []string // e.g. "http://third.shop-prod.knative.example.com", "IngressRoute other (Host(`x.example.com`))"

	// Moving is true if Knative has not confirmed the state of its gateways yet.
	Moving bool
}

func hidden(s *unstructured.Unstructured) bool { return s.GetLabels()[visibilityLabel] == clusterLocal }

func hiddenBySluice(s *unstructured.Unstructured) bool {
	_, said := s.GetAnnotations()[hiddenAnnotation]
	return said
}

// MakeClusterLocal removes an app's Knative Service from Knative's public gateway, which is not gated.
func (c *Cluster) MakeClusterLocal(ctx context.Context, o Objects, ref app.Ref) error {
	return c.show(ctx, o, ref, func(labels, annotations map[string]string) {
		labels[visibilityLabel] = clusterLocal
		annotations[hiddenAnnotation] = clusterLocal
	})
}

// RestoreVisibility reverses [Cluster.MakeClusterLocal].
func (c *Cluster) RestoreVisibility(ctx context.Context, o Objects, ref app.Ref) error {
	return c.show(ctx, o, ref, func(labels, annotations map[string]string) {
		delete(labels, visibilityLabel)
		delete(annotations, hiddenAnnotation)
	})
}

func (c *Cluster) show(ctx context.Context, o Objects, ref app.Ref, change func(labels, annotations map[string]string)) error {
	if o.knative == nil {
		return nil
	}
	desired := o.knative.DeepCopy()
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, desired.GetLabels())
	maps.Copy(annotations, desired.GetAnnotations())
	change(labels, annotations)
	desired.SetLabels(labels)
	desired.SetAnnotations(annotations)
	_, err := c.knativeServices(ref.Namespace).write(ctx, desired)
	return err
}

// Bypass finds addresses in the app's namespace that bypass its gate.
func (c *Cluster) Bypass(ctx context.Context, ref app.Ref) (Bypass, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w, err := c.Workload(ctx, ref)
	if err != nil {
		return Bypass{}, err
	}
	var b Bypass
	if w.knative != nil {
		b.Ways = publicAddresses(w.knative)
		b.Moving = len(b.Ways) == 0 && !knativeIs(w.knative, "RoutesReady")
	}
	services, err := c.services(ref.Namespace).list(ctx, metav1.ListOptions{})
	if err != nil {
		return Bypass{}, err
	}
	targets := targetServices(services, w)
	for _, s := range services {
		if targets[s.Name] && hasExternalAddress(s) {
			b.Ways = append(b.Ways, fmt.Sprintf("Service %s (%s)", s.Name, s.Spec.Type))
		}
	}
	for _, r := range c.referrers(ref.Namespace) {
		all, err := r.objects.list(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // a kind that the cluster does not have
			return Bypass{}, err
		}
		for _, u := range all {
			b.Ways = append(b.Ways, r.ways(u, ref, targets)...)
		}
	}
	return b, nil
}

func publicAddresses(s *unstructured.Unstructured) []string {
	first, _, _ := unstructured.NestedString(s.Object, "status", "url")
	all := []string{first}
	for _, target := range objectsIn(s.Object, "status", "traffic") {
		tagged, _ := target["url"].(string)
		all = append(all, tagged)
	}
	var public []string
	for _, address := range all {
		u, err := url.Parse(address)
		if address != "" && (err != nil || !strings.HasSuffix(u.Hostname(), "."+clusterDomain)) {
			public = append(public, address)
		}
	}
	return public
}

// targetServices returns the names of the Services that route to an app: by name, by selector,
// through Knative, or as aliases of other targets.
func targetServices(services []*corev1.Service, w Workload) map[string]bool {
	targets := map[string]bool{w.ref.Name: true}
	for _, s := range services {
		selector := k8slabels.SelectorFromSet(s.Spec.Selector)
		if w.deployment != nil && len(s.Spec.Selector) > 0 && selector.Matches(k8slabels.Set(w.deployment.Spec.Template.Labels)) ||
			w.knative != nil && s.Labels[knativeServiceLabel] == w.ref.Name {
			targets[s.Name] = true
		}
	}
	for found := true; found; { // an alias may refer to another alias
		found = false
		for _, s := range services {
			if !targets[s.Name] && aliases(s, services, targets, w.ref.Namespace) {
				targets[s.Name], found = true, true
			}
		}
	}
	return targets
}

func aliases(s *corev1.Service, services []*corev1.Service, targets map[string]bool, namespace string) bool {
	external := strings.TrimSuffix(s.Spec.ExternalName, ".")
	if external == "" {
		return false
	}
	name, rest, _ := strings.Cut(external, ".")
	inside := rest == "" || rest == namespace || rest == namespace+".svc" || strings.HasPrefix(rest, namespace+".svc.")
	return inside && targets[name] || slices.ContainsFunc(services, func(t *corev1.Service) bool {
		return targets[t.Name] && slices.Contains(t.Spec.ClusterIPs, external)
	})
}

func hasExternalAddress(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeNodePort || len(s.Spec.ExternalIPs) > 0
}

type referrer struct {
	objects anyKind
	ways    func(u *unstructured.Unstructured, ref app.Ref, targets map[string]bool) []string
}

func (c *Cluster) referrers(namespace string) []referrer {
	ingresses := schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
	mappings := schema.GroupVersion{Group: knativeGroup, Version: "v1beta1"}
	return []referrer{
		{c.objects(traefikKind("IngressRoute"), namespace), c.routeWays},
		{c.objects(traefikKind("IngressRouteTCP"), namespace), c.routeWays},
		{c.objects(gatewayKind("HTTPRoute"), namespace), c.gatewayWays},
		{c.objects(gatewayKind("GRPCRoute"), namespace), c.gatewayWays},
		{typedOf[unstructured.Unstructured](c, ingresses, "Ingress", namespace), ingressWays},
		{typedOf[unstructured.Unstructured](c, mappings, "DomainMapping", namespace), mappingWays},
	}
}

func (c *Cluster) routeWays(u *unstructured.Unstructured, ref app.Ref, targets map[string]bool) []string {
	if c.isOwnRoute(u, ref) {
		return nil
	}
	var ways []string
	for _, route := range objectsIn(u.Object, "spec", "routes") {
		leads := slices.ContainsFunc(objectsIn(route, "services"), func(s map[string]any) bool {
			name, _ := s["name"].(string)
			return targets[name] && (s["kind"] == nil || s["kind"] == "Service") && inNamespace(s, ref)
		})
		gated := u.GetKind() == "IngressRoute" && slices.ContainsFunc(objectsIn(route, "middlewares"), func(m map[string]any) bool {
			name, _ := m["name"].(string)
			return gates(name, ref) && inNamespace(m, ref)
		})
		if leads && !gated {
			ways = append(ways, fmt.Sprintf("%s %s (%v)", u.GetKind(), u.GetName(), route["match"]))
		}
	}
	return ways
}

// gatewayWays ignores policies that may gate a route.
func (c *Cluster) gatewayWays(u *unstructured.Unstructured, ref app.Ref, targets map[string]bool) []string {
	if c.isOwnRoute(u, ref) {
		return nil
	}
	var ways []string
	hosts, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "hostnames")
	for _, rule := range objectsIn(u.Object, "spec", "rules") {
		leads := slices.ContainsFunc(objectsIn(rule, "backendRefs"), func(s map[string]any) bool {
			name, _ := s["name"].(string)
			return targets[name] && s["kind"] == "Service" && inNamespace(s, ref)
		})
		gated := slices.ContainsFunc(objectsIn(rule, "filters"), func(f map[string]any) bool {
			name, _, _ := unstructured.NestedString(f, "extensionRef", "name")
			kind, _, _ := unstructured.NestedString(f, "extensionRef", "kind")
			return kind == middlewareKind().Kind && gates(name, ref)
		})
		if leads && !gated {
			ways = append(ways, fmt.Sprintf("%s %s (%s)", u.GetKind(), u.GetName(), cmp.Or(strings.Join(hosts, ", "), "every host")))
		}
	}
	return slices.Compact(ways)
}

func gates(name string, ref app.Ref) bool {
	return name == gateName(ref) || name == preflightName(ref) || generationIn(name, ref) != ""
}

func (c *Cluster) isOwnRoute(u *unstructured.Unstructured, ref app.Ref) bool {
	if u.GetName() != ref.Name || c.routing == nil {
		return false
	}
	return u.GetKind() == c.routing.kind().Kind ||
		c.former != nil && u.GetKind() == c.former.kind().Kind && hasAll(u.GetLabels(), managed())
}

func inNamespace(reference map[string]any, ref app.Ref) bool {
	namespace, _ := reference["namespace"].(string)
	return namespace == "" || namespace == ref.Namespace
}

func ingressWays(u *unstructured.Unstructured, ref app.Ref, targets map[string]bool) []string {
	chain := strings.Split(u.GetAnnotations()["traefik.ingress.kubernetes.io/router.middlewares"], ",")
	if slices.ContainsFunc(chain, func(m string) bool {
		return strings.TrimSpace(m) == ref.Namespace+"-"+gateName(ref)+"@kubernetescrd"
	}) {
		return nil
	}
	var ways []string
	add := func(backend map[string]any, host any) {
		if name, _, _ := unstructured.NestedString(backend, "service", "name"); targets[name] {
			ways = append(ways, fmt.Sprintf("Ingress %s (%v)", u.GetName(), host))
		}
	}
	if backend, ok, _ := unstructured.NestedMap(u.Object, "spec", "defaultBackend"); ok {
		add(backend, "every host")
	}
	for _, rule := range objectsIn(u.Object, "spec", "rules") {
		for _, path := range objectsIn(rule, "http", "paths") {
			if backend, ok := path["backend"].(map[string]any); ok {
				add(backend, rule["host"])
			}
		}
	}
	return slices.Compact(ways)
}

// mappingWays returns the host of a DomainMapping, which is its name. A DomainMapping routes through
// Knative's public gateway, even if the Knative Service is not public.
func mappingWays(u *unstructured.Unstructured, _ app.Ref, targets map[string]bool) []string {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "ref", "name")
	if !targets[name] {
		return nil
	}
	return []string{"http://" + u.GetName()}
}

func objectsIn(in map[string]any, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(in, fields...)
	var all []map[string]any
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}
