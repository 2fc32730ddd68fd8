package console

import (
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// expiryWarning is for how long before its expiry a key has an amber badge.
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

// expiryBadge is amber in a key's last two weeks and red once it has expired. A revoked
// key has ended already.
func expiryBadge(k wire.Key, now time.Time) badge {
	if k.ExpiresAt == nil || k.Status == "revoked" {
		return badge{}
	}
	left := k.ExpiresAt.Sub(now)
	switch {
	case left <= 0:
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
		return longDate(date)
	}
	return expires.UTC().Format("2 January 2006, 15:04 UTC")
}
