package event

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// Expiry is one moment of a key's life that comes by itself.
type Expiry struct {
	Name string // in ids and marks, e.g. "expiring-14"
	Type Type
	Days int // before the expiry
}

// Expiries lists the moments, in the order in which they come.
func Expiries() []Expiry {
	return []Expiry{{"expiring-14", KeyExpiring, 14}, {"expiring-1", KeyExpiring, 1}, {"expired", KeyExpired, 0}}
}

// Before is how long before the expiry the moment is.
func (e Expiry) Before() time.Duration { return time.Duration(e.Days) * 24 * time.Hour }

// Of announces that the moment has come for a key. The id is of the key, the moment and the
// expiry, which may be changed.
func (e Expiry) Of(k apikey.Key) Announcement {
	n := OfKey(e.Type, k, k.ExpiresAt.Add(-e.Before()))
	n.ID = fmt.Sprintf("%s.%s.%d", k.ID(), e.Name, k.ExpiresAt.UnixMicro())
	n.Key.Within = e.Days
	return n
}

// Percents lists how much of a quota has to be used up for somebody to be told.
func Percents() []int { return []int{80, 100} }

// Reached is the highest of [Percents] that used is of a quota; 0 for none, and without a quota.
func Reached(used uint64, quota int64) int {
	reached := 0
	for _, percent := range Percents() {
		if quota > 0 && used >= needed(quota, percent) {
			reached = percent
		}
	}
	return reached
}

// needed is a percentage of a quota, rounded up, so that 80 % of 1 are 1.
func needed(quota int64, percent int) uint64 {
	q, p := uint64(quota), uint64(percent) //nolint:gosec // both are positive, and a quota is far below 2^57
	return q/100*p + (q%100*p+99)/100
}

// OfQuota announces that a percentage of a quota is used up in the term of this id. The event
// is about the key, so its subject is that.
func OfQuota(k apikey.Key, l plan.Limits, percent int, used int64, term string, ends, at time.Time) Announcement {
	return Announcement{
		ID: fmt.Sprintf("%s.quota-%d.%s", k.ID(), percent, term), Type: QuotaReached, Subject: string(k.ID()),
		Project: k.Project, Environment: k.Environment, At: at,
		Quota: &Quota{Key: keyOf(k), Percent: percent, Quota: l.Quota, Used: used, Period: l.Period, Mode: l.Mode(), ResetAt: ends},
	}
}
