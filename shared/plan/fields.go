package plan

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// The header fields of draft-ietf-httpapi-ratelimit-headers-11, in canonical form (promises G16,
// A15):
//
//	RateLimit-Policy: "rate";q=20;w=2, "quota";q=100000;w=2678400
//	RateLimit: "rate";r=15;t=2, "quota";r=4711;t=86399
//
// They contain no partition key, because each key has its own limits. Callers of the management API
// have only a rate.
const (
	PolicyField = "Ratelimit-Policy"
	LimitField  = "Ratelimit"
)

const (
	day       = 24 * time.Hour
	leastDays = 28
)

// Policy contains the values of [PolicyField] for months of 28 to 31 days, which are windows of a
// monthly quota.
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

// throughput returns the quota and window of a bucket: w is the time in which the bucket fills,
// rounded up to seconds, and q is the number of requests that it gains in w. q/w thus never exceeds
// the rate.
func throughput(rate float64, burst int64) (q, w int64) {
	const rounding = 1e-6 // error of a product of two decimal fractions
	w = max(1, int64(math.Ceil(float64(burst)/rate-rounding)))
	return int64(rate*float64(w) + rounding), w
}

// Standing describes the remaining requests of a key.
type Standing struct {
	Tokens int64         // in the bucket
	Token  time.Duration // time per token
	Wait   time.Duration // time until a token, if the bucket is empty

	// Zero without a quota.
	Quota  int64
	Used   uint64
	Length time.Duration // of the period
	Resets time.Duration // time until the period ends
}

// Remaining returns the remaining requests of the quota.
func (s *Standing) Remaining() int64 {
	return max(s.Quota-int64(min(s.Used, math.MaxInt64)), 0)
}

// Set writes both header fields.
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

// window returns the time in which the bucket regains its current tokens. A client that spreads its
// requests over this time sends at the plan's rate. If the bucket is empty, window returns the time
// until the next token, which can be longer than the Retry-After of rate_limited (always 1).
func (s *Standing) window() int64 {
	if s.Tokens == 0 {
		return Seconds(s.Wait)
	}
	return Seconds(time.Duration(s.Tokens) * s.Token)
}

// Seconds returns d in seconds, rounded up, and at least 1.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

func item(b []byte, name, first string, a int64, second string, z int64) []byte {
	b = append(append(append(append(b, '"'), name...), '"'), first...)
	b = append(strconv.AppendInt(b, a, 10), second...)
	return strconv.AppendInt(b, z, 10)
}
