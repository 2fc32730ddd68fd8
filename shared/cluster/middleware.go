package cluster

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/gateproof"
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

	// maxAnswer bounds the checker's body, in bytes. Traefik allocates as much for
	// every request, so it is no more than a denial needs.
	maxAnswer = 4096
)

// part is one object of a gate, which is Sluice's as a whole.
type part struct {
	kind schema.GroupVersionKind
	name string
	spec map[string]any

	// unnamed tells that it gates a route that does not name it.
	unnamed bool
}

// middlewares makes gates of Traefik's Middlewares, which a route names.
type middlewares struct {
	checker string // its URL, without a slash at the end
}

// gate are the Middlewares of an app's gate.
func (m middlewares) gate(ref app.Ref) []part {
	return []part{
		{kind: middlewareKind(), name: gateName(ref), spec: m.gateSpec(ref)},
		{kind: middlewareKind(), name: preflightName(ref), spec: m.preflightSpec(ref)},
		{kind: middlewareKind(), name: websocketName(ref), spec: websocketSpec()},
	}
}

// closed: a route that names a missing Middleware is closed by that.
func (middlewares) closed(app.App) map[string]any { return nil }

// WriteMiddleware makes the objects of an app's gate, or puts them back as a
// whole. The namespace must hold the checker's CA already.
func (c *Cluster) WriteMiddleware(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.checker == "" {
		return fmt.Errorf("write the gate of %s: the checker's URL is not set", ref)
	}
	for i, p := range c.routing.gate(ref) {
		if p.right(o.gate[i], ref) {
			continue
		}
		if err := c.writePart(ctx, o.gate[i], p, ref); err != nil {
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
func (m middlewares) gateSpec(ref app.Ref) map[string]any {
	return map[string]any{"forwardAuth": m.forwardAuth(ref)}
}

// forwardAuth is how the checker is asked about an app's requests. The address is made
// here, from configuration and the app's name alone, never from a request.
func (m middlewares) forwardAuth(ref app.Ref) map[string]any {
	return map[string]any{
		"address":                  m.checker + "/check/" + ref.Namespace + "/" + ref.Name,
		"tls":                      map[string]any{"caSecret": caSecretName},
		"trustForwardHeader":       false,
		"forwardBody":              false,
		"maxResponseBodySize":      int64(maxAnswer),
		"authResponseHeadersRegex": takenHeaders,
		// What the checker needs to see; X-Forwarded-* comes besides. The client's
		// cookies and credentials for the app are none of its business, and a header
		// too large for it would turn into an answer that is not the gate's.
		"authRequestHeaders": []any{"X-API-Key", "Access-Control-Request-Method", trace.Header, gateproof.NonceHeader},
	}
}

// preflightSpec is a gate that nothing with a body passes, of however many bytes: Traefik
// reads the first one to hand it to the checker, and may hand over none. A preflight has
// none, and needs no key, so with one it would be a way into the app.
func (m middlewares) preflightSpec(ref app.Ref) map[string]any {
	ask := m.forwardAuth(ref)
	ask["forwardBody"], ask["maxBodySize"] = true, int64(0)
	return map[string]any{"forwardAuth": ask}
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

func (c *Cluster) gateStatus(o Objects, ref app.Ref) Status {
	absent, right := true, true
	for i, p := range c.routing.gate(ref) {
		absent = absent && o.gate[i] == nil
		right = right && p.right(o.gate[i], ref)
	}
	return statusOf(absent, right)
}

// DeleteMiddleware deletes the objects of an app's gate, if they have not changed
// since. No route may name them any more.
func (c *Cluster) DeleteMiddleware(ctx context.Context, o Objects, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for i, p := range c.routing.gate(ref) {
		if err := deleteSeen(ctx, c.objects(p.kind, ref.Namespace), o.gate[i], only); err != nil {
			return err
		}
	}
	return nil
}
