package cluster

import (
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/reqctx"
)

const (
	envoyGroup = "gateway.envoyproxy.io"

	methodHeader = "X-Forwarded-Method"

	secureEndpoint = 443
)

// gatewayEnvoy is the routing of [GatewayEnvoyRoutes]. A SecurityPolicy makes Envoy call the
// checker through a Backend in the app's namespace.
//
// The policy names the route, not the reverse: a route whose policy is missing is open. A new gated
// route therefore has no backend until Envoy Gateway has accepted the policy.
//
// The ClientTrafficPolicy of infra/gateway removes clients' identity headers in every spelling, and
// passes the method to the checker. Without it, the checker returns 500 and no gate is proven.
type gatewayEnvoy struct {
	httpRoutes
	checker string
}

func (r gatewayEnvoy) gate(g gate) []part {
	id := policyOf(g.ref)
	return []part{
		{kind: envoyKind("Backend"), name: id.name, spec: r.backendSpec()},
		{kind: id.kind, name: id.name, spec: r.policySpec(g), earlier: r.policySpec(gate{ref: g.ref, refuse: g.refuse}), unnamed: true},
	}
}

func policyOf(ref app.Ref) partID { return partID{envoyKind("SecurityPolicy"), gateName(ref)} }

func (r gatewayEnvoy) generation(w way, ref app.Ref) string {
	policy := w.gate[policyOf(ref)]
	if policy == nil {
		return ""
	}
	path, _, _ := unstructured.NestedString(policy.Object, "spec", "extAuth", "http", "pathOverride")
	generation, ok := strings.CutPrefix(path, gate{ref: ref}.checkPath()+"/")
	if !ok || !checkers.ValidGeneration(generation) {
		return ""
	}
	return generation
}

func (r gatewayEnvoy) backendSpec() map[string]any {
	u, err := url.Parse(r.checker)
	if err != nil {
		u = &url.URL{}
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		port = secureEndpoint
	}
	return map[string]any{
		"type":      "Endpoints",
		"endpoints": []any{map[string]any{"fqdn": map[string]any{"hostname": u.Hostname(), "port": port}}},
		"tls": map[string]any{
			"caCertificateRefs":  []any{map[string]any{"group": "", "kind": "Secret", "name": caSecretName}},
			"sni":                u.Hostname(), // the certificate is verified for this name
			"insecureSkipVerify": false,
		},
	}
}

// policySpec returns the spec of the gate's SecurityPolicy (promises G6, G7, G11).
func (r gatewayEnvoy) policySpec(g gate) map[string]any {
	return map[string]any{
		"targetRefs": []any{map[string]any{"group": gatewayGroup, "kind": "HTTPRoute", "name": g.ref.Name}},
		"extAuth": map[string]any{
			"failOpen":         false,
			"statusOnError":    int64(503),
			"timeout":          "5s",
			"headersToExtAuth": append([]any{"X-API-Key", methodHeader}, g.asked(reqctx.Header, checkers.NonceHeader)...),
			"http": map[string]any{
				"backendRefs":      []any{map[string]any{"group": envoyGroup, "kind": "Backend", "name": gateName(g.ref), "weight": int64(1)}},
				"pathOverride":     g.checkPath(),
				"headersToBackend": []any{"X-Service-Key-Prefix", "X-Service-Key-Name"},
			},
		},
	}
}

// spec implements [routing]. Preflights need no key, so their credentials and method overrides are
// removed, and preflights that request an upgrade or have a body have no backend. Envoy Gateway
// rejects header names with an underscore by default.
func (r gatewayEnvoy) spec(o Objects, a app.App, by *gate) map[string]any {
	open := r.route(a, leads(a, match("")))
	if by == nil {
		return open
	}
	nowhere := map[string]any{"matches": []any{
		match("OPTIONS", "Access-Control-Request-Method", ".*", "Upgrade", ".*"),
		match("OPTIONS", "Access-Control-Request-Method", ".*", "Transfer-Encoding", ".*"),
		match("OPTIONS", "Access-Control-Request-Method", ".*", "Content-Length", "0*[1-9][0-9]*"),
	}}
	removed := []any{"X-API-Key", methodHeader, "HTTP2-Settings"}
	refusing := r.route(a, leads(a, match(""), removes(removed)), nowhere) // in earlier releases, for every gate
	full := refusing
	if !by.refuse {
		full = r.route(a,
			leads(a, match(""), removes(removed)),
			leads(a, match("OPTIONS", "Access-Control-Request-Method", ".*"),
				removes(append(removed, "Cookie", "Authorization", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"))),
			nowhere,
		)
	}
	if r.enforced(o, by.ref) || o.route != nil && (r.same(o.route, open) || r.same(o.route, full) || r.same(o.route, refusing)) {
		return full
	}
	return r.closed(a)
}

func removes(headers []any) map[string]any {
	return map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"remove": headers}}
}

func (r gatewayEnvoy) closed(a app.App) map[string]any {
	return r.route(a, map[string]any{"matches": []any{match("")}})
}

func (r gatewayEnvoy) accepted(u *unstructured.Unstructured) bool {
	leads := false
	for _, rule := range objectsIn(u.Object, "spec", "rules") {
		leads = leads || rule["backendRefs"] != nil
	}
	return leads && r.httpRoutes.accepted(u)
}

func (r gatewayEnvoy) enforced(o Objects, ref app.Ref) bool {
	policy := o.gate[policyOf(ref)]
	if policy == nil {
		return false
	}
	ancestors := objectsIn(policy.Object, "status", "ancestors")
	for _, ancestor := range ancestors {
		if !holds(ancestor, "Accepted", policy.GetGeneration()) {
			return false
		}
	}
	return len(ancestors) > 0
}
