package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// auditRow is a record as a page shows it.
type auditRow struct {
	wire.AuditRecord

	What      string // "Revoke key"
	Outcome   badge  // none when it succeeded
	Unsettled bool   // begun, and nothing is known of its end
	Who       string // "ada", "webhook", "build 7"
	WhoNote   string // "not signed in"
	Of        string // the resource, in short

	ByActor, ByResource string // paths: the log, narrowed to the same

	Changes       []auditChange
	Before, After bool // there was something before, is something afterwards
}

// auditChange is one field of what was changed.
type auditChange struct {
	Name     string
	Old, New auditValue
}

// NameParts are the pieces of a field's name between which a line may end.
func (c auditChange) NameParts() []string { return strings.SplitAfter(c.Name, "_") }

// auditValue is a field's value.
type auditValue struct {
	Text string
	None bool // there is none; Text says so
	Cut  int  // so many characters are not shown
}

// maxValue bounds what is shown of a value, in characters: a page stays small even
// when somebody has scoped a key to a thousand apps.
const maxValue = 400

func (l auditLog) row(r wire.AuditRecord) (auditRow, error) {
	row := auditRow{
		AuditRecord: r, What: actionText(audit.Action(r.Action)), Of: l.short(r.Resource),
		ByResource: l.narrowed("resource", l.short(r.Resource)),
	}
	row.Who, row.WhoNote = whoDid(r.Actor)
	if r.Actor.Name != "" {
		row.ByActor = l.narrowed("actor", r.Actor.Name)
	}
	switch audit.Outcome(r.Outcome) {
	case audit.Succeeded:
	case audit.Failed:
		row.Outcome = badge{Text: "failed", Tone: toneBad}
	default:
		row.Outcome, row.Unsettled = badge{Text: r.Outcome, Tone: toneAmber}, true
	}
	before, err := fieldsOf(r.Old)
	if err != nil {
		return auditRow{}, fmt.Errorf("read the old values of record %s: %w", r.ID, err)
	}
	after, err := fieldsOf(r.New)
	if err != nil {
		return auditRow{}, fmt.Errorf("read the new values of record %s: %w", r.ID, err)
	}
	row.Before, row.After = before != nil, after != nil
	row.Changes = changesOf(before, after)
	return row, nil
}

// whoDid names who made a change. Who was not signed in is named only if they gave the
// name of a user.
func whoDid(a wire.AuditActor) (name, note string) {
	if trace.Kind(a.Kind) != trace.Anonymous {
		return a.Name, ""
	}
	if a.Name == "" {
		return "Somebody", "not signed in, under no user's name"
	}
	return a.Name, "not signed in"
}

// fieldsOf reads values, an object or null: then the fields are nil.
func fieldsOf(values json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(cmp.Or(string(values), "null")))
	d.UseNumber() // shown as they came
	var fields map[string]any
	err := d.Decode(&fields)
	return fields, err
}

// changesOf lists the fields of both, in the order of their names.
func changesOf(before, after map[string]any) []auditChange {
	names := map[string]bool{}
	for _, fields := range []map[string]any{before, after} {
		for name := range fields {
			names[name] = true
		}
	}
	var all []auditChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, auditChange{Name: name, Old: valueOf(before[name]), New: valueOf(after[name])})
	}
	return all
}

func valueOf(v any) auditValue {
	text := valueText(v)
	if text == "" {
		return auditValue{Text: nothingText(v), None: true}
	}
	cut := utf8.RuneCountInString(text) - maxValue
	if cut <= 0 {
		return auditValue{Text: text}
	}
	return auditValue{Text: string([]rune(text)[:maxValue]), Cut: cut}
}

// nothingText says that there is nothing, in the way of its kind.
func nothingText(v any) string {
	switch v.(type) {
	case string:
		return "empty"
	case []any, map[string]any:
		return "empty list"
	}
	return "none"
}

// valueText is a value without JSON's marks: lists with commas between, the fields of
// an object each with its name.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, valueText(item))
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := valueText(v[name]); text != "" {
				parts = append(parts, name+" "+text)
			}
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v) // texts and numbers
}
