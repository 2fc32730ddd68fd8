package cluster

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/reqctx"
)

const (
	// removedHeaders matches the headers that the gate removes: the identity headers and the key's
	// header, in every spelling that a backend may treat as the same, and the headers of an
	// upgrade. Traefik removes them from the client's request, and then adds the matching headers
	// of the checker's response. An upgrade to another protocol would bypass the checker; only
	// WebSockets are allowed ([websocketSpec]).
	removedHeaders = `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key)|upgrade|http2-settings)$`

	// preflightRemovedHeaders also matches the client's credentials and method overrides.
	preflightRemovedHeaders = `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key|http[^0-9a-z]method([^0-9a-z]override)?|method[^0-9a-z]override)|upgrade|http2-settings|cookie|authorization)$`

	// maxResponse limits the checker's response body, in bytes. Traefik allocates as much for each
	// request.
	maxResponse = 4096
)

type gate struct {
	ref app.Ref

	// generation is the generation of the route ([app.Gate.Generation]), or "" for a gate of a
	// release without generations.
	generation string

	// refuse is true if the gate denies CORS preflights without a key. The checker then does not
	// receive the header that identifies preflights.
	refuse bool
}

type part struct {
	kind schema.GroupVersionKind
	name string
	spec map[string]any

	// earlier is the spec that an earlier release wrote and that still gates; nil if there is none.
	earlier map[string]any

	// unnamed is true if the object gates a route that does not name it.
	unnamed bool
}

type partID struct {
	kind schema.GroupVersionKind
	name string
}

func (p part) id() partID { return partID{p.kind, p.name} }

type middlewares struct {
	checker string
}

func firstGeneration(names []string, ref app.Ref) string {
	for _, name := range names {
		if generation := generationIn(name, ref); generation != "" {
			return generation
		}
	}
	return ""
}

func (m middlewares) gate(g gate) []part {
	every := gate{ref: g.ref, refuse: g.refuse}
	parts := []part{
		{kind: middlewareKind(), name: gateName(g.ref), spec: m.gateSpec(every)},
		{kind: middlewareKind(), name: preflightName(g.ref), spec: m.preflightSpec(every), earlier: m.earlierPreflightSpec(every)},
		{kind: middlewareKind(), name: websocketName(g.ref), spec: websocketSpec()},
	}
	if g.generation != "" {
		parts = append(parts, part{kind: middlewareKind(), name: generationName(g), spec: m.gateSpec(g)})
	}
	return parts
}

// closed returns nil, because Traefik does not serve a route that names a missing Middleware.
func (middlewares) closed(app.App) map[string]any { return nil }

