package wire

// Usage is a key's usage in a window (specification section 2.3; decisions
// section 5). Dates are UTC calendar days, YYYY-MM-DD.
type Usage struct {
	KeyID         string      `json:"key_id"`
	From          string      `json:"from"` // the effective one
	To            string      `json:"to"`
	RetentionDays int         `json:"retention_days"`
	Totals        UsageTotals `json:"totals"`
	LastSeen      *string     `json:"last_seen"` // the last kept day with any traffic, in the window or not
	Days          []UsageDay  `json:"days"`      // one for each day of the window, zeros too, ascending
}

// UsageTotals count requests by outcome.
type UsageTotals struct {
	Allowed     uint64 `json:"allowed"`
	RateDenied  uint64 `json:"rate_denied"`
	QuotaDenied uint64 `json:"quota_denied"`
}

// UsageDay is one day's usage.
type UsageDay struct {
	Date string `json:"date"`
	UsageTotals
}
