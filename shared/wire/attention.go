package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Attention is a reason why a key needs attention.
type Attention string

// The reasons, most urgent first.
const (
	KeyLeaked    Attention = "leaked"        // a secret of the key was reported as leaked
	QuotaUsedUp  Attention = "quota_used_up" // requests are denied until the quota period ends
	KeyExpired   Attention = "expired"       // within the last seven days
	QuotaHigh    Attention = "quota_high"    // at least [HighShare] of the quota is used
	KeyExpiring  Attention = "expires_soon"  // within the next seven days
	RateExceeded Attention = "rate_exceeded" // at least [LateShare] of today's requests exceeded the rate
)

// The shares from which a key needs attention.
const (
	HighShare = 0.8 // of the quota
	LateShare = 0.1 // of the day's requests
)

// Attentions returns all reasons.
func Attentions() []Attention {
	return []Attention{KeyLeaked, QuotaUsedUp, KeyExpired, QuotaHigh, KeyExpiring, RateExceeded}
}

// KeyAttention is a key that needs attention.
type KeyAttention struct {
	NamedKey
	Reason Attention `json:"reason" kind:"attention"`
	At     time.Time `json:"at"`                 // time of the leak report, the expiry, the quota reset or the end of the day, depending on reason
	Share  *float64  `json:"share" kind:"share"` // used share of the quota, or share of the day's requests that exceeded the rate; null for other reasons
}

// words returns a label and a sentence. The placeholders are {at}, {share} and {left}, the time
// until {at}.
func (a Attention) words() (label, why string) {
	switch a {
	case KeyLeaked:
		return "Leaked", "Reported at {at}. Rotate the key, or issue another one."
	case QuotaUsedUp:
		return "Quota used up", "Denied until {at}."
	case KeyExpired:
		return "Expired", "Denied since {at}."
	case QuotaHigh:
		return "{share} of quota used", "The quota resets at {at}."
	case KeyExpiring:
		return "Expires {left}", "Valid until {at}."
	case RateExceeded:
		return "Over its rate today", "{share} of today's requests exceeded the rate and were denied."
	}
	return strings.ReplaceAll(string(a), "_", " "), "Since or until {at}." // from a newer server
}

// Label returns a short description, e.g. "Quota used up" or "Expires in 3 days".
func (k KeyAttention) Label(now time.Time) string {
	label, _ := k.Reason.words()
	return strings.NewReplacer("{share}", k.share(), "{left}", In(k.At.Sub(now))).Replace(label)
}

// Why returns a sentence that explains the label. at formats the time.
func (k KeyAttention) Why(at func(time.Time) string) string {
	_, why := k.Reason.words()
	return strings.NewReplacer("{share}", k.share(), "{at}", at(k.At)).Replace(why)
}

// share returns the share as a percentage, rounded down: 100% means the whole quota.
func (k KeyAttention) share() string {
	if k.Share == nil {
		return "Part"
	}
	return fmt.Sprintf("%.0f%%", math.Floor(100**k.Share))
}

// In describes a duration, rounded down: "in 3 days", "in 20 hours", "in less than an hour".
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
