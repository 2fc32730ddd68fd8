package wire

import "time"

// Usage is a key's usage in a window (promise U4).
type Usage struct {
	KeyID string `json:"key_id" kind:"key_id"`
	UsageReport
	LastSeen *string   `json:"last_seen" kind:"day"` // the last kept day with any traffic, in the window or not
	AsOf     time.Time `json:"as_of"`                // when the oldest checker that responded read its counts
}

// UsageReport is what was counted in a window. Dates are UTC calendar days, YYYY-MM-DD.
type UsageReport struct {
	From          string      `json:"from" kind:"day"` // the effective one: not before the first kept day
	To            string      `json:"to" kind:"day"`   // the effective one: not after today
	RetentionDays int         `json:"retention_days" kind:"retention"`
	Totals        UsageTotals `json:"totals"`                 // over the days of the window
	Days          []UsageDay  `json:"days"`                   // one for each day of the window, zeros too, ascending
	Incomplete    []string    `json:"incomplete" kind:"days"` // days of the window whose counts are too low, because a stored counter is damaged
}

// EnvironmentUsage is the usage of all keys of an environment in a window, and which of
// them somebody should look at.
type EnvironmentUsage struct {
	Environment string `json:"environment" kind:"environment"`
	UsageReport
	Keys      KeyCounts      `json:"keys"`
	Busiest   []KeyTotals    `json:"busiest"`   // the keys with the most requests in the window, ten at most
	Attention []KeyAttention `json:"attention"` // the most urgent first, a hundred at most; twelve with more than 60 keys
	Checkers  CheckerCounts  `json:"checkers"`

	// LeakedTokens are the project's service tokens that were reported as leaked in the last
	// seven days, the latest first.
	LeakedTokens []LeakedToken `json:"leaked_tokens"`

	AsOf time.Time `json:"as_of"` // when it was read; totals lack the counts that checkers have not written yet
}

// CheckerCounts count the installation's checkers.
type CheckerCounts struct {
	Proving int `json:"proving" kind:"number"` // can prove that what they decide by is fresh
	Denying int `json:"denying" kind:"number"` // cannot, and let nothing through, or are gone
}

// KeyCounts count an environment's keys by status.
type KeyCounts struct {
	Active   int `json:"active" kind:"number"`
	Disabled int `json:"disabled" kind:"number"`
	Expired  int `json:"expired" kind:"number"`
	Revoked  int `json:"revoked" kind:"number"`
}

// NamedKey says which key is meant.
type NamedKey struct {
	KeyID  string `json:"key_id" kind:"key_id"`
	Prefix string `json:"prefix" kind:"prefix"`
	Name   string `json:"name" kind:"key_name"` // "" is none
}

// KeyTotals is a key's part of a window.
type KeyTotals struct {
	NamedKey
	Totals UsageTotals `json:"totals"`
}

// KeyUsage is what was counted of a key lately.
type KeyUsage struct {
	Week  []UsageDay `json:"week"`  // the last seven days, ascending
	Quota *QuotaUse  `json:"quota"` // null without a quota
	AsOf  time.Time  `json:"as_of"` // when the oldest checker that responded read its counts
}

// QuotaUse is how far a quota is used up in its present period.
type QuotaUse struct {
	Quota    int64     `json:"quota" kind:"quota"`
	Period   string    `json:"period" kind:"period"`
	Used     uint64    `json:"used" kind:"count"` // requests that got through in the period
	ResetsAt time.Time `json:"resets_at"`         // when the period ends
}

// UsageTotals count requests by outcome.
type UsageTotals struct {
	Allowed     uint64 `json:"allowed" kind:"count"`      // requests that got through
	RateDenied  uint64 `json:"rate_denied" kind:"count"`  // requests over the plan's rate
	QuotaDenied uint64 `json:"quota_denied" kind:"count"` // requests over the plan's quota
}

// Requests is how many there were.
func (t UsageTotals) Requests() uint64 { return t.Allowed + t.Refused() }

// Refused is how many of them did not get through.
func (t UsageTotals) Refused() uint64 { return t.RateDenied + t.QuotaDenied }

// UsageDay is one day's usage.
type UsageDay struct {
	Date string `json:"date" kind:"day"`
	UsageTotals
}
