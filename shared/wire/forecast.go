package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/plan"
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

// ReadTime is the time of the read of a response, which can reuse an earlier read.
type ReadTime struct {
	AsOf time.Time `json:"as_of"`                     // time of the read
	Age  int       `json:"age_seconds" kind:"number"` // seconds since the read
}

// maxAge is the age in seconds up to which the time of a read is not shown.
const maxAge = 10

func (r ReadTime) readLines() []string {
	if r.Age <= maxAge {
		return nil
	}
	return []string{"As of " + r.AsOf.UTC().Format(time.TimeOnly) + " UTC."}
}

// PlanForecast compares the stored usage of a plan's keys with a quota.
type PlanForecast struct {
	Quota       *int64        `json:"quota" kind:"quota"`         // quota of the forecast; null for none
	QuotaPeriod *string       `json:"quota_period" kind:"period"` // null without a quota
	From        string        `json:"from" kind:"day"`            // first UTC day compared, which can be within a period
	Keys        int           `json:"keys" kind:"number"`         // active keys of the plan; others are not compared
	Exceeding   int           `json:"exceeding" kind:"number"`    // keys that used more than the quota in at least one period
	WouldExceed []QuotaExcess `json:"would_exceed"`               // exceeding keys, those with the most requests first; at most 100
	Rate        string        `json:"rate" kind:"forecast_rate"`  // effect of rate and burst; unknown, because usage is stored per day
	Incomplete  []string      `json:"incomplete" kind:"days"`     // days whose counts are too low because a stored counter is damaged
	ReadTime
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
	lines := append([]string{f.summary()}, f.readLines()...)
	if f.Keys == 0 {
		return lines
	}
	if f.cut() {
		lines = append(lines, "The first "+*f.QuotaPeriod+" is incomplete.")
	}
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
		return "No active keys use this plan."
	case f.Quota == nil || f.QuotaPeriod == nil:
		return "Without a quota, requests per period are not limited."
	}
	return fmt.Sprintf("Since %s, %d of %d keys used more than this quota in at least one %s.", f.From, f.Exceeding, f.Keys, *f.QuotaPeriod)
}

// cut reports whether the first period starts before the first day compared.
func (f PlanForecast) cut() bool {
	from, err := time.Parse(time.DateOnly, f.From)
	return err == nil && f.QuotaPeriod != nil && plan.Period(*f.QuotaPeriod).Start(from).Before(from)
}

// GateForecast contains the keys that can access an app while its gate is on.
type GateForecast struct {
	Keys     AppKeys  `json:"keys"`
	Observed Observed `json:"observed"` // requests that the gate would deny
	ReadTime
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
	lines := append([]string{access}, f.readLines()...)
	switch {
	case k.NeverSeen == 0:
	case k.Usable == 1:
		lines = append(lines, "This key has no stored requests.")
	case k.NeverSeen == 1:
		lines = append(lines, "1 of these keys has no stored requests.")
	default:
		lines = append(lines, fmt.Sprintf("%d of these keys have no stored requests.", k.NeverSeen))
	}
	var denied []string
	if k.Disabled > 0 {
		denied = append(denied, counted(k.Disabled, "disabled key"))
	}
	if k.Expired > 0 {
		denied = append(denied, counted(k.Expired, "expired key"))
	}
	if len(denied) > 0 {
		lines = append(lines, strings.Join(denied, " and ")+" will be denied.")
	}
	return append(lines, f.Observed.Message)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
