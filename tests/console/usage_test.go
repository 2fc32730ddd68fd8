package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// used writes the usage history of a key. on returns the totals of a day.
func (s site) used(k stacktest.Key, days int, on func(ago int) usage.Totals) {
	s.T.Helper()
	today := usage.DayOf(time.Now())
	var h usage.History
	for ago := days - 1; ago >= 0; ago-- {
		if totals := on(ago); !totals.Zero() {
			h = h.Merge(today-usage.Day(ago), totals)
		}
	}
	_, err := stacktest.Store(s.T, world).Collection("rollups").Doc(k.ID).Set(s.T.Context(), map[string]any{
		"days": h.Pack(), "oldest": h[0].Day.String(), "last_seen": h[len(h)-1].Day.String(),
	})
	must(s.T, err)
}

// busy returns a key with a daily quota of 1,000, of which 900 are used today, and a full history.
func (s site) busy() stacktest.Key {
	s.T.Helper()
	gold := s.Plan(wire.CreatePlan{
		Name: new("Gold"), Rate: new(10.0), Burst: new(int64(20)), Quota: new(int64(1000)), QuotaPeriod: new("day"),
	})
	key := s.named(gold, "Checkout team")
	s.used(key, usage.RetentionDays, func(ago int) usage.Totals {
		if ago == 0 {
			return usage.Totals{Allowed: 900, RateDenied: 3, QuotaDenied: 2}
		}
		n := uint64(300 + 37*ago%700)
		return usage.Totals{Allowed: n, RateDenied: n / 5 * uint64(ago%3), QuotaDenied: n / 9 * uint64(ago%4)}
	})
	return key
}

func TestUsage(t *testing.T) {
	t.Parallel()
	adminInEach(t, long.Pick(usual, []window{desk, phone, phone.plain(), desk.night()}), func(s site, v *visitor) {
		key := s.busy()
		v.opens(s.page("api-keys", key.ID))
		today := time.Now().UTC()
		week, err := s.Client.Usage(v.t.Context(), s.Project, key.ID, today.AddDate(0, 0, -6).Format(time.DateOnly), "")
		must(v.t, err)
		v.sees(thousands(week.Totals.Allowed)+" allowed", thousands(week.Totals.QuotaDenied)+" quota-denied")
		v.sees("Last seen: Today", "900 of 1,000 requests used today (90%)")
		v.sees("90% of quota used") // next to the name
		v.shot("usage")

		v.presses("All values as a table")
		for ago := range 7 {
			v.sees(today.AddDate(0, 0, -ago).Format("2 January 2006"))
		}
		v.shot("usage-week")

		v.clicks("90 days")
		v.presses("Custom range")
		v.sets("From", today.AddDate(0, 0, -1).Format(time.DateOnly))
		v.sets("To", today.AddDate(0, 0, -2).Format(time.DateOnly))
		v.clicks("Show usage").sees("from must not be after to.")
		v.shot("usage-refused")
		v.sets("From", "2020-01-01")
		v.sets("To", "2020-01-31")
		v.clicks("Show usage").sees("The requested days are no longer stored. Request days within the last 92 days.")
		v.sees("900 of 1,000") // the rest of the page is shown
		v.sets("To", today.Format(time.DateOnly))
		v.clicks("Show usage").sees("Earlier usage is no longer stored.")
		v.shot("usage-all")
	})
}

// TestChartByKeyboard checks that the arrow keys select the bar whose value is shown.
func TestChartByKeyboard(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.busy()
	v.opens(s.page("api-keys", key.ID))
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format("2 January 2006") + ": " }
	shows := func(want string) {
		t.Helper()
		v.until("see "+want, func() bool { return strings.HasPrefix(v.textOf(".chart-value"), want) })
	}
	shows(day(0) + "900 allowed, 3 rate-denied, 2 quota-denied")
	v.clickAt(v.find("value", "first", ".chart-value"))
	for _, step := range []struct {
		key  string
		want int
	}{{kb.ArrowLeft, 1}, {kb.ArrowLeft, 2}, {kb.ArrowRight, 1}, {kb.Home, 6}, {kb.ArrowLeft, 6}, {kb.End, 0}} {
		v.strikes(step.key)
		shows(day(step.want))
	}
	v.accessible()
}

func TestUsageOfRealRequests(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.AnyKey()
	for range 3 {
		s.opensGate(key.Full, "hello", 200)
	}
	v.until("see the requests", func() bool {
		v.opens(s.page("api-keys", key.ID))
		return strings.Contains(v.text(), "3 allowed")
	})
	v.sees("Last seen: Today")
	v.until("see the requests in the list and on the overview", func() bool {
		v.opens(s.page("api-keys"))
		listed := strings.Contains(v.textOf(".keys"), "Today")
		v.opens(s.page())
		return listed && strings.Contains(v.text(), "3 allowed")
	})
	v.opens(s.page("api-keys", key.ID) + "?from=yesterday&to=2026-01-01").sees("The date is invalid. Use a UTC calendar day in the form YYYY-MM-DD.")
}

func thousands(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
