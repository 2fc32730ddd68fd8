package checker

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

// limitsInHeader is the query of a check by a proxy that can pass the headers of a 200 on to the
// client. "&" and any text may follow: Envoy appends the client's path and query.
const limitsInHeader = "limits=header"

func wantsLimits(query string) bool {
	rest, ok := strings.CutPrefix(query, limitsInHeader)
	return ok && (rest == "" || rest[0] == '&')
}

func wantsDenial(query string) bool {
	return query == denialInHeader || query == limitsInHeader+"&"+denialInHeader
}

// setRateLimitHeaders must not be called for a 401, because the headers reveal that the key exists.
func (c *Checker) setRateLimitHeaders(h http.Header, o outcome, v gate.Verdict, now time.Time) {
	if o == overKeyInfoLimit {
		h[plan.PolicyField], h[plan.LimitField] = keyInfoPolicy, keyInfoLimit
		return
	}
	s := c.standing(v, now)
	s.Set(h, &v.Key.Plan().Policy)
}

func (c *Checker) standing(v gate.Verdict, now time.Time) plan.Standing {
	s := plan.Standing{Token: time.Duration(v.Limits.Bucket.Token), Quota: v.Limits.Quota}
	s.Tokens, s.Wait = c.buckets.Available(v.Key.Slot(), v.Limits.Bucket, int64(now.Sub(c.start)))
	if s.Quota != 0 {
		used, began, ends := c.meter.Used(v.Key.Slot(), v.Limits.Period, now)
		s.Used, s.Length, s.Resets = used, time.Duration(ends-began), time.Duration(ends-now.UnixNano())
	}
	return s
}

// A key has one call of GET /api/v1/key a second, and 5 at once, per replica.
//
//nolint:gochecknoglobals // constants; net/http wants slices
var (
	keyInfoShape  = bucket.ShapeOf(plan.Limits{Rate: 1, Burst: 5})
	keyInfoPolicy = []string{`"key";q=5;w=5`}
	keyInfoLimit  = []string{`"key";r=0;t=1`}
)

// serveKey serves GET /api/v1/key, which returns the limits of the key in the request (promise G17).
// Calls consume neither rate nor quota, but have a separate bucket. An invalid key gets the same
// 401 as at a gate.
func (c *Checker) serveKey(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.setCommonHeaders(w.Header(), r.Header)
		w.Header()["Allow"] = []string{"GET, HEAD"}
		httpapi.WriteProblem(w, problem.FromCode(problem.MethodNotAllowed))
		return
	}
	now := c.now()
	o, v := c.identify(r.Header, now)
	if o == keyInfo {
		c.setCommonHeaders(w.Header(), r.Header)
		_ = httpapi.WriteJSON(w, http.StatusOK, c.keyInfoFor(v, now)) // numbers, strings and times always encode
	} else {
		c.deny(w, r, o, "", v, now)
	}
	c.metrics.observe(o, c.now().Sub(now))
}

func (c *Checker) setCommonHeaders(out, in http.Header) {
	out[reqctx.Header] = []string{reqctx.IDOf(in)}
	out["Cache-Control"] = []string{"no-store"}
	out["X-Content-Type-Options"] = []string{"nosniff"}
}

func (c *Checker) identify(h http.Header, now time.Time) (outcome, gate.Verdict) {
	if !c.proof.Fresh(now) {
		return notProven, gate.Verdict{}
	}
	key, none := keyIn(h, http.MethodGet)
	v := gate.Decide(c.snapshot.Load(), gate.Request{Key: key, KeyInfo: true}, now)
	switch {
	case none != 0:
		return none, v
	case !v.Valid:
		return badKey + outcome(v.Reason-gate.Malformed), v
	case !c.keyInfoBuckets.Take(v.Key.Slot(), keyInfoShape, int64(now.Sub(c.start))):
		return overKeyInfoLimit, v
	case v.PlanUnknown:
		return unknownPlan, v
	}
	return keyInfo, v
}

func (c *Checker) keyInfoFor(v gate.Verdict, now time.Time) wire.OwnKey {
	p, s := v.Key.Plan(), c.standing(v, now)
	name, err := url.PathUnescape(v.Key.HeaderName())
	if err != nil {
		name = ""
	}
	apps, scope := apikey.ShownScope(v.Key.Apps())
	k := wire.OwnKey{
		Prefix: v.Prefix, Name: name, Environment: p.Environment, Apps: apps, Scope: string(scope),
		Plan: string(p.ID), PlanName: p.Name, Rate: p.Rate, Burst: p.Burst,
	}
	if at := v.Key.ExpiresAt(); at != math.MaxInt64 {
		expires := time.Unix(0, at).UTC()
		k.ExpiresAt = &expires
	}
	if s.Quota != 0 {
		period, used, remaining, resets := string(v.Limits.Period), int64(min(s.Used, math.MaxInt64)), s.Remaining(), now.Add(s.Resets).UTC()
		k.Quota, k.QuotaPeriod, k.Used, k.Remaining, k.ResetsAt = &s.Quota, &period, &used, &remaining, &resets
	}
	return k
}
