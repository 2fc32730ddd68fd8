package checker

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/functions/checker/internal/meter"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
)

// outcome is the result of a check, an index of outcomes.
type outcome int

const (
	allowed outcome = iota
	preflight
	keyInfo
	badAddress
	notProven
	noKey
	multipleKeys
	connectMethod
	unknownPlan
	overRate
	overKeyInfoLimit
	overQuota
	unshared // others may have used the rest of the quota
	unleased // this replica holds none of the hard quota
	badKey   // followed by the gate's other reasons, in their order
)

type outcomeRow struct {
	code   problem.Code // also the metric label
	reason string       // "" if the request is allowed
	denial *denial.Denial
}

// outcomes describes every outcome. All denials with the same code have the same status and body.
// Their headers differ only as follows, and never by the reason for a 401:
//
//   - X-Request-Id differs in each response.
//   - A 429 contains the key's own Retry-After and RateLimit headers.
//   - A 401 contains a proof if the request contains a nonce.
//   - Connection: close may end the connection (connection.go).
//
//nolint:gochecknoglobals // made once, then only read
var outcomes = makeOutcomes()

func makeOutcomes() []outcomeRow {
	table := []outcomeRow{
		allowed:          {code: "allowed"},
		preflight:        {code: "preflight"},
		keyInfo:          {code: "shown"},
		badAddress:       {code: problem.Misconfigured, reason: "bad_address"},
		notProven:        {code: problem.GateUnavailable, reason: "not_proven"},
		noKey:            {code: problem.InvalidKey, reason: "missing"},
		multipleKeys:     {code: problem.InvalidKey, reason: "repeated"},
		connectMethod:    {code: problem.InvalidKey, reason: "connect"},
		unknownPlan:      {code: problem.GateUnavailable, reason: "unknown_plan"},
		overRate:         {code: problem.RateLimited, reason: "rate"},
		overKeyInfoLimit: {code: problem.RateLimited, reason: "shown"},
		overQuota:        {code: problem.QuotaExhausted, reason: "quota"},
		unshared:         {code: problem.GateUnavailable, reason: "unshared"},
		unleased:         {code: problem.GateUnavailable, reason: "unleased"},
	}
	for _, reason := range gate.Reasons() {
		table = append(table, outcomeRow{code: problem.InvalidKey, reason: reason})
	}
	for o := range table {
		if table[o].reason != "" {
			table[o].denial = denial.New(table[o].code)
		}
	}
	return table
}

// check decides a request to the app at address, "{namespace}/{app}". It takes no lock and
// allocates no memory. The steps, in their order:
//
//  1. 500 misconfigured if the address or the forwarded method is invalid.
//  2. 200 for a CORS preflight.
//  3. 503 gate_unavailable if the view is not fresh.
//  4. 401 invalid_key if the request has no key or several, or is a CONNECT.
//  5. 401 invalid_key if the key is not valid for the app (package gate).
//  6. 503 gate_unavailable if the key's plan is not in the view.
//  7. 429 rate_limited if the key's bucket is empty (package bucket).
//  8. 429 quota_exhausted if the key's quota is used up (package meter), or 503 gate_unavailable
//     if that is unknown, because replicas cannot share their counts or this replica holds none
//     of a hard quota.
func (c *Checker) check(h http.Header, address string, now time.Time) (outcome, gate.Verdict) {
	namespace, name, ok := strings.Cut(address, "/")
	method := h[methodHeader]
	switch {
	case !ok || !app.ValidNamespace(namespace) || !app.ValidLabel(name) || len(method) != 1 || method[0] == "":
		return badAddress, gate.Verdict{}
	case denial.Preflight(h):
		return preflight, gate.Verdict{}
	case !c.proof.Fresh(now):
		return notProven, gate.Verdict{}
	}
	key, none := keyIn(h, method[0])
	v := gate.Decide(c.snapshot.Load(), gate.Request{Namespace: namespace, App: name, Key: key}, now)
	switch {
	case none != 0:
		return none, v
	case !v.Valid:
		return badKey + outcome(v.Reason-gate.Malformed), v
	case v.PlanUnknown:
		return unknownPlan, v
	case !c.buckets.Take(v.Key.Slot(), v.Limits.Bucket, int64(now.Sub(c.start))):
		c.meter.RateDenied(v.Key.Slot(), v.Prefix, now)
		return overRate, v
	}
	switch c.meter.Admit(v.Key.Slot(), v.Prefix, v.Limits, now) {
	case meter.Exhausted:
		return overQuota, v
	case meter.Unshared:
		return unshared, v
	case meter.Unleased:
		return unleased, v
	case meter.Admitted:
	}
	return allowed, v
}

func keyIn(h http.Header, method string) (key string, none outcome) {
	switch keys := h[keyHeader]; {
	case len(keys) == 0 || len(keys) == 1 && keys[0] == "":
		return "", noKey
	case len(keys) > 1:
		return "", multipleKeys
	case method == http.MethodConnect:
		return "", connectMethod
	default:
		return keys[0], 0
	}
}
