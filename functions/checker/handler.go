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
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	keyHeader    = "X-Api-Key"
	prefixHeader = "X-Service-Key-Prefix"
	nameHeader   = "X-Service-Key-Name"
	methodHeader = "X-Forwarded-Method"

	// bodyHeader contains a denial's body: JSON in one line of visible ASCII.
	bodyHeader = "X-Sluice-Denial"
)

const checkPath = "/check/"

// denialInHeader is the query of a check by a proxy that cannot pass on the body of a denial, such
// as nginx with auth_request.
const denialInHeader = "denial=header"

// ServeHTTP serves the proxy's checks, GET /check/{namespace}/{app} (see infra/proxies), and calls
// of key holders, other functions and other replicas. A request to an unknown path is a check
// without an address. After the first proof, /readyz always returns 200: even if the replica
// denies all requests, clients must get its 503.
func (c *Checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, isCheck := strings.CutPrefix(r.URL.Path, checkPath)
	switch {
	case isCheck:
		c.serveCheck(w, r, appIn(address))
	case r.URL.Path == api.GetOwnKey.Path, r.Method == http.MethodConnect: // a CONNECT over HTTP/2 has no path
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

// HandlesHealth reports that ServeHTTP serves /healthz.
func (c *Checker) HandlesHealth() bool { return true }

// appIn removes everything after "{namespace}/{app}": Envoy appends the client's path to the
// address.
func appIn(address string) string {
	namespace, rest, _ := strings.Cut(address, "/")
	name, _, more := strings.Cut(rest, "/")
	if !more {
		return address
	}
	return address[:len(namespace)+1+len(name)]
}

func (c *Checker) serveCheck(w http.ResponseWriter, r *http.Request, address string) {
	start := c.now()
	o := c.respond(w, r, address, start)
	end := c.now()
	c.metrics.observe(o, end.Sub(start))
	if c.spans != nil {
		c.recordSpan(r, w.Header(), o, address, start, end)
	}
}

func (c *Checker) respond(w http.ResponseWriter, r *http.Request, address string, now time.Time) outcome {
	c.closeOldConnection(r.Context(), w.Header(), now)
	o, v := c.check(r.Header, address, now)
	switch o {
	case allowed:
		h := w.Header()
		h[prefixHeader] = []string{v.Prefix}
		if name := v.Key.HeaderName(); name != "" {
			h[nameHeader] = []string{name}
		}
		if r.URL.RawQuery != "" && wantsLimits(r.URL.RawQuery) {
			c.setRateLimitHeaders(h, o, v, now)
		}
		w.WriteHeader(http.StatusOK)
	case preflight:
		w.WriteHeader(http.StatusOK)
	default:
		c.deny(w, r, o, address, v, now)
	}
	return o
}

// Export exports a span for each check, within the trace of the proxy's request.
func (c *Checker) Export(spans *span.Tracer) { c.spans = spans }

func (c *Checker) recordSpan(r *http.Request, response http.Header, o outcome, address string, began, ended time.Time) {
	fields := []span.Field{{Key: span.Verdict, Value: string(outcomes[o].code)}, {Key: span.RequestID, Value: response.Get(reqctx.Header)}}
	if namespace, name, ok := strings.Cut(address, "/"); ok && o != badAddress {
		fields = append(fields, span.OfApp(app.Ref{Namespace: namespace, Name: name})...)
	}
	c.spans.Record(r.Context(), reqctx.ParentOf(r.Header), "check", began, ended, fields...)
}

func (c *Checker) deny(w http.ResponseWriter, r *http.Request, o outcome, address string, v gate.Verdict, now time.Time) {
	retryAfter := time.Duration(0) // zero selects the default of the problem code
	switch outcomes[o].code {      //nolint:exhaustive // other codes have no additional headers
	case problem.RateLimited:
		c.setRateLimitHeaders(w.Header(), o, v, now)
	case problem.QuotaExhausted:
		retryAfter = v.Limits.Period.End(now).Sub(now)
		c.setRateLimitHeaders(w.Header(), o, v, now)
	case problem.GateUnavailable:
		if o == unleased { // concerns one key only
			break
		}
		c.closeConnection(r.Context(), w.Header(), now)
	case problem.InvalidKey:
		c.signProbe(w.Header(), r, address)
	}
	d, id := outcomes[o].denial, reqctx.IDOf(r.Header)
	w.Header()[reqctx.Header] = []string{id}
	if wantsDenial(r.URL.RawQuery) && strings.HasPrefix(r.URL.Path, checkPath) {
		w.Header()[bodyHeader] = []string{string(d.Body())}
	}
	d.Write(w, retryAfter)
	c.recordDenial(id, o, v, r, address, now)
}

// recordDenial copies strings of the request: a substring would keep the whole header in memory.
func (c *Checker) recordDenial(id string, o outcome, v gate.Verdict, r *http.Request, address string, now time.Time) {
	h := r.Header
	d := denials.Denial{
		At: now.UTC(), RequestID: strings.Clone(id), Code: string(outcomes[o].code), Reason: outcomes[o].reason, Address: reqctx.Forwarded(h),
	}
	if v.Valid {
		d.KeyPrefix = strings.Clone(v.Prefix)
	} else if keys := h[keyHeader]; len(keys) == 1 && len(keys[0]) == apikey.Length {
		prefix, _ := apikey.Parse([]byte(keys[0]))
		d.KeyPrefix = string(prefix)
	}
	method := h[methodHeader]
	if address == "" { // GET /api/v1/key
		method = []string{r.Method}
	}
	if len(method) == 1 {
		d.Method = strings.Clone(method[0][:min(len(method[0]), 16)])
	}
	if o != badAddress {
		namespace, name, _ := strings.Cut(address, "/")
		d.Namespace, d.App = strings.Clone(namespace), strings.Clone(name)
	}
	c.denials.Record(d)
}

// signProbe adds a proof to a 401 if the request contains a nonce. wiring sends a nonce to verify
// that a gate is in place (package checkers); any client may.
func (c *Checker) signProbe(out http.Header, r *http.Request, address string) {
	nonces := r.Header[checkers.NonceHeader]
	if len(nonces) != 1 || address == "" || !checkers.ValidNonce(nonces[0]) || c.proofKey == nil {
		return
	}
	key, err := c.proofKey()
	if err != nil {
		c.log.Error("read proof key failed", "error", err)
		return
	}
	out[checkers.ProofHeader] = []string{key.SignProof(nonces[0], subject(r.URL.Path, address))}
}

// subject returns the subject of a proof: the app and, if the path contains it, the generation
// of the route. Envoy appends the client's path.
func subject(path, address string) string {
	after, more := strings.CutPrefix(path, checkPath+address+"/")
	generation, _, _ := strings.Cut(after, "/")
	if !more || !checkers.ValidGeneration(generation) {
		return address
	}
	return address + "/" + generation
}
