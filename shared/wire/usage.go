package wire

// Usage is a key's usage in a window (promise U4). Dates are UTC calendar days,
// YYYY-MM-DD.
type Usage struct {
	KeyID         string      `json:"key_id" kind:"key_id"`
	From          string      `json:"from" kind:"day"` // the effective one: not before the first kept day
	To            string      `json:"to" kind:"day"`   // the effective one: not after today
	RetentionDays int         `json:"retention_days" kind:"retention"`
	Totals        UsageTotals `json:"totals"`               // over the days of the window
	LastSeen      *string     `json:"last_seen" kind:"day"` // the last kept day with any traffic, in the window or not
	Days          []UsageDay  `json:"days"`                 // one for each day of the window, zeros too, ascending
}

// UsageTotals count requests by outcome.
type UsageTotals struct {
	Allowed     uint64 `json:"allowed" kind:"count"`      // requests that got through
	RateDenied  uint64 `json:"rate_denied" kind:"count"`  // requests over the plan's rate
	QuotaDenied uint64 `json:"quota_denied" kind:"count"` // requests over the plan's quota
}

// UsageDay is one day's usage.
type UsageDay struct {
	Date string `json:"date" kind:"day"`
	UsageTotals
}
