package checker

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/gateproof"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

// Header names as net/http spells them.
const (
	keyHeader    = "X-Api-Key"
	prefixHeader = "X-Service-Key-Prefix"
	nameHeader   = "X-Service-Key-Name"
	methodHeader = "X-Forwarded-Method"
	idHeader     = trace.Header
)

// connectionLife is how long a connection to a stale replica may have lived.
const connectionLife = time.Second

// outcome is how a check ended; "allowed" and "preflight" beside the codes of
// the denials.
type outcome int

const (
	allowed outcome = iota
	preflight
	invalidKey
	rateLimited
	quotaExhausted
	gateUnavailable
	misconfigured
	outcomes // how many there are
)

// ServeHTTP answers GET /check/{namespace}/{app}, /healthz and /readyz. The contract
// with proxies is in infra/proxies.
//
// /readyz is 200 once the first full snapshot has been proven, and stays so: a
// replica that denies later must stay reachable, so that clients get its 503.
func (c *Checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, isCheck := strings.CutPrefix(r.URL.Path, "/check/")
	switch {
	case isCheck:
		c.serveCheck(answerIn(w, r), r, appIn(address))
	case r.URL.Path == "/healthz":
		w.WriteHeader(http.StatusOK)
	case r.URL.Path == "/readyz":
		c.serveReady(w)
	default:
		now := c.now()
		c.refuse(w, r, misconfigured, "", gate.Verdict{}, now)
		c.metrics.decided(misconfigured, c.now().Sub(now))
	}
}

// HandlesHealth keeps funcmain from answering /healthz itself.
func (c *Checker) HandlesHealth() bool { return true }

func (c *Checker) serveReady(w http.ResponseWriter) {
	if !c.proven.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (c *Checker) serveCheck(w http.ResponseWriter, r *http.Request, address string) {
	now := c.now()
	o, v := c.check(r.Header, address, now)
	switch o {
	case allowed:
		h := w.Header()
		h[prefixHeader] = []string{v.Prefix}
		if name := v.Key.HeaderName(); name != "" {
			h[nameHeader] = []string{name}
		}
		w.WriteHeader(http.StatusOK)
	case preflight:
		w.WriteHeader(http.StatusOK)
	case invalidKey, rateLimited, quotaExhausted, gateUnavailable, misconfigured, outcomes:
		c.refuse(w, r, o, address, v, now)
	}
	c.metrics.decided(o, c.now().Sub(now))
}

// refuse answers a denial and notes why.
func (c *Checker) refuse(w http.ResponseWriter, r *http.Request, o outcome, address string, v gate.Verdict, now time.Time) {
	retryAfter := time.Duration(0)
	switch o { //nolint:exhaustive // the rest have what the table says
	case quotaExhausted:
		retryAfter = v.Limits.Period.End(now).Sub(now)
	case gateUnavailable:
		c.sendAway(r.Context(), w.Header(), now)
	case invalidKey:
		c.prove(w.Header(), r.Header, address)
	}
	id := trace.IDOf(r.Header)
	deny(w, id, o, retryAfter)
	c.note(id, o, r.Header, address, v, now)
}

// connection is the key of a connection's beginning in its requests' context.
type connection struct{}

// Connected is told of each new connection (see [http.Server.ConnContext]).
func (c *Checker) Connected(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c.now())
}

// sendAway ends the connection of a denial that another replica might not give:
// over HTTP/2 the proxy keeps one connection, and would stay with this replica as
// long as it lives. Each connection is let live for a second, which costs no storm of
// handshakes when every replica denies; it is each connection's own second, so that
// no proxy waits for others to be sent away.
func (c *Checker) sendAway(ctx context.Context, h http.Header, now time.Time) {
	if opened, ok := ctx.Value(connection{}).(time.Time); ok && now.Sub(opened) >= connectionLife {
		h["Connection"] = closeConnection
	}
}

// appIn cuts off what follows "{namespace}/{app}" and a "/": Envoy appends the client's
// path to the address.
func appIn(address string) string {
	namespace, rest, _ := strings.Cut(address, "/")
	name, _, more := strings.Cut(rest, "/")
	if !more {
		return address
	}
	return address[:len(namespace)+1+len(name)]
}

// check decides on one request. address is "{namespace}/{app}".
func (c *Checker) check(h http.Header, address string, now time.Time) (outcome, gate.Verdict) {
	namespace, name, ok := strings.Cut(address, "/")
	method := h[methodHeader]
	if !ok || !app.ValidNamespace(namespace) || !app.ValidLabel(name) || len(method) != 1 || method[0] == "" {
		return misconfigured, gate.Verdict{}
	}
	if denial.Preflight(h) {
		return preflight, gate.Verdict{}
	}
	if !c.proof.Fresh(now) {
		return gateUnavailable, gate.Verdict{}
	}
	key := ""
	if keys := h[keyHeader]; len(keys) == 1 && method[0] != http.MethodConnect { // two keys are no key, and none opens a tunnel
		key = keys[0]
	}
	v := gate.Decide(c.view.view.Load(), gate.Request{Namespace: namespace, App: name, Key: key}, now)
	switch {
	case !v.Valid:
		return invalidKey, v
	case v.Planless:
		return gateUnavailable, v
	case !c.buckets.Take(v.Key.Slot(), v.Limits.Bucket, int64(now.Sub(c.start))):
		c.meter.RateDenied(v.Key.Slot(), v.Prefix, now)
		return rateLimited, v
	}
	switch c.meter.Admit(v.Key.Slot(), v.Prefix, v.Limits, now) {
	case meter.Exhausted:
		return quotaExhausted, v
	case meter.Unshared:
		return gateUnavailable, v
	case meter.Admitted:
	}
	return allowed, v
}

// code names a denial in the table of problems.
func (o outcome) code() problem.Code {
	switch o {
	case invalidKey:
		return problem.InvalidKey
	case rateLimited:
		return problem.RateLimited
	case quotaExhausted:
		return problem.QuotaExhausted
	case gateUnavailable:
		return problem.GateUnavailable
	case allowed, preflight, misconfigured, outcomes:
	}
	return problem.Misconfigured
}

// String names an outcome in metrics.
func (o outcome) String() string {
	switch o {
	case allowed:
		return "allowed"
	case preflight:
		return "preflight"
	case invalidKey, rateLimited, quotaExhausted, gateUnavailable, misconfigured, outcomes:
	}
	return string(o.code())
}

// prove answers a nonce, as wiring sends one when it asks whether a gate is in place, on a
// 401 (see package gateproof). Anybody may send one and gets nothing for it but one HMAC;
// without one, which is everybody else's request, this is a look into the header.
func (c *Checker) prove(out, in http.Header, address string) {
	nonces := in[gateproof.NonceHeader]
	if len(nonces) != 1 || !gateproof.ValidNonce(nonces[0]) || c.proofKey == nil {
		return
	}
	key, err := c.proofKey()
	if err != nil {
		c.log.Error("read the key of proofs failed", "error", err)
		return
	}
	out[gateproof.ProofHeader] = []string{key.Prove(nonces[0], address)}
}
