package wire

// Plan is a usage plan (specification section 2.1).
type Plan struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Rate        float64 `json:"rate"`         // requests per second
	Burst       int64   `json:"burst"`        // requests
	Quota       *int64  `json:"quota"`        // requests per period; null is none
	QuotaPeriod *string `json:"quota_period"` // day, week or month; null without a quota
}

// CreatePlan is the body of POST …/plans. name, rate and burst are required.
type CreatePlan struct {
	Name        *string  `json:"name,omitempty"`
	Rate        *float64 `json:"rate,omitempty"`
	Burst       *int64   `json:"burst,omitempty"`
	Quota       *int64   `json:"quota,omitempty"`
	QuotaPeriod *string  `json:"quota_period,omitempty"`
}

// UpdatePlan is the body of PATCH …/plans/{plan_id}. The id stays when the name
// changes. null takes the quota away (both fields, or either).
type UpdatePlan struct {
	Name        Optional[string]  `json:"name,omitzero"`
	Rate        Optional[float64] `json:"rate,omitzero"`
	Burst       Optional[int64]   `json:"burst,omitzero"`
	Quota       Optional[int64]   `json:"quota,omitzero"`
	QuotaPeriod Optional[string]  `json:"quota_period,omitzero"`
}
