package view

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Form is a form as its template shows it. The zero form is empty.
type Form struct {
	Values url.Values // of the inputs, by their names
	Err    *FormError // nil unless the form was rejected
}

// FormError is the reason why a form was rejected.
type FormError struct {
	Status  int // HTTP status
	Message string
	Field   string // name of the first wrong input; "" is the whole form
	Code    string // of the API; "" if the console rejected the form

	Others map[string]string // messages about other inputs, by their names
}

// Add adds a message about another input, unless there is one already.
func (e *FormError) Add(name, message string) {
	if _, known := e.Others[name]; known || name == "" || name == e.Field {
		return
	}
	if e.Others == nil {
		e.Others = map[string]string{}
	}
	e.Others[name] = message
}

// FilledForm returns a form with values: name, value, name, value.
func FilledForm(pairs ...string) Form {
	f := Form{Values: url.Values{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Values.Set(pairs[i], pairs[i+1])
	}
	return f
}

// Status returns the HTTP status of a page with the form.
func (f Form) Status() int {
	if f.Err == nil {
		return http.StatusOK
	}
	return f.Err.Status
}

// Value returns the value of an input.
func (f Form) Value(name string) string { return f.Values.Get(name) }

// Has reports whether a value of an input with several is chosen.
func (f Form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Message returns the message about an input, or about the whole form if name is "".
func (f Form) Message(name string) string {
	switch {
	case f.Err == nil:
		return ""
	case f.Err.Field == name:
		return f.Err.Message
	}
	return f.Err.Others[name]
}

// Input is an input with its label, for the template "field".
type Input struct {
	Name, Label, Hint, Value, Error string

	Type     string // "text", "password", "number", "date" …
	Bounds   bounds // of a number
	Example  string // placeholder
	Complete string // autocomplete
	Required bool
	Focus    bool     // the first wrong one
	Filter   bool     // of a list's filter, where no label says that it is optional
	Options  []Option // of a select
}

// bounds are the limits of a number that a browser checks before it sends the form, and the
// keyboard that a phone shows. They are empty unless the input is a number. The API checks too.
type bounds struct{ Min, Max, Step, Mode string }

// Option is an option of a select.
type Option struct {
	Value, Label string
	Selected     bool
}

// Text returns a text input.
func (f Form) Text(name, label, hint string) Input {
	first := f.Err != nil && f.Err.Field == name
	return Input{Name: name, Label: label, Hint: hint, Value: f.Value(name), Error: f.Message(name), Focus: first, Type: "text", Complete: "off"}
}

// Select returns an input with options.
func (f Form) Select(name, label, hint string, options []Option) Input {
	in := f.Text(name, label, hint)
	for _, o := range options {
		o.Selected = o.Value == in.Value
		in.Options = append(in.Options, o)
	}
	return in
}

// Require makes an input required.
func (in Input) Require() Input { in.Required = true; return in }

// Placeholder sets an example.
func (in Input) Placeholder(example string) Input { in.Example = example; return in }

// Number makes an input a number from low to high.
func (in Input) Number(low, high float64) Input {
	in.Type, in.Bounds = "number", bounds{Min: Decimal(low), Max: Decimal(high), Step: "any", Mode: "decimal"}
	return in
}

// Integer makes an input a whole number from low to high.
func (in Input) Integer(low, high int64) Input {
	in = in.Number(float64(low), float64(high))
	in.Bounds.Step, in.Bounds.Mode = "1", "numeric"
	return in
}

// WithType sets an input's type.
func (in Input) WithType(kind string) Input { in.Type = kind; return in }

// InFilter makes an input part of a list's filter.
func (in Input) InFilter() Input { in.Filter = true; return in }

// Autocomplete lets the browser fill an input, e.g. with "username".
func (in Input) Autocomplete(complete string) Input { in.Complete = complete; return in }

// FormPage is a page with one form.
type FormPage struct {
	Title  string
	Lead   string
	Action string // path that the form is posted to
	Button string
	Back   string // path that Cancel leads to
	Hidden []HiddenInput
	Inputs []Input
	Form   Form
}

// Confirmation is a page that asks before a change that cannot be undone, or that takes
// something away from others.
type Confirmation struct {
	Title  string       // the question, with names: "Revoke key-ab12cd34?"
	Lead   string       // what it means, in a sentence or two
	Points []string     // what will happen, one by one
	Facts  []Comparison // what will change

	Action string // path that the form is posted to
	Button string // "Revoke the key"
	Danger bool   // takes something away
	Back   string // path that Cancel leads to

	// Hidden has what the page was made of. If that has changed in the meantime, the change is
	// not made.
	Hidden []HiddenInput

	Type string // name that the user must type; optional
	Form Form   // with the reason why the previous form was rejected
}

// Comparison is a value before and after a change.
type Comparison struct{ Name, Now, Then string }

// Same reports whether the value stays.
func (f Comparison) Same() bool { return f.Now == f.Then }

// Long reports whether the two do not fit side by side on a phone.
func (f Comparison) Long() bool { return max(len(f.Now), len(f.Then)) > sideBySide }

const sideBySide = 15 // characters of code in half the width of a phone

// HiddenInput is a hidden input, such as a value from when the form was made.
type HiddenInput struct{ Name, Value string }

// OriginalPrefix begins the name of the hidden input with an input's original value. By it the
// console notices that another user has changed the value in the meantime.
const OriginalPrefix = "was_"

// Fields are the values of a thing's inputs, by their names.
type Fields map[string]string

// Form returns a form with the values, which are its originals too.
func (all Fields) Form() Form {
	f := Form{Values: url.Values{}}
	for name, value := range all {
		f.Values.Set(name, value)
		f.Values.Set(OriginalPrefix+name, value)
	}
	return f
}

// Originals returns the original values. They stay when the form is shown again: after a
// conflict the user must load it again.
func (f Form) Originals() []HiddenInput {
	var all []HiddenInput
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		if strings.HasPrefix(name, OriginalPrefix) {
			all = append(all, HiddenInput{name, f.Values.Get(name)})
		}
	}
	return all
}
