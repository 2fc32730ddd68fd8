package keys

import "github.com/sluicegate/sluice/shared/wire"

// set puts a field of a PATCH where it belongs if it was given. Problem:
// missing_field for null, which such a field cannot be.
func set[T any](name string, field wire.Optional[T], to *T) error {
	if !field.Set {
		return nil
	}
	if field.Value == nil {
		return missing(name)
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
