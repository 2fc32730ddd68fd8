package wire

import (
	"strings"
	"testing"
	"time"
)

func TestAttentionWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	share := 0.925
	want := map[Attention]string{
		KeyLeaked:     "Leaked. Reported at 2026-03-17. Rotate the key, or issue another one.",
		QuotaUsedUp:   "Quota used up. Denied until 2026-03-17.",
		KeyExpired:    "Expired. Denied since 2026-03-17.",
		QuotaHigh:     "92% of quota used. The quota resets at 2026-03-17.",
		KeyExpiring:   "Expires in 3 days. Valid until 2026-03-17.",
		RateExceeded:  "Over its rate today. 92% of today's requests exceeded the rate and were denied.",
		"of_tomorrow": "of tomorrow. Since or until 2026-03-17.",
	}
	for _, reason := range append(Attentions(), "of_tomorrow") {
		k := KeyAttention{Reason: reason, At: now.AddDate(0, 0, 3), Share: &share}
		if got := k.Label(now) + ". " + k.Why(day); got != want[reason] {
			t.Errorf("%s: got %q, want %q", reason, got, want[reason])
		}
		k.Share = nil // as from an older server
		if got := k.Label(now) + k.Why(day); strings.ContainsAny(got, "{}") {
			t.Errorf("%s without a share: got %q, want no placeholder", reason, got)
		}
	}
}
