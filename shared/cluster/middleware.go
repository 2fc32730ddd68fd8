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
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// takenHeaders matches the two identity headers and the key's header in every
	// spelling that a backend could take for them, and the headers of an upgrade.
	// Traefik removes what matches from the client's request and then adds what matches
	// in the checker's answer, so aliases are stripped, the key never reaches the app,
	// and no upgrade does: over one, an app that speaks another protocol would serve
	// requests that nobody was asked about. [websocketSpec] puts back the only one that
	// passes.
	takenHeaders = `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key)|upgrade|http2-settings)$`

	// preflightTakenHeaders matches the headers that are removed from preflights: takenHeaders,
	// the client's credentials, and the method overrides in every spelling.
	preflightTakenHeaders = `(?i)^(x[^0-9a-z](service[^0-9a-z]key[^0-9a-z](prefix|name)|api[^0-9a-z]key|http[^0-9a-z]method([^0-9a-z]override)?|method[^0-9a-z]override)|upgrade|http2-settings|cookie|authorization)$`

	// maxAnswer bounds the checker's body, in bytes. Traefik allocates as much for
	// every request, so it is no more than a denial needs.
	maxAnswer = 4096
)

// gate has what differs between the gates of two apps.
type gate struct {
	ref app.Ref

	// generation is that of the route that the gate is for, as [app.Gate.Generation] has it;
	// "" for a gate as releases before there were generations wrote it.
	generation string

	// refuse denies CORS preflights that have no key. The checker then does not learn that a
	// request is a preflight.
	refuse bool
}

// part is one object of a gate, which is Sluice's as a whole.
type part struct {
	kind schema.GroupVersionKind
	name string
	spec map[string]any

	// earlier is the spec of an earlier release, which gates as well; nil if there is none.
	earlier map[string]any

	// unnamed tells that it gates a route that does not name it.
	unnamed bool
}

// partID identifies an object of a gate in its namespace.
type partID struct {
	kind schema.GroupVersionKind
	name string
}

func (p part) id() partID { return partID{p.kind, p.name} }

// middlewares makes gates of Traefik's Middlewares, which a route names.
type middlewares struct {
	checker string // its URL, without a slash at the end
}

// firstGeneration returns the first generation among the names of Middlewares.
func firstGeneration(names []string, ref app.Ref) string {
	for _, name := range names {
		if generation := generationIn(name, ref); generation != "" {
			return generation
		}
	}
	return ""
}

// gate are the Middlewares of an app's gate. The last one is of a generation, and is left
// out if there is none.
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

// closed: a route that names a missing Middleware is closed by that.
func (middlewares) closed(app.App) map[string]any { return nil }

