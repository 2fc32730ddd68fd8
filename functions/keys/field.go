package keys

import (
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// parseExpiry reads an expiry: an RFC 3339 timestamp, in UTC and in microseconds
// from here on. nil never expires. Problems: invalid_expiry, expiry_in_past.
func parseExpiry(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	t, err := apikey.ParseExpiry(*text)
	if err != nil {
		return time.Time{}, err
	}
	if t.IsZero() { // long past, though the zero time means never
		return time.Time{}, problem.Of(problem.ExpiryInPast)
	}
	return t, apikey.CheckExpiry(t, now)
}

// parseGrace reads how long the previous secret stays valid: a duration such as
// "24h" or "90s". nil is the default. The range is the domain's to check.
// Problem: invalid_grace.
func parseGrace(text *string) (time.Duration, error) {
	if text == nil {
		return apikey.DefaultGrace, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return 0, problem.Of(problem.InvalidGrace)
	}
	return d.Truncate(time.Microsecond), nil
}

// set applies a field of a PATCH that cannot be null. Problem: missing_field.
func set[T any](name string, field wire.Optional[T], to *T) error {
	if field.Set && field.Value == nil {
		return httpapi.Missing(name)
	}
	field.Apply(to)
	return nil
}
