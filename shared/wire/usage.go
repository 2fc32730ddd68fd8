package wire

import "time"

// Usage is a key's usage in a window (promise U4).
type Usage struct {
	KeyID string `json:"key_id" kind:"key_id"`
	UsageReport
	LastSeen *string   `json:"last_seen" kind:"day"` // last day with requests, even outside the window; null if no day is stored
	AsOf     time.Time `json:"as_of"`                // time of the oldest counts in the response
}

// UsageReport contains the counts of a window. Dates are UTC calendar days, YYYY-MM-DD.
type UsageReport struct {
	From          string      `json:"from" kind:"day"` // first day of the report, not before the first stored day
	To            string      `json:"to" kind:"day"`   // last day of the report, not after today
	RetentionDays int         `json:"retention_days" kind:"retention"`
	Totals        UsageTotals `json:"totals"`                 // sums of all days
	Days          []UsageDay  `json:"days"`                   // all days in ascending order, including days without requests
	Incomplete    []string    `json:"incomplete" kind:"days"` // days whose counts are too low because a stored counter is damaged
}

// EnvironmentUsage is the usage of all keys of an environment, with the keys that need attention.
type EnvironmentUsage struct {
	Environment string `json:"environment" kind:"environment"`
	UsageReport
	Keys      KeyCounts      `json:"keys"`
	Busiest   []KeyTotals    `json:"busiest"`   // keys with the most requests, at most 10
	Attention []KeyAttention `json:"attention"` // keys that need attention, most urgent first; at most 100, or 12 in an environment with more than 60 keys
	Checkers  CheckerCounts  `json:"checkers"`

	LeakedTokens []LeakedToken `json:"leaked_tokens"` // service tokens of the project reported as leaked in the last seven days, latest first

	AsOf time.Time `json:"as_of"` // time of the read; counts that checkers have not written yet are missing
}

// CheckerCounts are the numbers of checkers in the installation.
type CheckerCounts struct {
	Proving int `json:"proving" kind:"number"` // number of checkers with a current proof of freshness
	Denying int `json:"denying" kind:"number"` // number of checkers that have no current proof: they deny all requests or have stopped
}

// KeyCounts are the numbers of an environment's keys by status.
type KeyCounts struct {
	Active   int `json:"active" kind:"number"`
	Disabled int `json:"disabled" kind:"number"`
	Expired  int `json:"expired" kind:"number"`
	Revoked  int `json:"revoked" kind:"number"`
}

// NamedKey identifies a key.
type NamedKey struct {
	KeyID  string `json:"key_id" kind:"key_id"`
	Prefix string `json:"prefix" kind:"prefix"`
	Name   string `json:"name" kind:"key_name"` // name of the key; "" if unnamed
}

// KeyTotals contains the counts of a key in a window.
type KeyTotals struct {
	NamedKey
	Totals UsageTotals `json:"totals"`
}

// KeyUsage is the recent usage of a key.
type KeyUsage struct {
	Week  []UsageDay `json:"week"`  // last seven days in ascending order
	Quota *QuotaUse  `json:"quota"` // null without a quota
	AsOf  time.Time  `json:"as_of"` // time of the oldest counts in the response
}

// QuotaUse is the used part of a quota in the current period.
type QuotaUse struct {
	Quota    int64     `json:"quota" kind:"quota"`
	Period   string    `json:"period" kind:"period"`
	Used     uint64    `json:"used" kind:"count"` // allowed requests in the period
	ResetsAt time.Time `json:"resets_at"`         // end of the period
}

// UsageTotals are the numbers of requests by result.
type UsageTotals struct {
	Allowed     uint64 `json:"allowed" kind:"count"`
	RateDenied  uint64 `json:"rate_denied" kind:"count"`  // requests denied because of the plan's rate
	QuotaDenied uint64 `json:"quota_denied" kind:"count"` // requests denied because of the plan's quota
}

// Requests returns the number of all requests.
func (t UsageTotals) Requests() uint64 { return t.Allowed + t.Refused() }

// Refused returns the number of denied requests.
func (t UsageTotals) Refused() uint64 { return t.RateDenied + t.QuotaDenied }

// UsageDay is the usage of a day.
type UsageDay struct {
	Date string `json:"date" kind:"day"`
	UsageTotals
}
