package usage

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// Term is one period of one key's quota.
type Term struct {
	Prefix apikey.Prefix
	Period plan.Period
	First  Day // of the period
}

// TermOf gives the term that holds t.
func TermOf(p apikey.Prefix, period plan.Period, t time.Time) Term {
	return Term{Prefix: p, Period: period, First: DayOf(period.Start(t))}
}

// ID names the term in the store, e.g. "2026-03-01.month.k7mfuxqh".
func (t Term) ID() string {
	return t.First.String() + "." + string(t.Period) + "." + string(t.Prefix)
}

// Span gives the term's first instant, and the first one after it.
func (t Term) Span() (began, ends time.Time) {
	began = t.First.Start()
	return began, t.Period.End(began)
}

// Ended is the number of requests that a process spent of a term before it ended.
type Ended struct {
	Term

	Process string
	Spent   int64 // requests
}
