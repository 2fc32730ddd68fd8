// Package usage holds what is counted of each key, and how it is reported
// (specification section 2.3; decisions section 5).
//
// A key's requests are counted per UTC calendar day in three totals. Each
// checker process, a source, counts for itself and writes absolute totals, so
// that writing twice changes nothing; the truth is the sum over sources
// (architecture section 4, "Counting").
package usage

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

// Totals count a key's requests by outcome.
type Totals struct {
	Allowed     uint64
	RateDenied  uint64
	QuotaDenied uint64
}

// Plus adds two totals.
func (t Totals) Plus(o Totals) Totals {
	return Totals{t.Allowed + o.Allowed, t.RateDenied + o.RateDenied, t.QuotaDenied + o.QuotaDenied}
}

// Zero tells whether nothing was counted.
func (t Totals) Zero() bool { return t == Totals{} }

// Day is a UTC calendar day, counted from 1970-01-01 as 0.
type Day int32

const dayLayout = "2006-01-02"

// DayOf gives the day that holds t.
func DayOf(t time.Time) Day {
	s := t.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return Day(d)
}

// Start is the day's first instant.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String writes the day as YYYY-MM-DD.
func (d Day) String() string { return d.Start().Format(dayLayout) }

// ParseDay reads YYYY-MM-DD. Problem: invalid_date.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(dayLayout, s)
	if err != nil || len(s) != len(dayLayout) {
		return 0, problem.Of(problem.InvalidDate)
	}
	return DayOf(t), nil
}

// Source names one checker process: random, fresh at each start.
type Source string

// Shards is how many documents a source's day is spread over: the most that one
// flush writes, however many keys and requests there were.
const Shards = 64

// Counter is one document of counters: what one source has counted of one shard
// of the keys in one day, as absolute totals that only ever grow.
type Counter struct {
	Day    Day
	Source Source
	Shard  int // 0 to [Shards]-1; which keys share a shard is the source's own affair
	Counts Packed
}

// Count is one key's totals within a Counter.
type Count struct {
	Prefix apikey.Prefix
	Totals Totals
}
