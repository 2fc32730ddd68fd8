package console

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// moment is a time as a page shows it: how long ago, and exactly.
type moment struct {
	ISO   string // for machines
	Exact string // "21 Nov 2026, 09:43:12 UTC"
	Short string // "3 min ago", or the day for what is older than a week
}

func momentOf(t, now time.Time) moment {
	t = t.UTC()
	return moment{ISO: t.Format(time.RFC3339), Exact: t.Format("2 Jan 2006, 15:04:05 UTC"), Short: ago(t, now)}
}

func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < -time.Minute: // the clocks of two machines differ by less
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

// dateText says which UTC day a date is, as a person would.
func dateText(date string, now time.Time) string {
	switch date {
	case now.UTC().Format(time.DateOnly):
		return "Today"
	case now.UTC().AddDate(0, 0, -1).Format(time.DateOnly):
		return "Yesterday"
	}
	return longDate(date)
}

// shortDate writes "2026-03-14" as "14 Mar"; what is no date stays as it is.
func shortDate(date string) string { return reformat(date, "2 Jan") }

// longDate writes "2026-03-14" as "14 March 2026".
func longDate(date string) string { return reformat(date, "2 January 2006") }

func reformat(date, layout string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format(layout)
}

// grouped writes a count with its thousands parted: "1,234,567".
func grouped[N int64 | uint64](n N) string {
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

// number writes a rate without an exponent: "0.01", "100000".
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// part is one of a reference, an address (whose first has the scheme) or a name in code.
var part = regexp.MustCompile(`([a-z]+://)?[^/:@_]*([/:@_]+|$)`)

// parted are the pieces of a text between which a line may end: "registry.example/",
// "hello:", "v1".
func parted(text string) []string { return part.FindAllString(text, -1) }

// imageTag is the part of an image's reference by which people tell versions apart: its tag,
// or the beginning of its digest.
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
