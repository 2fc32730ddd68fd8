package view

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

// DisplayTime is a time as a page shows it, relative and exact.
type DisplayTime struct {
	ISO   string // RFC 3339
	Exact string // "21 Nov 2026, 09:43:12 UTC"
	Short string // "3 min ago", or the date after a week
}

// NewDisplayTime returns t as shown at now.
func NewDisplayTime(t, now time.Time) DisplayTime {
	t = t.UTC()
	return DisplayTime{ISO: t.Format(time.RFC3339), Exact: t.Format("2 Jan 2006, 15:04:05 UTC"), Short: ago(t, now)}
}

func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < -time.Minute: // tolerates differences between clocks
		return t.Format("2 Jan 2006, 15:04 UTC")
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min ago"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h ago"
	case d < 48*time.Hour:
		return "yesterday"
	case d < 7*24*time.Hour:
		return strconv.Itoa(int(d/(24*time.Hour))) + " days ago"
	}
	return t.Format("2 Jan 2006")
}

// RelativeDay returns a UTC date as "Today", "Yesterday" or "14 March 2026".
func RelativeDay(date string, now time.Time) string {
	switch date {
	case now.UTC().Format(time.DateOnly):
		return "Today"
	case now.UTC().AddDate(0, 0, -1).Format(time.DateOnly):
		return "Yesterday"
	}
	return LongDate(date)
}

func shortDate(date string) string { return reformat(date, "2 Jan") }

// LongDate formats "2026-03-14" as "14 March 2026". It returns other texts unchanged.
func LongDate(date string) string { return reformat(date, "2 January 2006") }

func reformat(date, layout string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format(layout)
}

// Comma formats a count with thousands separators: "1,234,567".
func Comma[N int64 | uint64](n N) string {
	digits := fmt.Sprint(n)
	out := make([]byte, 0, len(digits)+len(digits)/3)
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return string(out)
}

// Decimal formats a number without an exponent: "0.01", "100000".
func Decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// part matches a part of an image reference, URL or name. The scheme belongs to the first part.
var part = regexp.MustCompile(`([a-z]+://)?[^/:@_]*([/:@_]+|$)`)

// parted splits a text at possible line breaks: "registry.example/", "hello:", "v1".
func parted(text string) []string { return part.FindAllString(text, -1) }

func imageTag(image string) string {
	const shown = len("sha256:") + 12
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest[:min(len(digest), shown)]
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[i+1:]
	}
	return image
}

// PlanRow is a plan as pages show it.
type PlanRow struct {
	wire.Plan
	Path string // "" if the plan was deleted
}

// RateText returns the rate: "10 per second".
func (p PlanRow) RateText() string { return Decimal(p.Rate) + " per second" }

// BurstText returns the burst: "1,000".
func (p PlanRow) BurstText() string { return Comma(p.Burst) }

// QuotaText returns the quota: "10,000 per day", "10,000 per day, hard" or "None".
func (p PlanRow) QuotaText() string {
	if p.Quota == nil || p.QuotaPeriod == nil {
		return "None"
	}
	text := Comma(*p.Quota) + " per " + *p.QuotaPeriod
	if QuotaMode(p.Plan) == string(plan.Hard) {
		text += ", hard"
	}
	return text
}

// QuotaMode returns the quota mode, which is soft by default.
func QuotaMode(p wire.Plan) string {
	if p.QuotaMode == nil {
		return string(plan.Soft)
	}
	return *p.QuotaMode
}

// Limits returns all limits in one line.
func (p PlanRow) Limits() string {
	limits := p.RateText() + ", burst " + p.BurstText()
	if p.Quota == nil {
		return limits
	}
	return limits + ", " + p.QuotaText()
}
