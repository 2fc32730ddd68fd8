package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const deepest = 5

type field struct {
	Name     string // e.g. "items[].gate.state"
	Type     string // e.g. "list of string", "string (date) or null"
	Required bool
	About    string
	Limits   []string // e.g. "1 to 500", "one of `day`, `week`, `month`"
	Example  string
}

func (s schema) names() []string {
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (d *document) fields(object schema, prefix string, depth int) []field {
	if depth == deepest {
		return nil
	}
	var all []field
	for _, name := range object.names() {
		s := object.Properties[name]
		all = append(all, d.field(prefix+name, s, slices.Contains(object.Required, name), ""))
		inner, lists := d.inner(s)
		all = append(all, d.fields(inner, prefix+name+lists+".", depth+1)...)
	}
	return all
}

// inner returns the object in a list or in an optional value.
func (d *document) inner(s schema) (object schema, lists string) {
	for {
		object, _ = d.resolve(s)
		switch {
		case object.Items != nil:
			lists += "[]"
			s = *object.Items
		case len(object.AnyOf) > 0:
			s = object.AnyOf[0]
		default:
			return object, lists
		}
	}
}

func (d *document) field(name string, s schema, required bool, about string) field {
	object, _ := d.resolve(s)
	f := field{Name: name, Type: d.kind(s), Required: required, About: about, Limits: limits(object)}
	if f.About == "" {
		f.About = s.Description
	}
	examples := object.Examples
	if object.Items != nil {
		item, _ := d.resolve(*object.Items)
		for _, limit := range limits(item) {
			f.Limits = append(f.Limits, "each "+limit)
		}
		examples = append(examples, item.Examples...)
	}
	if len(examples) > 0 {
		f.Example = plain(examples[0])
	}
	return f
}

func (d *document) kind(s schema) string {
	object, name := d.resolve(s)
	var all []string
	for _, one := range slices.Concat(object.AnyOf, object.OneOf) {
		all = append(all, d.kind(one))
	}
	for _, t := range object.Type {
		switch {
		case t == "array" && object.Items != nil:
			t = "list of " + d.kind(*object.Items)
		case t == "object" && name != "":
			t = name
		case t == "string" && object.Format != "":
			t += " (" + object.Format + ")"
		}
		all = append(all, t)
	}
	if i := slices.Index(all, "null"); i >= 0 { // comes last
		all = append(slices.Delete(all, i, i+1), "null")
	}
	if len(all) == 0 {
		return "any"
	}
	return strings.Join(all, " or ")
}

// limits returns the constraints of a value as text, with values in backticks.
func limits(s schema) []string {
	var all []string
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, "`"+plain(v)+"`")
		}
		all = append(all, "one of "+strings.Join(values, ", "))
	}
	if text := between(string(s.Minimum), string(s.Maximum)); text != "" {
		all = append(all, text)
	}
	if text := between(count(s.MinLength), count(s.MaxLength)); text != "" {
		all = append(all, text+" characters")
	}
	if s.MaxItems > 0 {
		all = append(all, fmt.Sprintf("at most %d items", s.MaxItems))
	}
	if s.UniqueItems {
		all = append(all, "no duplicates")
	}
	if s.Pattern != "" {
		all = append(all, "matches `"+s.Pattern+"`")
	}
	if len(s.Default) > 0 {
		all = append(all, "default `"+plain(s.Default)+"`")
	}
	return all
}

func between(least, most string) string {
	switch {
	case least != "" && most != "":
		return least + " to " + most
	case least != "":
		return "at least " + least
	case most != "":
		return "at most " + most
	}
	return ""
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// plain returns a JSON value for display: text without quotes.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// example returns JSON with the required fields, and with optional fields that have an example. It
// omits optional objects, because they may exclude each other.
func (d *document) example(s schema) string {
	object, _ := d.resolve(s)
	switch {
	case len(object.AnyOf) > 0:
		return d.example(object.AnyOf[0])
	case len(object.Examples) > 0:
		return compact(object.Examples[0])
	case len(object.Enum) > 0:
		return compact(object.Enum[0])
	case object.Items != nil:
		return "[" + d.example(*object.Items) + "]"
	case slices.Contains(object.Type, "object"):
		var all []string
		for _, name := range object.names() {
			property := object.Properties[name]
			inner, _ := d.inner(property)
			if slices.Contains(object.Required, name) || len(inner.Properties) == 0 && d.example(property) != unknown {
				all = append(all, fmt.Sprintf("%q:%s", name, d.example(property)))
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	case slices.Contains(object.Type, "boolean"):
		return "true"
	}
	return unknown
}

const unknown = `"…"`

func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return unknown
	}
	return b.String()
}

type run struct {
	Code bool
	Text string
}

// marked splits a text at its backticks, into plain text and code.
func marked(text string) []run {
	var all []run
	for i, part := range strings.Split(text, "`") {
		if part != "" {
			all = append(all, run{i%2 == 1, part})
		}
	}
	return all
}

func paragraphs(text string) []string { return strings.Split(text, "\n\n") }
