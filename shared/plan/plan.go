// Package plan defines usage plans: the limits for each of a plan's keys (promises P1 to P6).
package plan

import (
	"cmp"
	"crypto/rand"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

// ID identifies a plan within its environment, such as "plan-starter".
type ID string

// Limits of plans (promise P1).
const (
	MinRate  = 0.01
	MaxRate  = 100_000
	MaxBurst = 1_000_000
	MaxQuota = 1_000_000_000_000

	MaxPlans = 1_000 // per environment
	maxName  = 63
)

// Limits are the limits of each key of a plan.
type Limits struct {
	Rate   float64 `firestore:"rate"`         // requests per second
	Burst  int64   `firestore:"burst"`        // requests at once, 1 to [MaxBurst]
	Quota  int64   `firestore:"quota"`        // requests per Period, 1 to [MaxQuota]; 0 for no quota
	Period Period  `firestore:"quota_period"` // "" without a quota
	Hard   bool    `firestore:"-"`            // the quota is never exceeded; false without a quota
}

// Plan is a named set of limits in one environment.
type Plan struct {
	ID        ID     `firestore:"id"`
	Namespace string `firestore:"namespace"`
	Name      string `firestore:"name"`
	Limits
	CreatedAt time.Time `firestore:"created_at"`
	UpdatedAt time.Time `firestore:"updated_at"`
}

// Check returns all of invalid_rate, invalid_burst and invalid_quota that apply.
func (l Limits) Check() error {
	var rate, burst error
	if math.IsNaN(l.Rate) || l.Rate < MinRate || l.Rate > MaxRate {
		rate = problem.FromCode(problem.InvalidRate)
	}
	if l.Burst < 1 || l.Burst > MaxBurst {
		burst = problem.FromCode(problem.InvalidBurst)
	}
	return problem.Join(rate, burst, l.checkQuota())
}

func (l Limits) checkQuota() error {
	switch {
	case (l.Quota == 0) != (l.Period == ""):
		return problem.New(problem.InvalidQuota, "Set quota and quota_period together.")
	case l.Quota < 0 || l.Quota > MaxQuota:
		return problem.FromCode(problem.InvalidQuota)
	case l.Period != "" && !l.Period.Valid():
		return problem.ForField("quota_period", problem.New(problem.InvalidQuota, "quota_period must be day, week or month."))
	case l.Hard:
		return CheckMode(Hard, l.Quota)
	}
	return nil
}

// Mode returns the mode of the quota; "" without a quota.
func (l Limits) Mode() Mode {
	switch {
	case l.Quota == 0:
		return ""
	case l.Hard:
		return Hard
	}
	return Soft
}

// CheckName returns invalid_name if the name is empty, too long, or contains characters that do not
// print. For example, a mark for right-to-left text would show a different name.
func CheckName(name string) error {
	bad := func(c rune) bool { return !unicode.IsPrint(c) }
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, bad) {
		return problem.New(problem.InvalidName, "name must have 1 to %d printable characters.", maxName)
	}
	if strings.TrimSpace(name) == "" {
		return problem.New(problem.InvalidName, "name must contain at least one character that is not a space.")
	}
	return nil
}

// IDFor returns the ID of a new plan: "plan-" and the name's slug, such as "plan-starter-eu" for
// "Starter (EU)". If the name contains no a-z and digits, the ID is random.
func IDFor(name string) ID {
	return ID("plan-" + cmp.Or(slug(name), strings.ToLower(rand.Text()[:randomID])))
}

const randomID = 10

// slug replaces all characters except letters a-z and digits by single hyphens.
func slug(name string) string {
	var b strings.Builder
	gap := false
	for _, c := range strings.ToLower(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		b.WriteRune(c)
	}
	return b.String()
}

// ValidID reports whether s is a well-formed plan ID.
func ValidID(s string) bool {
	rest, ok := strings.CutPrefix(s, "plan-")
	return ok && rest != "" && len(rest) <= maxName && slug(rest) == rest
}

// ParseID parses a plan ID. It returns not_found for a malformed ID.
func ParseID(s string) (ID, error) {
	if !ValidID(s) {
		return "", problem.New(problem.NotFound, "The plan does not exist.")
	}
	return ID(s), nil
}

// Period is the period of a quota: a UTC calendar day, week (from Monday) or month (promise P6).
type Period string

// The periods of quotas.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Periods returns all periods, the shortest first.
func Periods() []Period { return []Period{Day, Week, Month} }

// Valid reports whether p is a period.
func (p Period) Valid() bool { return slices.Contains(Periods(), p) }

// Mode specifies how exactly several replicas enforce a quota.
type Mode string

// The modes of quotas.
const (
	Soft Mode = "soft" // bounded overuse, until replicas exchange counts
	Hard Mode = "hard" // never exceeded
)

// Modes returns all modes, the default first.
func Modes() []Mode { return []Mode{Soft, Hard} }

// Valid reports whether m is a mode.
func (m Mode) Valid() bool { return slices.Contains(Modes(), m) }

// CheckMode returns invalid_quota for an unknown mode, or if quota is 0.
func CheckMode(m Mode, quota int64) error {
	switch {
	case !m.Valid():
		return problem.ForField("quota_mode", problem.New(problem.InvalidQuota, "quota_mode must be soft or hard."))
	case quota == 0:
		return problem.ForField("quota_mode", problem.New(problem.InvalidQuota, "quota_mode requires a quota."))
	}
	return nil
}

// Start returns the start of the period that contains t.
func (p Period) Start(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	switch p {
	case Week:
		sinceMonday := (int(t.UTC().Weekday()) + 6) % 7
		return time.Date(y, m, d-sinceMonday, 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case Day:
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// End returns the end of the period that contains t, which is the start of the next one.
func (p Period) End(t time.Time) time.Time {
	start := p.Start(t)
	switch p {
	case Week:
		return start.AddDate(0, 0, 7)
	case Month:
		return start.AddDate(0, 1, 0)
	case Day:
	}
	return start.AddDate(0, 0, 1)
}