// WriteMiddleware makes the objects of an app's gate, or puts them back as a
// whole. The namespace must hold the checker's CA already.
func (c *Cluster) WriteMiddleware(ctx context.Context, o Objects, a app.App) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.checker == "" {
		return fmt.Errorf("write the gate of %s: the checker's URL is not set", a.Ref())
	}
	for _, p := range c.routing.gate(o.gateOf(a)) {
		seen, known := o.gate[p.id()]
		if !known { // of a generation that no route names yet
			var err error
			if seen, err = c.objects(p.kind, a.Namespace).look(ctx, p.name); err != nil {
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

// writePart makes an object, or puts it back as a whole. seen is nil for one that is
// absent.
func (c *Cluster) writePart(ctx context.Context, seen *unstructured.Unstructured, p part, ref app.Ref) error {
	_, err := c.objects(p.kind, ref.Namespace).write(ctx, owned(ref, p.name, p.spec, seen))
	return err
}

// gateSpec is the gate itself (promises G6, G7, G11).
func (m middlewares) gateSpec(g gate) map[string]any {
	return map[string]any{"forwardAuth": m.forwardAuth(g)}
}

// checkPath is the path by which a checker is asked about an app's requests.
func (g gate) checkPath() string {
	path := "/check/" + g.ref.Namespace + "/" + g.ref.Name
	if g.generation != "" {
		path += "/" + g.generation
	}
	return path
}

// forwardAuth is how the checker is asked about an app's requests. The address is made
// here, from configuration and the app's document alone, never from a request.
func (m middlewares) forwardAuth(g gate) map[string]any {
	return map[string]any{
		"address":                  m.checker + g.checkPath(),
		"tls":                      map[string]any{"caSecret": caSecretName},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(maxAnswer),
		"authResponseHeadersRegex": takenHeaders,
		// What the checker needs to see; X-Forwarded-* comes besides. The client's
		// cookies and credentials for the app are none of its business, and a header
		// too large for it would turn into an answer that is not the gate's.
		"authRequestHeaders": append([]any{"X-API-Key"}, g.asked(trace.Header, checkers.NonceHeader)...),
	}
}

// asked returns headers that the checker gets, and before them the one that tells it of
// preflights, unless they are refused.
func (g gate) asked(headers ...any) []any {
	if g.refuse {
		return headers
	}
	return append([]any{"Access-Control-Request-Method"}, headers...)
}

// preflightSpec is a gate that nothing with a body passes, of however many bytes: Traefik
// reads the first one to hand it to the checker, and may hand over none. A preflight has
// none, and needs no key, so with one it would be a way into the app. So would be the
// client's credentials, and headers by which some apps take OPTIONS for another method.
func (m middlewares) preflightSpec(g gate) map[string]any {
	ask := m.forwardAuth(g)
	ask["forwardBody"], ask["maxBodySize"] = true, int64(0)
	ask["authResponseHeadersRegex"] = preflightTakenHeaders
	return map[string]any{"forwardAuth": ask}
}

// WriteStrip makes the Middleware that removes identity headers on an open route, or puts
// it back as a whole.
func (c *Cluster) WriteStrip(ctx context.Context, o Objects, ref app.Ref) error {
	return c.writePart(ctx, o.strip, stripPart(ref), ref)
}

// stripPart is the Middleware that removes both identity headers, in each spelling that a
// backend may take for them. Traefik has no patterns for names here.
func stripPart(ref app.Ref) part {
	removed := map[string]any{}
	for _, last := range []string{"Prefix", "Name"} {
		for _, name := range spellings("X", "Service", "Key", last) {
			removed[name] = "" // which removes it
		}
	}
	return part{kind: middlewareKind(), name: stripName(ref), spec: map[string]any{"headers": map[string]any{"customRequestHeaders": removed}}}
}

// spellings joins words by each choice of the characters between them that backends take
// for the same.
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

// earlierPreflightSpec is preflightSpec of a release that left a preflight its credentials.
func (m middlewares) earlierPreflightSpec(g gate) map[string]any {
	spec := m.preflightSpec(g)
	ask, _ := spec["forwardAuth"].(map[string]any)
	ask["authResponseHeadersRegex"] = takenHeaders
	return spec
}

// websocketSpec puts the Upgrade of a WebSocket back, which the gate has taken, in
// these words whatever the client's were. Only a route for nothing else names it.
func websocketSpec() map[string]any {
	return map[string]any{"headers": map[string]any{"customRequestHeaders": map[string]any{"Upgrade": "websocket"}}}
}

// right tells whether an object is as it should be.
func (p part) right(u *unstructured.Unstructured, ref app.Ref) bool {
	return u != nil && hasAll(u.GetLabels(), labels(ref.Name)) && reflect.DeepEqual(u.Object["spec"], p.spec)
}

// gateStatus compares the objects of an app's gate.
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

// gates reports whether an object is as this release or an earlier one wrote it.
func (p part) gates(u *unstructured.Unstructured, ref app.Ref) bool {
	if p.right(u, ref) {
		return true
	}
	p.spec = p.earlier
	return p.earlier != nil && p.right(u, ref)
}

// DeleteMiddleware deletes the objects of an app's gate, if they have not changed
// since. No route may name them any more.
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

// RemoveGenerations deletes the Middlewares of generations that the app's route did not
// name when it was looked at.
func (c *Cluster) RemoveGenerations(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.routing.gate(gate{ref: ref})[0].kind != middlewareKind() {
		return nil // such a gate has no Middlewares
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
