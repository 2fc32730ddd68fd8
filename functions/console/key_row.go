package console

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

type keyRow struct {
	wire.Key
	Label  string // its name, or its prefix if it has no name
	State  badge
	Expiry badge
	Use    badge
	Quota  *quotaUse
	Week   []view.Series
	Plan   string
	Scope  string // "All apps", "No apps", or their names
	Until  string // "14 March 2026", "Never"
	Seen   string // "14 March 2026", "Never"
	Path   string
	Leaked *leakNote

	Selected bool // its check box is checked
}

func (k keyRow) Live() bool { return k.Status != "revoked" }

func (k keyRow) Rotates() bool { return k.Live() && k.Expiry.Tone != toneBad }

// TagText returns the tags with spaces between them.
func (k keyRow) TagText() string { return strings.Join(k.Tags, " ") }

const appsListed = 3

// ShortScope is the scope with the names of a few apps.
func (k keyRow) ShortScope() string {
	if more := len(k.Apps) - appsListed; more > 0 {
		return strings.Join(k.Apps[:appsListed], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return k.Scope
}

// Requests is the number of requests with the key in the last seven days, with the part that was
// denied: "1,204, 3 denied".
func (k keyRow) Requests() string {
	if k.Usage == nil {
		return ""
	}
	c := view.Totals(k.Usage.Week)
	text := view.Comma(c.Requests())
	if denied := c.Refused(); denied > 0 {
		text += ", " + view.Comma(denied) + " denied"
	}
	return text
}

func everyApp(k wire.Key) bool { return len(k.Apps) == 0 && k.Scope != scopeNone }

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

func (r *request) keyRows(keys []wire.Key, plans map[string]string) []keyRow {
	rows := make([]keyRow, len(keys))
	for i, k := range keys {
		rows[i] = r.keyRow(k, plans)
	}
	return rows
}

// useBadges returns the status badge and a warning badge. The status badge of a key whose requests
// are all denied is not green.
func useBadges(k keyRow, now time.Time) (state, use badge) {
	noApps := k.Status == "active" && k.Key.Scope == scopeNone
	if noApps {
		k.State = badge{Text: scopeText(nil)}
	}
	switch {
	case k.Leak != nil && k.Leak.Secret == wire.LeakedCurrent && k.Live():
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.KeyLeaked}, now)
	case k.Status != "active" || noApps:
	case k.Quota != nil && k.Quota.Full:
		return attentionBadge(wire.KeyAttention{Reason: wire.QuotaUsedUp}, now), badge{}
	case k.Quota != nil && k.Quota.High:
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.QuotaHigh, Share: &k.Quota.Part}, now)
	case tooFast(k.Key):
		return k.State, attentionBadge(wire.KeyAttention{Reason: wire.RateExceeded}, now)
	}
	return k.State, badge{}
}

func tooFast(k wire.Key) bool {
	if k.Usage == nil || len(k.Usage.Week) == 0 {
		return false
	}
	today := k.Usage.Week[len(k.Usage.Week)-1].UsageTotals
	return today.RateDenied > 0 && float64(today.RateDenied) >= wire.LateShare*float64(today.Requests())
}

func (k keyRow) statusText() string { return cmp.Or(statusBadge(k.Status).Text, k.Expiry.Text) }

const expiryWarning = 14 * 24 * time.Hour

// badge is a short, colored text. Its color adds no information.
type badge struct {
	Tone string // class of the style sheet: good, amber, bad; "" is gray
	Text string // "Expires in 3 days"; "" means no badge
}

const (
	toneGood  = "good"
	toneAmber = "amber"
	toneBad   = "bad"
)

// expiryBadge returns a badge that is amber in the last two weeks of a key or service token, and
// red after its expiry. Revoked keys have none.
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

// expiryFor returns the expiry for a last day: the beginning of the next UTC day. It returns an
// invalid date unchanged, which the API then rejects.
func expiryFor(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return day.AddDate(0, 0, 1).Format(time.RFC3339)
}

// lastDay is the inverse of expiryFor; it returns "" for no expiry. exact is false if the expiry is
// within a day; an unchanged form must then not change it.
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

// attentionBadge returns a badge that is red if the key needs immediate action, and gray if the
// reason is unknown.
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

type leakNote struct {
	wire.KeyLeak

	Tone string
	Text string
}

func leakOf(k wire.Key) *leakNote {
	if k.Leak == nil {
		return nil
	}
	n := leakNote{KeyLeak: *k.Leak, Tone: toneAmber}
	switch {
	case k.Status == string(apikey.Revoked):
		n.Text = "The key is revoked. The gate rejects it."
	case k.Leak.Secret == wire.LeakedEnded:
		n.Text = "The leaked secret is no longer valid. Clients that still use it need the current secret."
	case k.Status == string(apikey.Active):
		n.Tone, n.Text = toneBad, "The leaked secret is still valid. Rotate the key now."
	case k.Status == "expired": // it cannot be rotated
		n.Tone, n.Text = toneBad, "The key has expired. Create a new key for its user, then revoke this one."
	default:
		n.Tone, n.Text = toneBad, "The gate rejects the key. Rotate it, give the new secret to its user, then enable the key again."
	}
	return &n
}

type quotaUse struct {
	Used, Quota string  // "1,200"
	Period      string  // "today", "this week", "this month"
	Share       string  // "12%"
	Width       string  // of the bar: at least visible
	Part        float64 // 0 to 1
	Full        bool
	High        bool
	Resets      time.Time
}

func quotaOf(k wire.Key) *quotaUse {
	if k.Usage == nil || k.Usage.Quota == nil || k.Usage.Quota.Quota < 1 {
		return nil
	}
	q := k.Usage.Quota
	part := min(float64(q.Used)/float64(q.Quota), 1)
	return &quotaUse{
		Used: view.Comma(q.Used), Quota: view.Comma(q.Quota), Period: periodText(plan.Period(q.Period)),
		Share: percent(part), Width: view.Decimal(max(100*part, minBar)) + "%", Part: part, Full: q.Used >= uint64(q.Quota), High: part >= wire.HighShare, Resets: q.ResetsAt,
	}
}

func periodText(p plan.Period) string {
	if p == plan.Day {
		return "today"
	}
	return "this " + string(p)
}

// minBar is the minimum width of a bar for a used quota, as a percentage. It is visible, but the text
// next to the bar shows the real share.
const minBar = 0.5

// percent returns a share as a percentage, with one decimal below 10%. It rounds down, so that 100%
// means the whole quota.
func percent(part float64) string {
	switch thousandths := math.Floor(1000*part + 1e-9); {
	case part > 0 && thousandths < 1:
		return "less than 0.1%"
	case thousandths < 100:
		return view.Decimal(thousandths/10) + "%"
	default:
		return view.Decimal(math.Floor(thousandths/10)) + "%"
	}
}
