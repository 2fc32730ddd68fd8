package keys

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

// parseExpiry parses an RFC 3339 timestamp and truncates it to microseconds. nil means no expiry.
// It returns an invalid_expiry or expiry_in_past problem.
func parseExpiry(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	t, err := apikey.ParseExpiry(*text)
	if err != nil {
		return time.Time{}, err
	}
	if t.IsZero() { // the zero time would mean no expiry
		return time.Time{}, problem.FromCode(problem.ExpiryInPast)
	}
	return t, apikey.CheckExpiry(t, now)
}

// parseGrace parses a grace period, such as "24h" or "90s". It returns the default for nil, and an
// invalid_grace problem for a malformed duration. The caller checks the range.
func parseGrace(text *string) (time.Duration, error) {
	if text == nil {
		return apikey.DefaultGrace, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return 0, problem.FromCode(problem.InvalidGrace)
	}
	return d.Truncate(time.Microsecond), nil
}
