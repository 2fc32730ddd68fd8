package wire

import (
	"fmt"
	"strings"
	"time"
)

// ForecastPlan is the body of POST …/plans/{plan_id}/forecast: limits, as in UpdatePlan.
type ForecastPlan struct {
	Rate        Optional[float64] `json:"rate,omitzero" nullable:"false" kind:"rate"`   // requests per second
	Burst       Optional[int64]   `json:"burst,omitzero" nullable:"false" kind:"burst"` // maximum number of requests at once
	Quota       Optional[int64]   `json:"quota,omitzero" kind:"quota"`                  // requests per period
	QuotaPeriod Optional[string]  `json:"quota_period,omitzero" kind:"period"`
	QuotaMode   Optional[string]  `json:"quota_mode,omitzero" kind:"quota_mode"`
}

// Update returns the change that the forecast is for.
func (f ForecastPlan) Update() UpdatePlan {
	return UpdatePlan{Rate: f.Rate, Burst: f.Burst, Quota: f.Quota, QuotaPeriod: f.QuotaPeriod, QuotaMode: f.QuotaMode}
}

// Forecast returns the body of a forecast of the change. It does not contain the name.
func (u UpdatePlan) Forecast() ForecastPlan {
	return ForecastPlan{Rate: u.Rate, Burst: u.Burst, Quota: u.Quota, QuotaPeriod: u.QuotaPeriod, QuotaMode: u.QuotaMode}
}

// Unknown is the value of a forecast for which there are no data.
const Unknown = "unknown"

// PlanForecast compares the stored usage of a plan's keys with a quota.
type PlanForecast struct {
	Quota       *int64        `json:"quota" kind:"quota"`         // quota of the forecast; null for none
	QuotaPeriod *string       `json:"quota_period" kind:"period"` // null without a quota
	From        string        `json:"from" kind:"day"`            // first UTC day compared, which can be within a period
	Keys        int           `json:"keys" kind:"number"`         // keys of the plan, without revoked keys
	Exceeding   int           `json:"exceeding" kind:"number"`    // keys that used more than the quota in at least one period
	WouldExceed []QuotaExcess `json:"would_exceed"`               // exceeding keys, those with the most requests first; at most 100
	Rate        string        `json:"rate" kind:"forecast_rate"`  // effect of rate and burst; unknown, because usage is stored per day
	Incomplete  []string      `json:"incomplete" kind:"days"`     // days whose counts are too low because a stored counter is damaged
	AsOf        time.Time     `json:"as_of"`                      // time of the read
}

// QuotaExcess is a key that used more than a quota.
type QuotaExcess struct {
	NamedKey
	PeriodStart string `json:"period_start" kind:"day"` // first day of the period with the most requests
	Used        uint64 `json:"used" kind:"count"`       // allowed requests in that period
	Quota       int64  `json:"quota" kind:"quota"`
	Periods     int    `json:"periods" kind:"number"` // number of periods in which the key used more than the quota
}

// Lines returns sentences about the forecast, without its list.
func (f PlanForecast) Lines() []string {
	lines := []string{f.summary()}
	if f.Rate == Unknown {
		lines = append(lines, "The effect of rate and burst is unknown, because usage is stored per day.")
	}
	if len(f.Incomplete) > 0 {
		lines = append(lines, "Counts of these days are too low because a stored counter is damaged: "+strings.Join(f.Incomplete, ", ")+".")
	}
	return lines
}

func (f PlanForecast) summary() string {
	switch {
	case f.Keys == 0:
		return "No keys use this plan."
	case f.Quota == nil || f.QuotaPeriod == nil:
		return "Without a quota, requests per period are not limited."
	}
	return fmt.Sprintf("Keys that used more than this quota in a %s since %s: %d of %d.", *f.QuotaPeriod, f.From, f.Exceeding, f.Keys)
}

// GateForecast contains the keys that can access an app while its gate is on.
type GateForecast struct {
	Keys     AppKeys   `json:"keys"`
	Observed Observed  `json:"observed"` // requests that the gate would deny
	AsOf     time.Time `json:"as_of"`    // time of the read
}

// AppKeys are the numbers of keys whose scope includes an app, without revoked keys.
type AppKeys struct {
	Usable    int `json:"usable" kind:"number"`
	Disabled  int `json:"disabled" kind:"number"`
	Expired   int `json:"expired" kind:"number"`
	NeverSeen int `json:"never_seen" kind:"number"` // usable keys without requests to any app in the stored days
}

// Observed describes the requests that a gate would deny.
type Observed struct {
	State   string `json:"state" kind:"observed"` // none if no requests were observed
	Message string `json:"message"`
}

// NotObserved is the state without observed requests.
const NotObserved = "none"

// Lines returns sentences about turning on the gate of an app.
func (f GateForecast) Lines(app string) []string {
	k := f.Keys
	access := "No key can access " + app + ", so all requests will be denied."
	if k.Usable > 0 {
		access = fmt.Sprintf("%s can access %s. Requests without a valid key will be denied.", counted(k.Usable, "key"), app)
	}
	lines := []string{access}
	if k.NeverSeen > 0 {
		lines = append(lines, fmt.Sprintf("%d of them made no requests to any app in the stored days.", k.NeverSeen))
	}
	if k.Disabled+k.Expired > 0 {
		lines = append(lines, fmt.Sprintf("%s and %s will be denied.", counted(k.Disabled, "disabled key"), counted(k.Expired, "expired key")))
	}
	return append(lines, f.Observed.Message)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
