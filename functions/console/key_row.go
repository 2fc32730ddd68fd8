package console

import (
	"cmp"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyRow is a key as pages show it.
type keyRow struct {
	wire.Key
	Label  string // its name, or its prefix without one
	State  badge
	Expiry badge
	Use    badge         // that its quota is nearly used up, or that it comes too fast
	Quota  *quotaUse     // nil without one
	Week   []view.Series // of a small chart
	Plan   string        // the plan's name
	Scope  string        // "Every app", "No app", or their names
	Until  string        // "14 March 2026", "Never"
	Seen   string        // "14 March 2026", "Never"
	Path   string
	Leaked *leakNote // nil of a key that has not
}

// Live reports whether the key can still be changed.
func (k keyRow) Live() bool { return k.Status != "revoked" }

// Rotates reports whether the key can get a new secret.
func (k keyRow) Rotates() bool { return k.Live() && k.Expiry.Tone != toneBad }

// SeenText returns the time of the last use, within a sentence.
func (k keyRow) SeenText() string {
	switch {
	case k.LastSeen == nil:
		return "never seen"
	case k.Seen == "Today" || k.Seen == "Yesterday":
		return "last seen " + strings.ToLower(k.Seen)
	}
	return "last seen " + k.Seen
}

// WeekText describes the small chart.
func (k keyRow) WeekText() string {
	if k.Usage == nil {
		return ""
	}
	c := view.Totals(k.Usage.Week)
	return "Last seven days: " + view.Comma(c.Allowed) + " allowed, " + view.Comma(c.Refused()) + " denied"
}

// everyApp reports whether a key covers every app of its environment.
func everyApp(k wire.Key) bool { return len(k.Apps) == 0 && k.Scope != scopeNone }

// scopeText names the apps of a scope that does not cover every app.
func scopeText(apps []string) string { return cmp.Or(strings.Join(apps, ", "), "No apps") }

func (r *request) keyRow(k wire.Key, plans map[string]string) keyRow {
	now := r.s.now()
	row := keyRow{
		Key: k, Label: cmp.Or(k.Name, k.Prefix), State: statusBadge(k.Status), Expiry: expiryBadge(k.Status, k.ExpiresAt, now), Plan: cmp.Or(plans[k.Plan], k.Plan),
		Scope: "All apps", Until: expiryText(k.ExpiresAt), Seen: "Never", Quota: quotaOf(k),
		Path: at("projects", k.Project, "environments", k.Environment, "api-keys", k.ID),
	}
	row.State, row.Use = useBadges(row, now)
	row.Leaked = leakOf(k)
	if k.Usage != nil {
		row.Week = view.Bars(k.Usage.Week)
	}
	if !everyApp(k) {
		row.Scope = scopeText(k.Apps)
	}
	if k.LastSeen != nil {
		row.Seen = view.RelativeDay(*k.LastSeen, now)
	}
	return row
}

// useBadges say that a key which is good is refused all the same, or soon will be: it is
// not green then.
func useBadges(k keyRow, now time.Time) (state, use badge) {
	switch {
	case k.Leak != nil && k.Leak.Secret == wire.LeakedCurrent && k.Live():
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.KeyLeaked}, now)
	case k.Status != "active":
	case k.Quota != nil && k.Quota.Full:
		return attentionBadge(wire.KeyAttention{Reason: wire.QuotaUsedUp}, now), badge{}
	case k.Quota != nil && k.Quota.High:
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.QuotaHigh, Share: &k.Quota.Part}, now)
	case tooFast(k.Key):
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.RateExceeded}, now)
	}
	return k.State, badge{}
}

// tooFast reports whether at least a tenth of today's requests exceeded the rate.
func tooFast(k wire.Key) bool {
	if k.Usage == nil || len(k.Usage.Week) == 0 {
		return false
	}
	today := k.Usage.Week[len(k.Usage.Week)-1].UsageTotals
	return today.RateDenied > 0 && float64(today.RateDenied) >= wire.LateShare*float64(today.Requests())
}

// statusText is the status in a word.
func (k keyRow) statusText() string {
	if k.State.Text == "" {
		return k.Expiry.Text
	}
	return k.State.Text
}

// expiryWarning is the time before its expiry in which a key has an amber badge.
const expiryWarning = 14 * 24 * time.Hour

// badge is a short, coloured word on a state. Its colour never says more than the
// word does.
type badge struct {
	Tone string // class of the style page: good, amber, bad, "" is grey
	Text string // "Expires in 3 days"; "" is no badge
}

const (
	toneGood  = "good"
	toneAmber = "amber"
	toneBad   = "bad"
)

