package wire

// Plan is a usage plan (promise P1).
type Plan struct {
	ID          string  `json:"id" kind:"plan_id"`
	Name        string  `json:"name" kind:"plan_name"`
	Rate        float64 `json:"rate" kind:"rate"`             // requests per second
	Burst       int64   `json:"burst" kind:"burst"`           // maximum number of requests at once
	Quota       *int64  `json:"quota" kind:"quota"`           // requests per period; null for no quota
	QuotaPeriod *string `json:"quota_period" kind:"period"`   // UTC calendar period, weeks from Monday; null without a quota
	QuotaMode   *string `json:"quota_mode" kind:"quota_mode"` // quota mode: a limited number of requests can exceed a soft quota, none a hard quota; null without a quota

	Effect
}

// CreatePlan is the body of POST …/plans.
type CreatePlan struct {
	Name        *string  `json:"name,omitempty" required:"true" kind:"plan_name"`
	Rate        *float64 `json:"rate,omitempty" required:"true" kind:"rate"`   // requests per second
	Burst       *int64   `json:"burst,omitempty" required:"true" kind:"burst"` // maximum number of requests at once
	Quota       *int64   `json:"quota,omitempty" kind:"quota"`                 // requests per period; requires quota_period
	QuotaPeriod *string  `json:"quota_period,omitempty" kind:"period"`
	QuotaMode   *string  `json:"quota_mode,omitempty" kind:"quota_mode"` // as in Plan; requires quota; default soft
}

// UpdatePlan is the body of PATCH …/plans/{plan_id}. A new name does not change the ID. A null
// quota or quota_period removes quota, period and mode.
type UpdatePlan struct {
	Name        Optional[string]  `json:"name,omitzero" nullable:"false" kind:"plan_name"`
	Rate        Optional[float64] `json:"rate,omitzero" nullable:"false" kind:"rate"`   // requests per second
	Burst       Optional[int64]   `json:"burst,omitzero" nullable:"false" kind:"burst"` // maximum number of requests at once
	Quota       Optional[int64]   `json:"quota,omitzero" kind:"quota"`                  // requests per period
	QuotaPeriod Optional[string]  `json:"quota_period,omitzero" kind:"period"`
	QuotaMode   Optional[string]  `json:"quota_mode,omitzero" kind:"quota_mode"` // as in Plan; requires a quota; null for soft
}
