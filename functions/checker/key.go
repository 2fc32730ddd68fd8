package checker

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/gate"
	"github.com/sluicegate/sluice/functions/checker/internal/limits"
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
func (c *Checker) sayLimits(h http.Header, v gate.Verdict, now time.Time) {
	s := c.standing(v, now)
	s.Set(h, &v.Key.Plan().Policy)
}

// standing is what is left of a key's limits.
func (c *Checker) standing(v gate.Verdict, now time.Time) limits.Standing {
	s := limits.Standing{Token: time.Duration(v.Limits.Bucket.Token), Quota: v.Limits.Quota}
	s.Tokens, s.Wait = c.buckets.Left(v.Key.Slot(), v.Limits.Bucket, int64(now.Sub(c.start)))
	if s.Quota != 0 {
		used, began, ends := c.meter.Used(v.Key.Slot(), v.Limits.Period, now)
		s.Used, s.Length, s.Resets = used, time.Duration(ends-began), time.Duration(ends-now.UnixNano())
	}
	return s
}
