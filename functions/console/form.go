package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/sluicegate/sluice/shared/client"
)

// form is what a form's template shows: what was typed and, if it was refused, why.
// The zero form is an empty one.
type form struct {
	Typed   url.Values
	Refusal *refusal
}

// refusal is why a form was not taken.
type refusal struct {
	Status  int
	Message string
	Field   string // the field that it is about; "" is the whole form
	Code    string // the API's, "" of others
}

// filled is a form with something in it already: name, value, name, value.
func filled(pairs ...string) form {
	f := form{Typed: url.Values{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Typed.Set(pairs[i], pairs[i+1])
	}
	return f
}

// sent is the visit's form as it was typed, refused for a reason that the console
// itself sees.
func (v *visit) sent(field, message string) form {
	return form{Typed: v.r.PostForm, Refusal: &refusal{Status: http.StatusUnprocessableEntity, Message: message, Field: field}}
}

// refused is the visit's form as it was typed, with the reason why the API did not
// take it. fields says which field a code is about; a code that it lacks is about the
// whole form. Only a session that has ended is no matter of the form: then ok is
// false.
func (v *visit) refused(err error, fields map[string]string) (f form, ok bool) {
	if client.HasCode(err, "unauthenticated") {
		return form{}, false
	}
	f.Typed = v.r.PostForm
	var e *client.Error
	if errors.As(err, &e) && e.Code != "" {
		f.Refusal = &refusal{Status: e.Status, Message: e.Message, Code: e.Code, Field: fields[e.Code]}
		return f, true
	}
	v.s.log.ErrorContext(v.ctx, "the management API failed", "error", err)
	f.Refusal = &refusal{
		Status:  http.StatusBadGateway,
		Message: "The management API did not answer, so it is not known whether this was done. Look before you try again.",
	}
	return f, true
}

// Status is that of a page which shows the form.
func (f form) Status() int {
	if f.Refusal == nil {
		return http.StatusOK
	}
	return f.Refusal.Status
}

// General is the message that is about no field.
func (f form) General() string {
	if f.Refusal == nil || f.Refusal.Field != "" {
		return ""
	}
	return f.Refusal.Message
}

// Value is what was typed into a field.
func (f form) Value(name string) string { return f.Typed.Get(name) }

// Has tells whether a value of a field with several was chosen.
func (f form) Has(name, value string) bool {
	for _, v := range f.Typed[name] {
		if v == value {
			return true
		}
	}
	return false
}

// Wrong is the message about a field.
func (f form) Wrong(name string) string {
	if f.Refusal == nil || f.Refusal.Field != name {
		return ""
	}
	return f.Refusal.Message
}

// input is one field of a form, for the templates "input" and "select".
type input struct {
	Name, Label, Hint, Value, Error string

	Type     string // "text", "password", "number", "date" …
	Example  string // placeholder
	Complete string // autocomplete
	Required bool
	Filter   bool     // of a list's filter: none of them is required, which goes without saying
	Options  []option // of a select
}

// option is one choice of a select.
type option struct {
	Value, Label string
	Selected     bool
}

// Text is a field of text.
func (f form) Text(name, label, hint string) input {
	return input{Name: name, Label: label, Hint: hint, Value: f.Value(name), Error: f.Wrong(name), Type: "text", Complete: "off"}
}

// Select is a field with choices.
func (f form) Select(name, label, hint string, options []option) input {
	in := f.Text(name, label, hint)
	for _, o := range options {
		o.Selected = o.Value == in.Value
		in.Options = append(in.Options, o)
	}
	return in
}

// Need makes a field required.
func (in input) Need() input { in.Required = true; return in }

// Like gives a field an example.
func (in input) Like(example string) input { in.Example = example; return in }

// As sets a field's type.
func (in input) As(kind string) input { in.Type = kind; return in }

// Auto lets the browser fill a field in, e.g. with "username".
func (in input) Auto(complete string) input { in.Complete = complete; return in }
