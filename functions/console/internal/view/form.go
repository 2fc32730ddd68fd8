package view

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/wire"
)

// Form holds the values and the error of a form. The zero value is an empty form.
type Form struct {
	Values url.Values
	Err    *FormError // nil unless the form was rejected
}

// FormError is the error of a rejected form.
type FormError struct {
	Status  int // HTTP status
	Message string
	Field   string // first invalid input; "" for the whole form
	Code    string // of the API; "" if the console rejected the form

	Others map[string]string // messages of other invalid inputs, by name
}

// Add adds a message for another input, unless the input has one.
func (e *FormError) Add(name, message string) {
	if _, known := e.Others[name]; known || name == "" || name == e.Field {
		return
	}
	if e.Others == nil {
		e.Others = map[string]string{}
	}
	e.Others[name] = message
}

// FilledForm returns a form with values, given as pairs of name and value.
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

// Has reports whether an input with several values has the given value.
func (f Form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Message returns the message of an input, or of the whole form if name is "".
func (f Form) Message(name string) string {
	switch {
	case f.Err == nil:
		return ""
	case f.Err.Field == name:
		return f.Err.Message
	}
	return f.Err.Others[name]
}

// Input is an input for the template "field".
type Input struct {
	Name, Label, Hint, Value, Error string

	Type     string // "text", "password", "number", "date" …
	Bounds   bounds // of a number, checked by the browser
	Example  string // placeholder
	Complete string // autocomplete
	Required bool
	Focus    bool     // first invalid input
	Filter   bool     // part of a filter; omits "optional"
	Options  []Option // of a select
}

// bounds are the HTML attributes of a number. Mode selects the keyboard of a phone.
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

// Select returns a select with options.
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

// Placeholder sets the placeholder.
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

// WithType sets the type of an input.
func (in Input) WithType(kind string) Input { in.Type = kind; return in }

// InFilter makes an input part of a filter.
func (in Input) InFilter() Input { in.Filter = true; return in }

// Autocomplete sets the autocomplete attribute, e.g. "username".
func (in Input) Autocomplete(complete string) Input { in.Complete = complete; return in }

// FormPage is a page with one form.
type FormPage struct {
	Title  string
	Lead   string
	Action string // path of the POST request
	Button string
	Back   string // path of Cancel
	Hidden []HiddenInput
	Inputs []Input
	Form   Form

	Preview  string // path of the POST request that shows the effect of the change; "" for none
	Forecast *wire.PlanForecast
}

// Confirmation is a page before a change that cannot be undone or that affects other users.
type Confirmation struct {
	Title  string       // a question: "Revoke key-ab12cd34?"
	Lead   string       // consequences, in a sentence or two
	Points []string     // more consequences
	Facts  []Comparison // changes of values

	Action string // path of the POST request
	Button string // "Revoke key"
	Danger bool   // destructive
	Back   string // path of Cancel

	// Hidden holds the state on which the page is based. If it has changed, the change is not made.
	Hidden []HiddenInput

	Type string // name that the user must enter, or ""
	Form Form   // with the error of the previous attempt
}

// Comparison is a value before and after a change.
type Comparison struct{ Name, Now, Then string }

// Same reports whether the value does not change.
func (f Comparison) Same() bool { return f.Now == f.Then }

// Long reports whether the values are too long to fit side by side on a phone.
func (f Comparison) Long() bool { return max(len(f.Now), len(f.Then)) > sideBySide }

const sideBySide = 15 // characters in half the width of a phone

// HiddenInput is a hidden input.
type HiddenInput struct{ Name, Value string }

// OriginalPrefix is the prefix of hidden inputs with the original value of an input. The console
// uses it to detect concurrent changes.
const OriginalPrefix = "was_"

// Fields are the values of inputs, by name.
type Fields map[string]string

// Form returns a form with the values, also as original values.
func (all Fields) Form() Form {
	f := Form{Values: url.Values{}}
	for name, value := range all {
		f.Values.Set(name, value)
		f.Values.Set(OriginalPrefix+name, value)
	}
	return f
}

// Originals returns the hidden inputs with the original values. They remain after a conflict, so
// that the user must reload the form.
func (f Form) Originals() []HiddenInput {
	var all []HiddenInput
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		if strings.HasPrefix(name, OriginalPrefix) {
			all = append(all, HiddenInput{name, f.Values.Get(name)})
		}
	}
	return all
}
