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

// outcome is how a check ended: a row in the table of outcomes, from which the answer,
// the metrics and what operators are told follow.
type outcome int

const (
	allowed     outcome = iota
	preflight           // let through without a key
	shown               // the key to its holder
	badAddress          // not how the proxy asks
	notProven           // the view may be stale
	noKey               // no X-API-Key
	manyKeys            // more than one
	tunnel              // a CONNECT, with a key
	unknownPlan         // the key's plan is not in the view (yet)
	overRate            // of the plan
	overShown           // shown too often
	overQuota           // of the plan
	unshared            // others may have used what is left of the quota
	unleased            // there may be some left of a hard quota, but none of it here
	badKey              // the first of the reasons that the gate gives; the others follow it
)

// result is a row of the table.
type result struct {
	code   problem.Code // of the denial, and what it is called in metrics
	reason string       // for operators alone; "" of what is let through
	answer *denial.Denial
}

// outcomes is the table. Every refusal with one code is the same to the client, byte for
// byte, but for its X-Request-Id, whatever the reason; an operator finds the reason by it.
//
//nolint:gochecknoglobals // made once, then only read
var outcomes = makeOutcomes()

func makeOutcomes() []result {
	table := []result{
		allowed:     {code: "allowed"},
		preflight:   {code: "preflight"},
		shown:       {code: "shown"},
		badAddress:  {code: problem.Misconfigured, reason: "bad_address"},
		notProven:   {code: problem.GateUnavailable, reason: "not_proven"},
		noKey:       {code: problem.InvalidKey, reason: "missing"},
		manyKeys:    {code: problem.InvalidKey, reason: "repeated"},
		tunnel:      {code: problem.InvalidKey, reason: "connect"},
		unknownPlan: {code: problem.GateUnavailable, reason: "unknown_plan"},
		overRate:    {code: problem.RateLimited, reason: "rate"},
		overShown:   {code: problem.RateLimited, reason: "shown"},
		overQuota:   {code: problem.QuotaExhausted, reason: "quota"},
		unshared:    {code: problem.GateUnavailable, reason: "unshared"},
		unleased:    {code: problem.GateUnavailable, reason: "unleased"},
	}
	for _, reason := range gate.Reasons() {
		table = append(table, result{code: problem.InvalidKey, reason: reason})
	}
	for o := range table {
		if table[o].reason != "" {
			table[o].answer = denial.New(table[o].code)
		}
	}
	return table
}

// check decides on one request. address is "{namespace}/{app}".
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
	case v.Planless:
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

// keyIn gives a request's key, or how the check ends without one.
func keyIn(h http.Header, method string) (key string, none outcome) {
	switch keys := h[keyHeader]; {
	case len(keys) == 0 || len(keys) == 1 && keys[0] == "":
		return "", noKey
	case len(keys) > 1: // two keys are no key
		return "", manyKeys
	case method == http.MethodConnect: // and none opens a tunnel
		return "", tunnel
	default:
		return keys[0], 0
	}
}
