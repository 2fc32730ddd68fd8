package event

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// Expiry is an event that a key's expiry causes.
type Expiry struct {
	Name string // in IDs and stored documents, such as "expiring-14"
	Type Type
	Days int // before the expiry
}

// Expiries returns the events in the order in which they occur.
func Expiries() []Expiry {
	return []Expiry{{"expiring-14", KeyExpiring, 14}, {"expiring-1", KeyExpiring, 1}, {"expired", KeyExpired, 0}}
}

// Before returns the time between the event and the expiry.
func (e Expiry) Before() time.Duration { return time.Duration(e.Days) * 24 * time.Hour }

// Of announces the event for a key. The ID contains the expiry, which may change.
func (e Expiry) Of(k apikey.Key) OutboxEntry {
	n := OfKey(e.Type, k, k.ExpiresAt.Add(-e.Before()))
	n.ID = fmt.Sprintf("%s.%s.%d", k.ID(), e.Name, k.ExpiresAt.UnixMicro())
	n.Key.Within = e.Days
	return n
}

// Thresholds returns the percentages of a quota that are announced.
func Thresholds() []int { return []int{80, 100} }

// ThresholdReached returns the highest of [Thresholds] that the use has reached; 0 if none.
func ThresholdReached(used uint64, quota int64) int {
	reached := 0
	for _, percent := range Thresholds() {
		if quota > 0 && used >= needed(quota, percent) {
			reached = percent
		}
	}
	return reached
}

// needed returns a percentage of a quota, rounded up: 80% of 1 is 1.
func needed(quota int64, percent int) uint64 {
	q, p := uint64(quota), uint64(percent) //nolint:gosec // both are positive, and a quota is far below 2^57
	return q/100*p + (q%100*p+99)/100
}

// OfQuota announces that the use of a quota has reached a percentage in a term.
func OfQuota(k apikey.Key, l plan.Limits, percent int, used int64, term string, ends, at time.Time) OutboxEntry {
	return OutboxEntry{
		ID: fmt.Sprintf("%s.quota-%d.%s", k.ID(), percent, term), Type: QuotaReached, Subject: string(k.ID()),
		Project: k.Project, Environment: k.Environment, At: at,
		Quota: &Quota{Key: keyOf(k), Percent: percent, Quota: l.Quota, Used: used, Period: l.Period, Mode: l.Mode(), ResetAt: ends},
	}
}
