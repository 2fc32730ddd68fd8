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
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// limitsInHeader is the query of a check whose proxy can pass the headers of an answer that
// allows on to the client. What is behind it and a "&" is not looked at: Envoy appends the
// client's path and query.
const limitsInHeader = "limits=header"

// asksLimits tells whether the proxy wants limits on an answer that allows.
func asksLimits(query string) bool {
	rest, ok := strings.CutPrefix(query, limitsInHeader)
	return ok && (rest == "" || rest[0] == '&')
}

// asksDenial tells whether the proxy wants a denial's body in a header.
func asksDenial(query string) bool { return query == inHeader || query == limitsInHeader+"&"+inHeader }

// sayLimits tells the key's holder what is left of its limits: on every 429, on a 200 where
// the proxy asks for it, and on nothing else. On a 401 it would tell that the key is real.
func (c *Checker) sayLimits(h http.Header, o outcome, v gate.Verdict, now time.Time) {
	if o == overShown {
		h[plan.PolicyField], h[plan.LimitField] = shownPolicy, shownLimit
		return
	}
	s := c.standing(v, now)
	s.Set(h, &v.Key.Plan().Policy)
}

// standing is what is left of a key's limits.
func (c *Checker) standing(v gate.Verdict, now time.Time) plan.Standing {
	s := plan.Standing{Token: time.Duration(v.Limits.Bucket.Token), Quota: v.Limits.Quota}
	s.Tokens, s.Wait = c.buckets.Left(v.Key.Slot(), v.Limits.Bucket, int64(now.Sub(c.start)))
	if s.Quota != 0 {
		used, began, ends := c.meter.Used(v.Key.Slot(), v.Limits.Period, now)
		s.Used, s.Length, s.Resets = used, time.Duration(ends-began), time.Duration(ends-now.UnixNano())
	}
	return s
}

// How often a key is shown to its holder: once a second, 5 times at once, in each replica.
//
//nolint:gochecknoglobals // constants; net/http wants slices
var (
	shownShape  = bucket.ShapeOf(plan.Limits{Rate: 1, Burst: 5})
	shownPolicy = []string{`"key";q=5;w=5`}
	shownLimit  = []string{`"key";r=0;t=1`}
)

// serveKey answers GET /api/v1/key: the key that comes with the request, to its holder, from
// memory (promise G17). It costs none of the key's rate and quota, and has a bucket of its
// own. Whoever has no good key is refused as at any gate, byte for byte.
func (c *Checker) serveKey(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.frame(w.Header(), r.Header)
		w.Header()["Allow"] = []string{"GET, HEAD"}
		httpapi.Fail(w, problem.Of(problem.MethodNotAllowed))
		return
	}
	now := c.now()
	o, v := c.identify(r.Header, now)
	if o == shown {
		c.frame(w.Header(), r.Header)
		_ = httpapi.JSON(w, http.StatusOK, c.holders(v, now)) // numbers, texts and times always encode
	} else {
		c.deny(w, r, o, "", v, now)
	}
	c.metrics.decided(o, c.now().Sub(now))
}

// frame is what answers of the API have, and the gate's denials by themselves.
func (c *Checker) frame(out, in http.Header) {
	out[trace.Header] = []string{trace.IDOf(in)}
	out["Cache-Control"] = []string{"no-store"}
	out["X-Content-Type-Options"] = []string{"nosniff"}
}

// identify decides on a request of a key's holder, as check does of a client's.
func (c *Checker) identify(h http.Header, now time.Time) (outcome, gate.Verdict) {
	if !c.proof.Fresh(now) {
		return notProven, gate.Verdict{}
	}
	key, none := keyIn(h, http.MethodGet)
	v := gate.Decide(c.snapshot.Load(), gate.Request{Key: key, Itself: true}, now)
	switch {
	case none != 0:
		return none, v
	case !v.Valid:
		return badKey + outcome(v.Reason-gate.Malformed), v
	case !c.shown.Take(v.Key.Slot(), shownShape, int64(now.Sub(c.start))):
		return overShown, v
	case v.Planless:
		return unknownPlan, v
	}
	return shown, v
}

// holders is what the holder of a key may know of it.
func (c *Checker) holders(v gate.Verdict, now time.Time) wire.OwnKey {
	p, s := v.Key.Plan(), c.standing(v, now)
	name, err := url.PathUnescape(v.Key.HeaderName())
	if err != nil { // it is made by the escaping of paths
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
