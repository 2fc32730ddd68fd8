package wire

import (
	"strings"
	"testing"
	"time"
)

// TestAttentionWords: every reason has words, and the key's own figures in them.
func TestAttentionWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	share := 0.925
	want := map[Attention]string{
		KeyLeaked:     "Leaked. Reported at 2026-03-17. Rotate it, or give its user another key.",
		QuotaUsedUp:   "Quota used up. Refused until 2026-03-17.",
		KeyExpired:    "Expired. Refused since 2026-03-17.",
		QuotaHigh:     "92 % of its quota. The quota starts anew at 2026-03-17.",
		KeyExpiring:   "Expires in 3 days. Good until 2026-03-17.",
		RateExceeded:  "Over its rate today. 92 % of its requests were refused for coming too fast.",
		"of_tomorrow": "of tomorrow. Since or until 2026-03-17.",
	}
	for _, reason := range append(Attentions(), "of_tomorrow") {
		k := KeyAttention{Reason: reason, At: now.AddDate(0, 0, 3), Share: &share}
		if got := k.Label(now) + ". " + k.Why(day); got != want[reason] {
			t.Errorf("%s: %q, want %q", reason, got, want[reason])
		}
		k.Share = nil // as an older server may leave it
		if got := k.Label(now) + k.Why(day); strings.ContainsAny(got, "{}") {
			t.Errorf("%s without a share: %q", reason, got)
		}
	}
}
