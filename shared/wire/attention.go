package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Attention is why somebody should look at a key.
type Attention string

// The reasons, the most urgent first.
const (
	KeyLeaked    Attention = "leaked"        // its secret was found where strangers can read it
	QuotaUsedUp  Attention = "quota_used_up" // it is refused until the quota's period ends
	KeyExpired   Attention = "expired"       // in the last seven days
	QuotaHigh    Attention = "quota_high"    // 80 % of it are used
	KeyExpiring  Attention = "expires_soon"  // in the next seven days
	RateExceeded Attention = "rate_exceeded" // today, by one request in ten or more
)

// From when on a key needs attention, as parts of one.
const (
	HighShare = 0.8 // of its quota is used
	LateShare = 0.1 // of the day's requests came too fast: the plan's rate is too small, or a client too fast
)

// Attentions lists the reasons.
func Attentions() []Attention {
	return []Attention{KeyLeaked, QuotaUsedUp, KeyExpired, QuotaHigh, KeyExpiring, RateExceeded}
}

// KeyAttention is a key that somebody should look at.
type KeyAttention struct {
	NamedKey
	Reason Attention `json:"reason" kind:"attention"`
	At     time.Time `json:"at"`                 // when its leak was reported, it has expired or will, the quota starts anew, or the day ends
	Share  *float64  `json:"share" kind:"share"` // of the quota that is used, or of the day's requests that were too many; null where it is about neither
}

// words are a reason for people: a few, and a sentence. {at} and {share} are the key's, and
// {left} is the time until then.
func (a Attention) words() (label, why string) {
	switch a {
	case KeyLeaked:
		return "Leaked", "Reported at {at}. Rotate it, or give its user another key."
	case QuotaUsedUp:
		return "Quota used up", "Refused until {at}."
	case KeyExpired:
		return "Expired", "Refused since {at}."
	case QuotaHigh:
		return "{share} of its quota", "The quota starts anew at {at}."
	case KeyExpiring:
		return "Expires {left}", "Good until {at}."
	case RateExceeded:
		return "Over its rate today", "{share} of its requests were refused for coming too fast."
	}
	return strings.ReplaceAll(string(a), "_", " "), "Since or until {at}." // of a newer server
}

// Label says in a few words what it is about, e.g. "Quota used up" or "Expires in 3 days".
func (k KeyAttention) Label(now time.Time) string {
	label, _ := k.Reason.words()
	return strings.NewReplacer("{share}", k.share(), "{left}", In(k.At.Sub(now))).Replace(label)
}

// Why says the rest in a sentence, with the time as at shows it.
func (k KeyAttention) Why(at func(time.Time) string) string {
	_, why := k.Reason.words()
	return strings.NewReplacer("{share}", k.share(), "{at}", at(k.At)).Replace(why)
}

// share is rounded down, so that 100 % means all of it.
func (k KeyAttention) share() string {
	if k.Share == nil {
		return "Part"
	}
	return fmt.Sprintf("%.0f %%", math.Floor(100**k.Share))
}

// In says how far away something is, rounded so that it never sounds later than it is:
// "in 3 days", "in 20 hours", "in less than an hour".
func In(left time.Duration) string {
	days, hours := int(left/(24*time.Hour)), int(left/time.Hour)
	switch {
	case days > 1:
		return fmt.Sprintf("in %d days", days)
	case days == 1:
		return "in 1 day"
	case hours > 1:
		return fmt.Sprintf("in %d hours", hours)
	case hours == 1:
		return "in 1 hour"
	}
	return "in less than an hour"
}
