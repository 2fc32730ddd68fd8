package console

import (
	"maps"
	"net/http"
	"slices"
)

// values is a thing as its form shows it: what each field holds.
type values map[string]string

// form is the form filled in with them.
func (all values) form() form {
	var pairs []string
	for name, value := range all {
		pairs = append(pairs, name, value)
	}
	return filled(pairs...)
}

const wasMark = "was_" // begins the hidden field that holds what a field was

// based carries the values along, so that what has changed meanwhile is noticed.
func (all values) based() []based {
	var on []based
	for _, name := range slices.Sorted(maps.Keys(all)) {
		on = append(on, based{Name: wasMark + name, Value: all[name]})
	}
	return on
}

// basedOn is what the sent form was based on, for the form that is shown again.
func (v *visit) basedOn(fields values) []based {
	was := values{}
	for name := range fields {
		was[name] = v.typed(wasMark + name)
	}
	return was.based()
}

// changes are the fields that a form changes.
type changes map[string]bool

// notice is n, or that there was nothing to do.
func (c changes) notice(n notice) notice {
	if len(c) == 0 {
		return noticeNothingChanged
	}
	return n
}

// changes finds the fields that the sent form changes, given what they hold now:
// those that were typed otherwise than the form had them at first. If somebody else
// has changed one of these meanwhile, to something else, overtaken is the form with
// a word on it, and nothing shall be done. What else has changed is left as it is.
//
// Between this look and the change there is a moment; in it the last one to save
// wins, as it would with any two who save one after the other.
func (v *visit) changes(current values) (changed changes, overtaken *form) {
	changed = changes{}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		typed, was := v.typed(name), v.typed(wasMark+name)
		if typed == was || typed == current[name] {
			continue
		}
		if current[name] != was {
			f := v.sent(name, "Somebody else has changed this meanwhile to "+quoted(current[name])+". Nothing was saved; load the page again to go on from there.")
			f.Refusal.Status = http.StatusConflict
			return nil, &f
		}
		changed[name] = true
	}
	return changed, nil
}

func quoted(s string) string {
	if s == "" {
		return "nothing"
	}
	return "“" + s + "”"
}
