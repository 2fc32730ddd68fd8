package usage

import "github.com/sluicegate/sluice/shared/plan"

// Excess is the use of a quota by a key that exceeds it.
type Excess struct {
	Periods int    // number of periods in which the key exceeds the quota
	First   Day    // first day of the period with the most requests; of equal periods, the latest
	Used    uint64 // allowed requests in that period
}

// Excess compares the allowed requests of each stored period with the quota of l. It ignores days
// after today. Days that are no longer stored count as days without requests.
func (h History) Excess(l plan.Limits, today Day) (e Excess) {
	if l.Quota == 0 {
		return e
	}
	quota, days := uint64(l.Quota), h.Since(EarliestKept(today))
	for len(days) > 0 && days[0].Day <= today {
		began := l.Period.Start(days[0].Day.Start())
		last, used := min(DayOf(l.Period.End(began))-1, today), uint64(0)
		for len(days) > 0 && days[0].Day <= last {
			used += days[0].Totals.Allowed
			days = days[1:]
		}
		if used <= quota {
			continue
		}
		e.Periods++
		if used >= e.Used {
			e.First, e.Used = DayOf(began), used
		}
	}
	return e
}
