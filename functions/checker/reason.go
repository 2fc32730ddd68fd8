package checker

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/denials"
	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/trace"
)

// Reasons of denials beside the flaws of keys (package gate). Only operators see
// them.
const (
	noKey       = "missing"      // no X-API-Key
	manyKeys    = "repeated"     // more than one
	tunnel      = "connect"      // a CONNECT, with a key
	overRate    = "rate"         // of the plan
	overQuota   = "quota"        // of the plan
	notProven   = "not_proven"   // the view may be stale
	unknownPlan = "unknown_plan" // the key's plan is not in the view (yet)
	unshared    = "unshared"     // others may have used what is left of the quota
	badAddress  = "bad_address"  // not how the proxy asks
)

// reasons lists all there are.
func reasons() []string {
	all := []string{noKey, manyKeys, tunnel, overRate, overQuota, notProven, unknownPlan, unshared, badAddress}
	for _, f := range gate.Flaws() {
		all = append(all, f.String())
	}
	return all
}

// reason says why a request was denied.
func reason(o outcome, h http.Header, v gate.Verdict) string {
	switch o {
	case invalidKey:
		switch keys := h[keyHeader]; {
		case len(keys) == 0 || len(keys) == 1 && keys[0] == "":
			return noKey
		case len(keys) > 1:
			return manyKeys
		case h[methodHeader][0] == http.MethodConnect:
			return tunnel
		}
		return v.Flaws.String()
	case rateLimited:
		return overRate
	case quotaExhausted:
		return overQuota
	case gateUnavailable:
		switch {
		case v.Planless:
			return unknownPlan
		case v.Valid:
			return unshared
		}
		return notProven
	case allowed, preflight, misconfigured, outcomes:
	}
	return badAddress
}

// note keeps why a request was denied. It takes copies of what is the request's, so
// that a short text does not keep a whole header in memory.
func (c *Checker) note(id string, o outcome, h http.Header, address string, v gate.Verdict, now time.Time) {
	d := denials.Denial{
		At: now.UTC(), RequestID: strings.Clone(id), Code: o.String(), Reason: reason(o, h, v),
		KeyPrefix: prefixOf(h[keyHeader]), Method: method(h[methodHeader]), Address: trace.Forwarded(h),
	}
	if o != misconfigured { // else the address can be anything
		namespace, name, _ := strings.Cut(address, "/")
		d.Namespace, d.App = strings.Clone(namespace), strings.Clone(name)
	}
	c.metrics.denied(d.Reason)
	c.book.Note(d)
}

// prefixOf gives the public prefix of the one key that came, if it has a key's shape.
func prefixOf(keys []string) string {
	if len(keys) != 1 || len(keys[0]) != apikey.Length {
		return ""
	}
	prefix, _ := apikey.Parse([]byte(keys[0]))
	return string(prefix)
}

// method gives the client's method, cut to what any real one has.
func method(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return strings.Clone(values[0][:min(len(values[0]), 16)])
}
