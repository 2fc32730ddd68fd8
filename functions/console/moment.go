package console

import (
	"strconv"
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
