package cluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
)

func (b *bench) make(texts ...string) {
	b.Helper()
	for _, text := range texts {
		list, err := manifest.Decode([]byte(text))
		b.must(err)
		for _, u := range list {
			u.SetNamespace(b.app.Namespace)
			kind := u.GroupVersionKind().GroupVersion().WithResource(map[string]string{
				"IngressRoute": "ingressroutes", "IngressRouteTCP": "ingressroutetcps", "Ingress": "ingresses",
				"Service": "services", "DomainMapping": "domainmappings", "HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes",
			}[u.GetKind()])
			_, err := b.dynamic.Resource(kind).Namespace(b.app.Namespace).Create(b.Context(), u, metav1.CreateOptions{})
			b.must(err)
		}
	}
}

func (b *bench) bypass() Bypass {
	b.Helper()
	got, err := b.cluster.Bypass(b.Context(), b.app.Ref())
	b.must(err)
	slices.Sort(got.Ways)
	return got
}

func TestBypass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.define()
	b.place()
	b.gate()
	gate := gateName(b.app.Ref())
	b.make(
		`{apiVersion: v1, kind: Service, metadata: {name: inside}, spec: {selector: {sluice.dev/app: hello}, ports: [{port: 1}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: others}, spec: {type: NodePort, selector: {app: other}, ports: [{port: 1}]}}`,
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: gated}, spec: {routes: [{kind: Rule, match: Host(`a.example`), middlewares: [{name: "+gate+"}], services: [{name: hello, port: 8080}]}]}}",
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: others}, spec: {routes: [{kind: Rule, match: Host(`b.example`), services: [{name: others, port: 1}]}]}}",
		`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: gated, annotations: {traefik.ingress.kubernetes.io/router.middlewares: "`+b.app.Namespace+`-`+gate+`@kubernetescrd"}},
		  spec: {rules: [{host: c.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: hello, port: {number: 8080}}}}]}}]}}`,
		"{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: gated}, spec: {hostnames: [j.example], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: traefik.io, kind: Middleware, name: "+gate+"}}], backendRefs: [{name: hello, port: 8080}]}]}}",
		`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: others}, spec: {rules: [{backendRefs: [{name: others, port: 1}]}]}}`,
		`{apiVersion: serving.knative.dev/v1beta1, kind: DomainMapping, metadata: {name: d.example}, spec: {ref: {apiVersion: v1, kind: Service, name: others}}}`,
	)
	if diff := cmp.Diff(Bypass{}, b.bypass()); diff != "" {
		t.Fatalf("bypasses of a complete gate (-want +got):\n%s", diff)
	}
	b.make(
		`{apiVersion: v1, kind: Service, metadata: {name: open}, spec: {type: NodePort, selector: {app.kubernetes.io/name: hello}, ports: [{port: 1}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: alias}, spec: {type: ExternalName, externalName: hello.`+b.app.Namespace+`.svc.cluster.local}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: short}, spec: {type: ExternalName, externalName: hello}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: dotted}, spec: {type: ExternalName, externalName: hello.`+b.app.Namespace+`.}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: second}, spec: {type: ExternalName, externalName: short.`+b.app.Namespace+`.svc}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: numeric}, spec: {type: ExternalName, externalName: `+b.objects().service.Spec.ClusterIP+`}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: elsewhere}, spec: {type: ExternalName, externalName: hello.example.com}}`,
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: aliases}, spec: {routes: ["+
			"{kind: Rule, match: Host(`m.example`), services: [{name: short, port: 1}]}, {kind: Rule, match: Host(`n.example`), services: [{name: dotted, port: 1}]}, "+
			"{kind: Rule, match: Host(`o.example`), services: [{name: second, port: 1}]}, {kind: Rule, match: Host(`p.example`), services: [{name: numeric, port: 1}]}, "+
			"{kind: Rule, match: Host(`q.example`), services: [{name: elsewhere, port: 1}]}]}}",
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: side}, spec: {routes: [{kind: Rule, match: Host(`e.example`), services: [{name: inside, port: 1}]}]}}",
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: byalias}, spec: {routes: [{kind: Rule, match: Host(`f.example`), middlewares: [{name: "+gate+", namespace: elsewhere}], services: [{name: alias, port: 1}]}]}}",
		"{apiVersion: traefik.io/v1alpha1, kind: IngressRouteTCP, metadata: {name: hello}, spec: {routes: [{match: HostSNI(`g.example`), services: [{name: hello, port: 8080}]}]}}",
		`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: open}, spec: {defaultBackend: {service: {name: hello, port: {number: 8080}}}, rules: [{host: h.example, http: {paths: [
		  {path: /, pathType: Prefix, backend: {service: {name: hello, port: {number: 8080}}}}, {path: /x, pathType: Prefix, backend: {service: {name: others, port: {number: 1}}}}]}}]}}`,
		`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: hello}, spec: {hostnames: [k.example, l.example], rules: [{matches: [{headers: [{name: a, value: b}]}], backendRefs: [{name: inside, port: 1}]}]}}`,
		`{apiVersion: gateway.networking.k8s.io/v1, kind: GRPCRoute, metadata: {name: rpc}, spec: {rules: [{backendRefs: [{name: hello, port: 8080}]}]}}`,
		`{apiVersion: serving.knative.dev/v1beta1, kind: DomainMapping, metadata: {name: i.example}, spec: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: hello}}}`,
	)
	want := []string{
		"GRPCRoute rpc (every host)", "HTTPRoute hello (k.example, l.example)", "Ingress open (every host)", "Ingress open (h.example)",
		"IngressRoute aliases (Host(`m.example`))", "IngressRoute aliases (Host(`n.example`))", "IngressRoute aliases (Host(`o.example`))", "IngressRoute aliases (Host(`p.example`))",
		"IngressRoute byalias (Host(`f.example`))", "IngressRoute side (Host(`e.example`))",
		"IngressRouteTCP hello (HostSNI(`g.example`))", "Service open (NodePort)", "http://i.example",
	}
	check.Equal(t, "ways", want, b.bypass().Ways)
}