// expiryBadge is amber in the last two weeks of a key or a service token, and red once it has
// expired. A revoked key has ended already.
func expiryBadge(status string, expires *time.Time, now time.Time) badge {
	if expires == nil || status == "revoked" {
		return badge{}
	}
	left := expires.Sub(now)
	switch {
	case left <= 0 || status == "expired":
		return badge{Tone: toneBad, Text: "Expired"}
	case left <= expiryWarning:
		return badge{Tone: toneAmber, Text: "Expires " + wire.In(left)}
	}
	return badge{}
}

// statusBadge shows a key's status. "expired" has a badge of its own kind, see
// expiryBadge.
func statusBadge(status string) badge {
	switch status {
	case "active":
		return badge{Tone: toneGood, Text: "Active"}
	case "disabled":
		return badge{Text: "Disabled"}
	case "revoked":
		return badge{Text: "Revoked"}
	}
	return badge{}
}

// expiryFor gives the API's timestamp for the last day of a key as a date input
// writes it: the key is valid through the end of that UTC day, which is the first
// instant of the next. What is no date goes to the API as it is, which then says what is
// wrong with it.
func expiryFor(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return day.AddDate(0, 0, 1).Format(time.RFC3339)
}

// lastDay is the inverse: what a date input shows of an expiry, "" for none. An
// expiry in the middle of a day (the API takes any instant) has no date that means
// it; exact is then false, and a form that is sent unchanged must leave it alone.
func lastDay(expires *time.Time) (date string, exact bool) {
	if expires == nil {
		return "", true
	}
	t := expires.UTC()
	exact = t.Equal(t.Truncate(24 * time.Hour))
	if exact {
		t = t.AddDate(0, 0, -1)
	}
	return t.Format(time.DateOnly), exact
}

// expiryText says until when a key is valid, as a person would.
func expiryText(expires *time.Time) string {
	date, exact := lastDay(expires)
	switch {
	case date == "":
		return "Never"
	case exact:
		return view.LongDate(date)
	}
	return expires.UTC().Format("2 January 2006, 15:04 UTC")
}

// attentionBadge is red where the key is refused, and grey for a reason of a newer API.
func attentionBadge(k wire.KeyAttention, now time.Time) badge {
	b := badge{Text: k.Label(now)}
	switch k.Reason {
	case wire.KeyLeaked, wire.QuotaUsedUp, wire.KeyExpired:
		b.Tone = toneBad
	case wire.QuotaHigh, wire.KeyExpiring, wire.RateExceeded:
		b.Tone = toneAmber
	}
	return b
}

// leakNote is what a key's page says of its leak.
type leakNote struct {
	wire.KeyLeak

	Tone string
	Says string // its state and what to do
}

func leakOf(k wire.Key) *leakNote {
	if k.Leak == nil {
		return nil
	}
	n := leakNote{KeyLeak: *k.Leak, Tone: toneAmber}
	switch {
	case k.Status == string(apikey.Revoked):
		n.Says = "The key is revoked. The gate rejects it."
	case k.Leak.Secret == wire.LeakedEnded:
		n.Says = "The leaked secret is no longer valid. Clients that still use it need the current secret."
	case k.Status == string(apikey.Active):
		n.Tone, n.Says = toneBad, "The leaked secret is still valid. Rotate the key now."
	default:
		n.Tone, n.Says = toneBad, "The gate rejects the key. Rotate it, give the new secret to its user, then enable the key again."
	}
	return &n
}

// quotaUse is what a key has used of its quota in the current period.
type quotaUse struct {
	Used, Quota string  // "1,200"
	Period      string  // "today", "this week", "this month"
	Percent     string  // "12%", of the bar
	Share       string  // "12 %", for people
	Part        float64 // of one
	Full        bool
	High        bool // nearly, or quite
	Resets      time.Time
}

// quotaOf is how much of its quota a key has used; nil without a quota.
func quotaOf(k wire.Key) *quotaUse {
	if k.Usage == nil || k.Usage.Quota == nil || k.Usage.Quota.Quota < 1 {
		return nil
	}
	q := k.Usage.Quota
	part := min(float64(q.Used)/float64(q.Quota), 1)
	share := 100 * part
	return &quotaUse{
		Used: view.Comma(q.Used), Quota: view.Comma(q.Quota), Period: periodText(plan.Period(q.Period)),
		Percent: percent(share, "%"), Share: percent(share, "%"), Part: part, Full: q.Used >= uint64(q.Quota), High: part >= wire.HighShare, Resets: q.ResetsAt,
	}
}

func periodText(p plan.Period) string {
	if p == plan.Day {
		return "today"
	}
	return "this " + string(p)
}

// percent rounds down, so that 100 means all of it, and shows that there is something.
func percent(share float64, unit string) string {
	if share > 0 && share < 1 {
		return view.Decimal(0.5) + unit
	}
	return view.Decimal(float64(int(share))) + unit
}
