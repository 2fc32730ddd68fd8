package audit

import (
	"reflect"
)

// Values are the fields of a resource as a record shows them: texts, numbers,
// booleans, lists of them, or nil. nil Values stand for a resource that is not there.
type Values map[string]any

// Diff gives the fields in which two views of a resource differ. One that was not
// there, or is not any more, shows whole.
func Diff(before, after Values) (changedFrom, changedTo Values) {
	if before == nil || after == nil {
		return before, after
	}
	changedFrom, changedTo = Values{}, Values{}
	for name := range after {
		if !reflect.DeepEqual(before[name], after[name]) {
			changedFrom[name], changedTo[name] = before[name], after[name]
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			changedFrom[name], changedTo[name] = before[name], nil
		}
	}
	return changedFrom, changedTo
}
