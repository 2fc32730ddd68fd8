// Package plan holds usage plans: the limits that the keys of a plan share the
// rules of (promises P1 to P6).
//
// A plan limits each of its keys on its own: rate and burst shape the key's
// traffic (a token bucket), and the optional quota caps how many requests it may
// make in a UTC calendar day, week or month.
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

// ID names a plan within its environment, e.g. "plan-starter".
type ID string

// Ranges of the limits (promise P1).
const (
	MinRate  = 0.01    // requests per second
	MaxRate  = 100_000 // requests per second
	MaxBurst = 1_000_000
	MaxQuota = 1_000_000_000_000

	MaxPlans = 1_000 // in an environment
	maxName  = 63    // characters
)

// Limits are what a plan allows each of its keys.
type Limits struct {
	Rate   float64 `firestore:"rate"`         // requests per second, [MinRate] to [MaxRate]
	Burst  int64   `firestore:"burst"`        // requests at once, 1 to [MaxBurst]
	Quota  int64   `firestore:"quota"`        // requests per Period, 1 to [MaxQuota]; 0 is no quota
	Period Period  `firestore:"quota_period"` // "" without a quota
	Hard   bool    `firestore:"-"`            // the quota is never exceeded; false without a quota
}

// Plan is a named set of limits in one environment.
type Plan struct {
	ID        ID     `firestore:"id"`
	Namespace string `firestore:"namespace"` // the environment's, e.g. "shop-prod"
	Name      string `firestore:"name"`      // 1 to 63 characters, for people
	Limits
	CreatedAt time.Time `firestore:"created_at"`
	UpdatedAt time.Time `firestore:"updated_at"`
}

// Check refuses limits out of range, all of them at once. Problems: invalid_rate,
// invalid_burst, invalid_quota.
func (l Limits) Check() error {
	var rate, burst error
	if math.IsNaN(l.Rate) || l.Rate < MinRate || l.Rate > MaxRate {
		rate = problem.Of(problem.InvalidRate)
	}
	if l.Burst < 1 || l.Burst > MaxBurst {
		burst = problem.Of(problem.InvalidBurst)
	}
	return problem.All(rate, burst, l.checkQuota())
}

func (l Limits) checkQuota() error {
	switch {
	case (l.Quota == 0) != (l.Period == ""):
		return problem.New(problem.InvalidQuota, "quota and quota_period come together.")
	case l.Quota < 0 || l.Quota > MaxQuota:
		return problem.Of(problem.InvalidQuota)
	case l.Period != "" && !l.Period.Valid():
		return problem.At("quota_period", problem.New(problem.InvalidQuota, "quota_period is day, week or month."))
	case l.Hard:
		return CheckMode(Hard, l.Quota)
	}
	return nil
}

// Mode is how the quota is kept; "" without a quota.
func (l Limits) Mode() Mode {
	switch {
	case l.Quota == 0:
		return ""
	case l.Hard:
		return Hard
	}
	return Soft
}

// CheckName refuses names that are empty, longer than 63 characters, hold
// characters that do not print (a mark that turns the direction of writing around
// would show a person another name than is stored), or leave no slug. Problem:
// invalid_name.
func CheckName(name string) error {
	bad := func(c rune) bool { return !unicode.IsPrint(c) }
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, bad) {
		return problem.New(problem.InvalidName, "A plan's name has 1 to %d printable characters.", maxName)
	}
	if strings.TrimSpace(name) == "" {
		return problem.New(problem.InvalidName, "A plan's name needs at least one character that is not a space.")
	}
	return nil
}

// IDFor returns the ID of a new plan: "plan-" and the name's slug, so that "Starter (EU)" is
// "plan-starter-eu". A name without letters a-z and digits gets a random ID.
func IDFor(name string) ID {
	return ID("plan-" + cmp.Or(slug(name), strings.ToLower(rand.Text()[:randomID])))
}

// randomID is the number of random characters in an ID that does not come from a name.
const randomID = 10

// slug keeps a-z and 0-9, lower-cased, and joins what is between by one hyphen.
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

// ValidID tells whether s has the shape of a plan's id.
func ValidID(s string) bool {
	rest, ok := strings.CutPrefix(s, "plan-")
	return ok && rest != "" && len(rest) <= maxName && slug(rest) == rest
}

// Period is what a quota counts over: a UTC calendar day, week (from Monday) or
// month (promise P6).
type Period string

// The periods.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Periods lists all periods, the shortest first.
func Periods() []Period { return []Period{Day, Week, Month} }

// Valid tells whether p is one of them.
func (p Period) Valid() bool { return slices.Contains(Periods(), p) }

// Mode is how a quota is kept when several replicas admit requests at once.
type Mode string

// The modes.
const (
	Soft Mode = "soft" // a bounded few may go beyond the quota while replicas tell each other
	Hard Mode = "hard" // never a request beyond the quota
)

// Modes lists all modes, the one that a quota has if none is named first.
func Modes() []Mode { return []Mode{Soft, Hard} }

// Valid tells whether m is one of them.
func (m Mode) Valid() bool { return slices.Contains(Modes(), m) }

// CheckMode refuses a word that is no mode, and a mode without a quota, which is 0
// then. Problem: invalid_quota.
func CheckMode(m Mode, quota int64) error {
	switch {
	case !m.Valid():
		return problem.At("quota_mode", problem.New(problem.InvalidQuota, "quota_mode is soft or hard."))
	case quota == 0:
		return problem.At("quota_mode", problem.New(problem.InvalidQuota, "quota_mode goes with a quota."))
	}
	return nil
}

// Start gives the first instant of the period that holds t.
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

// End gives the first instant after the period that holds t.
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
