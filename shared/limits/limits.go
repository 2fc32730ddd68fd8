// Package limits writes a caller's limits into the header fields of
// draft-ietf-httpapi-ratelimit-headers-11 (promises G16, A15):
//
//	RateLimit-Policy: "rate";q=20;w=2, "quota";q=100000;w=2678400
//	RateLimit: "rate";r=15;t=2, "quota";r=4711;t=86399
//
// The policy is the plan's and made once. There is no partition key: each key has its own
// limits, and its holder knows which one it has sent. Callers of the management API have a rate
// and no quota.
package limits

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/plan"
)

// The fields, as net/http spells them.
const (
	PolicyField = "Ratelimit-Policy"
	LimitField  = "Ratelimit"
)

const (
	day       = 24 * time.Hour
	leastDays = 28 // of a month
)

// Policy is a plan's field, by the days of the month beyond 28: a quota of a month is for
// a window of that month's length.
type Policy [4][]string

// PolicyOf makes a plan's.
func PolicyOf(l plan.Limits) Policy {
	q, w := throughput(l.Rate, l.Burst)
	rate := item(nil, "rate", ";q=", q, ";w=", w)
	var p Policy
	for i := range p {
		text := rate
		switch l.Period {
		case plan.Day:
			text = quota(rate, l.Quota, day)
		case plan.Week:
			text = quota(rate, l.Quota, 7*day)
		case plan.Month:
			text = quota(rate, l.Quota, time.Duration(leastDays+i)*day)
		}
		p[i] = []string{string(text)}
	}
	return p
}

func quota(rate []byte, q int64, window time.Duration) []byte {
	return item(append(rate[:len(rate):len(rate)], ", "...), "quota", ";q=", q, ";w=", Seconds(window))
}

// throughput is a bucket as the draft tells limits: q requests in w whole seconds. w is the
// time in which an empty bucket fills, and q what comes back in it: the plan's rate, never
// more, and the burst itself where it fills in whole seconds.
func throughput(rate float64, burst int64) (q, w int64) {
	const rounding = 1e-6 // of a product of two decimal fractions
	w = max(1, int64(math.Ceil(float64(burst)/rate-rounding)))
	return int64(rate*float64(w) + rounding), w
}

// Standing is what is left of a key's limits at one moment.
type Standing struct {
	Tokens int64         // in the bucket
	Token  time.Duration // in which one comes back
	Wait   time.Duration // until there is one, while there is none

	// Of a plan with a quota; else Length is 0.
	Quota  int64
	Used   uint64        // in the period
	Length time.Duration // of the period
	Resets time.Duration // until it ends
}

// Remaining is what is left of the quota.
func (s *Standing) Remaining() int64 {
	return max(s.Quota-int64(min(s.Used, math.MaxInt64)), 0)
}

// Set puts both fields into a header.
func (s *Standing) Set(h http.Header, p *Policy) {
	days := 0
	var room [96]byte
	text := item(room[:0], "rate", ";r=", s.Tokens, ";t=", s.window())
	if s.Length != 0 {
		text = item(append(text, ", "...), "quota", ";r=", s.Remaining(), ";t=", Seconds(s.Resets))
		days = int(s.Length/day) - leastDays
	}
	h[PolicyField], h[LimitField] = p[min(max(days, 0), len(p)-1)], []string{string(text)}
}

// window is the time that the tokens are for: as long as as many take to come back, so that
// a client which spreads them over it goes at the plan's rate. Where there is none, it is
// the time until there is one, which can be longer than the Retry-After of rate_limited:
// that one is always 1.
func (s *Standing) window() int64 {
	if s.Tokens == 0 {
		return Seconds(s.Wait)
	}
	return Seconds(time.Duration(s.Tokens) * s.Token)
}

// Seconds rounds up to whole seconds, and to 1 at least.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// item appends one of a list: a name in quotes, and two parameters.
func item(b []byte, name, first string, a int64, second string, z int64) []byte {
	b = append(append(append(append(b, '"'), name...), '"'), first...)
	b = append(strconv.AppendInt(b, a, 10), second...)
	return strconv.AppendInt(b, z, 10)
}
