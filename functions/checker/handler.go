package checker

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/denials"
	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/functions/checker/internal/peers"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/usage"
)

// Header names as net/http spells them.
const (
	keyHeader    = "X-Api-Key"
	prefixHeader = "X-Service-Key-Prefix"
	nameHeader   = "X-Service-Key-Name"
	methodHeader = "X-Forwarded-Method"

	// bodyHeader holds a denial's body, which is JSON in one line of visible ASCII.
	bodyHeader = "X-Sluice-Denial"
)

// checkPath is before the address of the app that a check is about.
const checkPath = "/check/"

// inHeader is the query of a check whose proxy can pass on a denial's headers but
// not its body, such as nginx by auth_request. It is a part of the address in the
// proxy's own configuration.
const inHeader = "denial=header"

// ServeHTTP answers GET /check/{namespace}/{app}, /api/v1/key, /applied, /healthz and
// /readyz, and POST /counts, /denials and /usage. The contract with proxies is in infra/proxies.
//
// /readyz is 200 once the first full snapshot has been proven, and stays so: a
// replica that denies later must stay reachable, so that clients get its 503.
func (c *Checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, isCheck := strings.CutPrefix(r.URL.Path, checkPath)
	switch {
	case isCheck:
		c.serveCheck(w, r, appIn(address))
	case r.URL.Path == api.GetOwnKey.Path, r.Method == http.MethodConnect: // which has no path over HTTP/2
		c.serveKey(w, r)
	case r.URL.Path == checkers.AckPath:
		c.serveApplied(w, r)
	case r.URL.Path == checkers.QueryPath:
		c.serveExplain(w, r)
	case r.URL.Path == usage.MemoryPath:
		c.serveUsage(w, r)
	case r.URL.Path == peers.Path:
		c.serveCounts(w, r)
	case r.URL.Path == "/readyz" && !c.proven.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusOK)
	default:
		c.serveCheck(w, r, "")
	}
}

// HandlesHealth keeps funcmain from answering /healthz itself.
func (c *Checker) HandlesHealth() bool { return true }

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

func (c *Checker) serveCheck(w http.ResponseWriter, r *http.Request, address string) {
	began := c.now()
	o := c.answer(w, r, address, began)
	ended := c.now()
	c.metrics.decided(o, ended.Sub(began))
	if c.spans != nil {
		c.spanned(r, w.Header(), o, address, began, ended)
	}
}

// answer decides on a check, and answers it.
func (c *Checker) answer(w http.ResponseWriter, r *http.Request, address string, now time.Time) outcome {
	c.endOld(r.Context(), w.Header(), now)
	o, v := c.check(r.Header, address, now)
	switch o {
	case allowed:
		h := w.Header()
		h[prefixHeader] = []string{v.Prefix}
		if name := v.Key.HeaderName(); name != "" {
			h[nameHeader] = []string{name}
		}
		if r.URL.RawQuery != "" && asksLimits(r.URL.RawQuery) {
			c.sayLimits(h, o, v, now)
		}
		w.WriteHeader(http.StatusOK)
	case preflight:
		w.WriteHeader(http.StatusOK)
	default:
		c.deny(w, r, o, address, v, now)
	}
	return o
}

// Export has a span made of each check, by the trace of the proxy's question.
func (c *Checker) Export(spans *span.Tracer) { c.spans = spans }

// spanned makes a check's span. It says what the app is, since its address was found
// valid, and how the check ended; of the key it says nothing.
func (c *Checker) spanned(r *http.Request, answered http.Header, o outcome, address string, began, ended time.Time) {
	fields := []span.Field{{Key: span.Verdict, Value: string(outcomes[o].code)}, {Key: span.RequestID, Value: answered.Get(trace.Header)}}
	if namespace, name, ok := strings.Cut(address, "/"); ok && o != badAddress { // else the address can be anything
		fields = append(fields, span.OfApp(app.Ref{Namespace: namespace, Name: name})...)
	}
	c.spans.Record(r.Context(), trace.ParentOf(r.Header), "check", began, ended, fields...)
}

// deny answers a denial and notes why it is one.
func (c *Checker) deny(w http.ResponseWriter, r *http.Request, o outcome, address string, v gate.Verdict, now time.Time) {
	retryAfter := time.Duration(0) // what the table of problems says
	switch outcomes[o].code {      //nolint:exhaustive // nothing more comes with the others
	case problem.RateLimited:
		c.sayLimits(w.Header(), o, v, now)
	case problem.QuotaExhausted:
		retryAfter = v.Limits.Period.End(now).Sub(now)
		c.sayLimits(w.Header(), o, v, now)
	case problem.GateUnavailable:
		if o == unleased { // of one key, and in a moment the others have shared what is left
			break
		}
		c.sendAway(r.Context(), w.Header(), now)
	case problem.InvalidKey:
		c.prove(w.Header(), r, address)
	}
	answer, id := outcomes[o].answer, trace.IDOf(r.Header)
	w.Header()[trace.Header] = []string{id}
	if asksDenial(r.URL.RawQuery) && strings.HasPrefix(r.URL.Path, checkPath) {
		w.Header()[bodyHeader] = []string{string(answer.Body())}
	}
	answer.Write(w, retryAfter)
	c.note(id, o, v, r, address, now)
}

// note keeps why a request was denied. It takes copies of what is the request's, so
// that a short text does not keep a whole header in memory.
func (c *Checker) note(id string, o outcome, v gate.Verdict, r *http.Request, address string, now time.Time) {
	h := r.Header
	d := denials.Denial{
		At: now.UTC(), RequestID: strings.Clone(id), Code: string(outcomes[o].code), Reason: outcomes[o].reason, Address: trace.Forwarded(h),
	}
	if v.Valid {
		d.KeyPrefix = strings.Clone(v.Prefix)
	} else if keys := h[keyHeader]; len(keys) == 1 && len(keys[0]) == apikey.Length {
		prefix, _ := apikey.Parse([]byte(keys[0]))
		d.KeyPrefix = string(prefix)
	}
	method := h[methodHeader]
	if address == "" { // nobody asks for a client: the method is its own
		method = []string{r.Method}
	}
	if len(method) == 1 {
		d.Method = strings.Clone(method[0][:min(len(method[0]), 16)]) // what any real one has
	}
	if o != badAddress { // else the address can be anything
		namespace, name, _ := strings.Cut(address, "/")
		d.Namespace, d.App = strings.Clone(namespace), strings.Clone(name)
	}
	c.denials.Note(d)
}

// prove answers a nonce, as wiring sends one when it asks whether a gate is in place, on a
// 401 about an app (see package gateproof). Anybody may send one and gets nothing for it but
// one HMAC; without one, which is everybody else's request, this is a look into the header.
func (c *Checker) prove(out http.Header, r *http.Request, address string) {
	nonces := r.Header[checkers.NonceHeader]
	if len(nonces) != 1 || address == "" || !checkers.ValidNonce(nonces[0]) || c.proofKey == nil {
		return
	}
	key, err := c.proofKey()
	if err != nil {
		c.log.Error("read the key of proofs failed", "error", err)
		return
	}
	out[checkers.ProofHeader] = []string{key.SignProof(nonces[0], subject(r.URL.Path, address))}
}

// subject returns what a proof is about: the address of the app and, where the path of the
// check names it, the generation of the route. Other text may follow the address, since
// Envoy appends the client's path.
func subject(path, address string) string {
	after, more := strings.CutPrefix(path, checkPath+address+"/")
	generation, _, _ := strings.Cut(after, "/")
	if !more || !checkers.ValidGeneration(generation) {
		return address
	}
	return address + "/" + generation
}