// TestKnativeVisibility tests that a gated app is removed from Knative's public gateway, and returns
// to it without the gate.
func TestKnativeVisibility(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.define()
	b.makeKnative()
	b.place()
	ctx, ref := t.Context(), b.app.Ref()
	says := func(address, tag, routes string) {
		t.Helper()
		existing := b.cluster.knativeServices(ref.Namespace).api
		s, err := existing.Get(ctx, ref.Name, metav1.GetOptions{})
		b.must(err)
		status := map[string]any{
			"conditions": []any{map[string]any{"type": "RoutesReady", "status": routes}},
			"traffic":    []any{map[string]any{"latestRevision": true, "percent": int64(100)}, map[string]any{"tag": "next", "url": "http://next-" + tag}},
			"url":        "http://" + address,
		}
		s.Object["status"] = status
		_, err = existing.UpdateStatus(ctx, s, metav1.UpdateOptions{})
		b.must(err)
	}
	const public, local = "hello.shop-prod.knative.example.com", "hello.shop-prod.svc.cluster.local"
	if s := b.state(); !s.Public || s.Hidden {
		t.Errorf("initial state: %+v", s)
	}
	b.must(b.cluster.MakeClusterLocal(ctx, b.objects(), ref))
	if s := b.state(); s.Public || !s.Hidden {
		t.Errorf("hidden: %+v", s)
	}
	for _, tt := range []struct {
		address, tag, routes string
		want                 Bypass
	}{
		{public, public, "True", Bypass{Ways: []string{"http://" + public, "http://next-" + public}}},
		{local, public, "True", Bypass{Ways: []string{"http://next-" + public}}},
		{local, local, "Unknown", Bypass{Moving: true}},
		{"svc.cluster.local.example.com", local, "True", Bypass{Ways: []string{"http://svc.cluster.local.example.com"}}},
		{local, local, "True", Bypass{}},
	} {
		says(tt.address, tt.tag, tt.routes)
		if diff := cmp.Diff(tt.want, b.bypass()); diff != "" {
			t.Errorf("status %s, %s, %s (-want +got):\n%s", tt.address, tt.tag, tt.routes, diff)
		}
	}
	seen := b.objects()
	b.must(b.cluster.RestoreVisibility(ctx, seen, ref))
	b.conflict(b.cluster.MakeClusterLocal(ctx, seen, ref))
	if s := b.state(); !s.Public || s.Hidden || b.objects().knative.GetLabels()["team"] != "shop" {
		t.Errorf("after release: state %+v, labels %v", s, b.objects().knative.GetLabels())
	}
}

func TestOwnersVisibilityIsKept(t *testing.T) {
	t.Parallel()
	s := &unstructured.Unstructured{Object: map[string]any{}}
	s.SetLabels(map[string]string{visibilityLabel: clusterLocal})
	if !hidden(s) || hiddenBySluice(s) {
		t.Errorf("hidden %v, by Sluice %v", hidden(s), hiddenBySluice(s))
	}
}
