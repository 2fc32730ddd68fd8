package usage

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// QuotaPeriod is one period of a key's quota.
type QuotaPeriod struct {
	Prefix apikey.Prefix
	Period plan.Period
	First  Day
}

// QuotaPeriodAt returns the term that contains t.
func QuotaPeriodAt(p apikey.Prefix, period plan.Period, t time.Time) QuotaPeriod {
	return QuotaPeriod{Prefix: p, Period: period, First: DayOf(period.Start(t))}
}

// ID returns the term's document ID, such as "2026-03-01.month.k7mfuxqh".
func (t QuotaPeriod) ID() string {
	return t.First.String() + "." + string(t.Period) + "." + string(t.Prefix)
}

// Span returns the start of the term and the start of the next term.
func (t QuotaPeriod) Span() (began, ends time.Time) {
	began = t.First.Start()
	return began, t.Period.End(began)
}

// Ended is the number of requests that an ended process spent of a term.
type Ended struct {
	QuotaPeriod

	Process string
	Spent   int64
}
