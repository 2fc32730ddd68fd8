package keys

import (
	"regexp"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// lastYear is the last one that RFC 3339 can write and that the store can keep.
const lastYear = 9999

// timestamp is what RFC 3339 allows and package time does not hold its input to:
// two digits for the hour, a point before the fraction, offsets below a day.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseExpiry reads an expiry: an RFC 3339 timestamp, in UTC and in microseconds
// from here on. nil never expires. Problems: invalid_expiry, expiry_in_past.
func parseExpiry(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil || !timestamp.MatchString(*text) {
		return time.Time{}, problem.Of(problem.InvalidExpiry)
	}
	t = t.UTC().Truncate(time.Microsecond)
	if t.Year() > lastYear { // by its offset: 9999-12-31T23:59:59-01:00
		return time.Time{}, problem.Of(problem.InvalidExpiry)
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

// set puts a field of a PATCH where it belongs if it was given. Problem:
// missing_field for null, which such a field cannot be.
func set[T any](name string, field wire.Optional[T], to *T) error {
	if !field.Set {
		return nil
	}
	if field.Value == nil {
		return httpapi.Missing(name)
	}
	*to = *field.Value
	return nil
}

// setOrClear is set for what may be null: null puts the zero value.
func setOrClear[T any](field wire.Optional[T], to *T) {
	if !field.Set {
		return
	}
	var value T
	if field.Value != nil {
		value = *field.Value
	}
	*to = value
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
