package plan

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// The header fields of draft-ietf-httpapi-ratelimit-headers-11, in canonical form (promises
// G16, A15):
//
//	RateLimit-Policy: "rate";q=20;w=2, "quota";q=100000;w=2678400
//	RateLimit: "rate";r=15;t=2, "quota";r=4711;t=86399
//
// The policy describes the plan; the limit describes what a key has left. There is no partition
// key: each key has its own limits. Callers of the management API have a rate and no quota.
const (
	PolicyField = "Ratelimit-Policy"
	LimitField  = "Ratelimit"
)

const (
	day       = 24 * time.Hour
	leastDays = 28 // of a month
)

// Policy holds the values of [PolicyField] for months of 28 to 31 days: a monthly quota has a
// window of the month's length.
type Policy [4][]string

// PolicyOf returns the policy of limits.
func PolicyOf(l Limits) Policy {
	q, w := throughput(l.Rate, l.Burst)
	rate := item(nil, "rate", ";q=", q, ";w=", w)
	var p Policy
	for i := range p {
		text := rate
		switch l.Period {
		case Day:
			text = quota(rate, l.Quota, day)
		case Week:
			text = quota(rate, l.Quota, 7*day)
		case Month:
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

// Standing describes what a key has left of its limits.
type Standing struct {
	Tokens int64         // in the bucket
	Token  time.Duration // in which the bucket gains a token
	Wait   time.Duration // until the bucket has a token, if it is empty

	// Zero without a quota.
	Quota  int64
	Used   uint64        // in the period
	Length time.Duration // of the period
	Resets time.Duration // until it ends
}

// Remaining returns the requests left in the quota.
func (s *Standing) Remaining() int64 {
	return max(s.Quota-int64(min(s.Used, math.MaxInt64)), 0)
}

// Set writes both fields to a header.
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