// WriteMiddleware writes the objects of an app's gate. The namespace must contain the CA.
func (c *Cluster) WriteMiddleware(ctx context.Context, o Objects, a app.App) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.checker == "" {
		return fmt.Errorf("write gate of %s: checker URL is not set", a.Ref())
	}
	for _, p := range c.routing.gate(o.gateOf(a)) {
		seen, known := o.gate[p.id()]
		if !known { // no route names this generation yet
			var err error
			if seen, err = c.objects(p.kind, a.Namespace).find(ctx, p.name); err != nil {
				return err
			}
		}
		if p.right(seen, a.Ref()) {
			continue
		}
		if err := c.writePart(ctx, seen, p, a.Ref()); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writePart(ctx context.Context, seen *unstructured.Unstructured, p part, ref app.Ref) error {
	_, err := c.objects(p.kind, ref.Namespace).write(ctx, owned(ref, p.name, p.spec, seen))
	return err
}

func (m middlewares) gateSpec(g gate) map[string]any {
	return map[string]any{"forwardAuth": m.forwardAuth(g)}
}

func (g gate) checkPath() string {
	path := "/check/" + g.ref.Namespace + "/" + g.ref.Name
	if g.generation != "" {
		path += "/" + g.generation
	}
	return path
}

func (m middlewares) forwardAuth(g gate) map[string]any {
	return map[string]any{
		"address":                  m.checker + g.checkPath(),
		"tls":                      map[string]any{"caSecret": caSecretName},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(maxResponse),
		"authResponseHeadersRegex": removedHeaders,
		// Except for X-Forwarded-*, the checker gets only these headers. It rejects requests with
		// large headers, and must not see the client's cookies and credentials.
		"authRequestHeaders": append([]any{"X-API-Key"}, g.asked(reqctx.Header, checkers.NonceHeader)...),
	}
}

// asked adds the header that identifies preflights to headers, unless the gate denies preflights.
func (g gate) asked(headers ...any) []any {
	if g.refuse {
		return headers
	}
	return append([]any{"Access-Control-Request-Method"}, headers...)
}

// preflightSpec returns the gate for preflights, which need no key. It denies requests with a body
// (maxBodySize 0), and removes credentials and method overrides. Otherwise a client could use
// preflights to call the app without a key.
func (m middlewares) preflightSpec(g gate) map[string]any {
	ask := m.forwardAuth(g)
	ask["forwardBody"], ask["maxBodySize"] = true, int64(0)
	ask["authResponseHeadersRegex"] = preflightRemovedHeaders
	return map[string]any{"forwardAuth": ask}
}

// WriteStrip writes the Middleware that removes identity headers on an open route.
func (c *Cluster) WriteStrip(ctx context.Context, o Objects, ref app.Ref) error {
	return c.writePart(ctx, o.strip, stripPart(ref), ref)
}

// stripPart lists each spelling of the identity headers, because Traefik supports no patterns here.
func stripPart(ref app.Ref) part {
	removed := map[string]any{}
	for _, last := range []string{"Prefix", "Name"} {
		for _, name := range spellings("X", "Service", "Key", last) {
			removed[name] = ""
		}
	}
	return part{kind: middlewareKind(), name: stripName(ref), spec: map[string]any{"headers": map[string]any{"customRequestHeaders": removed}}}
}

// spellings joins words with each combination of the separators that backends treat as the same.
func spellings(words ...string) []string {
	all := words[:1]
	for _, word := range words[1:] {
		var longer []string
		for _, begun := range all {
			for _, between := range []string{"-", "_", "."} {
				longer = append(longer, begun+between+word)
			}
		}
		all = longer
	}
	return all
}

// earlierPreflightSpec is the preflightSpec of a release that did not remove credentials.
func (m middlewares) earlierPreflightSpec(g gate) map[string]any {
	spec := m.preflightSpec(g)
	ask, _ := spec["forwardAuth"].(map[string]any)
	ask["authResponseHeadersRegex"] = removedHeaders
	return spec
}

// websocketSpec restores the Upgrade header of a WebSocket. Only the rule for WebSockets uses it.
func websocketSpec() map[string]any {
	return map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Upgrade": "websocket"}}}
}

func (p part) right(u *unstructured.Unstructured, ref app.Ref) bool {
	return u != nil && hasAll(u.GetLabels(), labels(ref.Name)) && reflect.DeepEqual(u.Object["spec"], p.spec)
}

func (c *Cluster) gateStatus(o Objects, a app.App) Status {
	absent, right, gates := true, true, true
	for _, p := range c.routing.gate(o.gateOf(a)) {
		seen, known := o.gate[p.id()]
		absent = absent && seen == nil
		right = right && p.right(seen, a.Ref())
		gates = gates && (!known || p.gates(seen, a.Ref()))
	}
	if !absent && !right && gates {
		return Outdated
	}
	return statusOf(absent, right)
}

// gates reports whether an object is as this release or an earlier release wrote it.
func (p part) gates(u *unstructured.Unstructured, ref app.Ref) bool {
	if p.right(u, ref) {
		return true
	}
	p.spec = p.earlier
	return p.earlier != nil && p.right(u, ref)
}

// DeleteMiddleware deletes the objects of an app's gate, which no route may name.
func (c *Cluster) DeleteMiddleware(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.RemoveGenerations(ctx, o, ref); err != nil {
		return err
	}
	for id, u := range o.gate {
		if err := deleteSeen(ctx, c.objects(id.kind, ref.Namespace), u, only); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGenerations deletes the Middlewares of generations that the app's route in o does not name.
func (c *Cluster) RemoveGenerations(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing.gate(gate{ref: ref})[0].kind != middlewareKind() {
		return nil
	}
	objects := c.objects(middlewareKind(), ref.Namespace)
	all, err := objects.list(ctx, metav1.ListOptions{LabelSelector: managedSelector + "," + appLabel + "=" + ref.Name})
	if err != nil {
		return err
	}
	for _, u := range all {
		generation := generationIn(u.GetName(), ref)
		if generation == "" || generation == o.generation || generation == o.former.generation {
			continue
		}
		if err := deleteSeen(ctx, objects, u, only); err != nil {
			return err
		}
	}
	return nil
}
