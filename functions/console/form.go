package console

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
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

	Others map[string]string // what else is wrong, by field
}

// wrongField is a field of a form and what is wrong with it.
type wrongField struct{ Name, Message string }

// wrong is the request's form as it was typed, refused for what the console itself sees,
// or nil where that is nothing.
func (r *request) wrong(found []wrongField) *form {
	if len(found) == 0 {
		return nil
	}
	f := r.invalid(found[0].Name, found[0].Message)
	for _, w := range found[1:] {
		f.Refusal.add(w)
	}
	return &f
}

// add tells of one more wrong field, unless something is told of it already.
func (r *refusal) add(w wrongField) {
	if _, known := r.Others[w.Name]; known || w.Name == "" || w.Name == r.Field {
		return
	}
	if r.Others == nil {
		r.Others = map[string]string{}
	}
	r.Others[w.Name] = w.Message
}

// filled is a form with something in it already: name, value, name, value.
func filled(pairs ...string) form {
	f := form{Typed: url.Values{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Typed.Set(pairs[i], pairs[i+1])
	}
	return f
}

// invalid is the request's form as it was typed, refused for a reason that the console
// itself sees.
func (r *request) invalid(field, message string) form {
	return form{Typed: r.PostForm, Refusal: &refusal{Status: http.StatusUnprocessableEntity, Message: message, Field: field}}
}

// refused returns the request's form as it was typed, with the reason why the API rejected it.
// ok is false if the session has ended, which is not about the form.
func (r *request) refused(err error) (f form, ok bool) {
	if client.HasCode(err, "unauthenticated") {
		return form{}, false
	}
	f.Typed = r.PostForm
	var e *client.Error
	if errors.As(err, &e) && e.Code != "" {
		f.Refusal = &refusal{Status: e.Status, Message: e.Message, Code: e.Code, Field: r.inputFor(e.Code, "")}
		for i, wrong := range e.Fields {
			name := r.inputFor(wrong.Code, wrong.Field)
			if i == 0 {
				f.Refusal.Field = name
			}
			f.Refusal.add(wrongField{name, wrong.Message})
		}
		return f, true
	}
	r.s.logAPIError(r.Context(), err)
	f.Refusal = &refusal{
		Status:  http.StatusBadGateway,
		Message: "The management API did not answer, so it is not known whether this was done. Look before you try again.",
	}
	return f, true
}

// inputFor returns the name of the input that an error of the API is about, or "" for the whole
// form. An input has the name of the API's field, without the object around it. For a name that
// is taken the API names no field, and the claims of a trust have several inputs.
func (r *request) inputFor(code, field string) string {
	names := []string{field[strings.LastIndexByte(field, '.')+1:]}
	switch code {
	case "already_exists", "name_in_scope", "namespace_taken", "namespace_not_empty":
		names = append(names, "name", "username")
	case "invalid_trust":
		names = append(names, "repository")
	}
	if i := slices.IndexFunc(names, r.PostForm.Has); i >= 0 {
		return names[i]
	}
	return ""
}

// ask shows a page with a form.
type ask func(r *request, f form) error

// again shows a form that the API has refused once more; see refused.
func (r *request) again(err error, page ask) error {
	f, ok := r.refused(err)
	if !ok {
		return err
	}
	return page(r, f)
}

// gone tells that what a form was about is not there any more.
func gone(err error) bool { return client.HasCode(err, "not_found") }

// Status is that of a page which shows the form.
func (f form) Status() int {
	if f.Refusal == nil {
		return http.StatusOK
	}
	return f.Refusal.Status
}

// General is the message that is about no field.
func (f form) General() string { return f.Wrong("") }

// Value is what was typed into a field.
func (f form) Value(name string) string { return f.Typed.Get(name) }

// Has tells whether a value of a field with several was chosen.
func (f form) Has(name, value string) bool { return slices.Contains(f.Typed[name], value) }

// Wrong is the message about a field.
func (f form) Wrong(name string) string {
	switch {
	case f.Refusal == nil:
		return ""
	case f.Refusal.Field == name:
		return f.Refusal.Message
	}
	return f.Refusal.Others[name]
}

// first tells whether a field is the first that is wrong.
func (f form) first(name string) bool { return f.Refusal != nil && f.Refusal.Field == name }

// input is one field of a form, for the template "field".
type input struct {
	Name, Label, Hint, Value, Error string

	Type     string // "text", "password", "number", "date" …
	Bounds   bounds // of a number
	Example  string // placeholder
	Complete string // autocomplete
	Required bool
	Focus    bool     // the first that is wrong
	Filter   bool     // of a list's filter: none of them is required, which goes without saying
	Options  []option // of a select
}

// bounds are what a browser checks of a number before it sends it, and the keyboard that
// a phone shows for it; empty of a field that is no number. The API checks all the same.
type bounds struct{ Min, Max, Step, Mode string }

// option is one choice of a select.
type option struct {
	Value, Label string
	Selected     bool
}

// Text is a field of text.
func (f form) Text(name, label, hint string) input {
	return input{Name: name, Label: label, Hint: hint, Value: f.Value(name), Error: f.Wrong(name), Focus: f.first(name), Type: "text", Complete: "off"}
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

// Number makes a field one of a number from low to high.
func (in input) Number(low, high float64) input {
	in.Type, in.Bounds = "number", bounds{Min: number(low), Max: number(high), Step: "any", Mode: "decimal"}
	return in
}

// Whole makes a field one of a whole number from low to high.
func (in input) Whole(low, high int64) input {
	in = in.Number(float64(low), float64(high))
	in.Bounds.Step, in.Bounds.Mode = "1", "numeric"
	return in
}

// As sets a field's type.
func (in input) As(kind string) input { in.Type = kind; return in }

// Narrows makes it one of a list's filter.
func (in input) Narrows() input { in.Filter = true; return in }

// Auto lets the browser fill a field in, e.g. with "username".
func (in input) Auto(complete string) input { in.Complete = complete; return in }

// formPage is a page that is one form of plain fields.
type formPage struct {
	Title    string
	Lead     string
	Action   string // path that it is posted to
	Button   string // says what it does
	Back     string // path of the way out
	Original []original
	Inputs   []input
	Form     form
}

// ask answers with a form's page.
func (r *request) ask(tab string, p formPage) error {
	return r.show("form", page{Status: p.Form.Status(), Title: p.Title, Tab: tab}, p)
}

// confirmation asks, on a page of its own, before something is done that cannot be
// undone, or that takes something away from others.
type confirmation struct {
	Title  string   // the question, with names: "Revoke key-ab12cd34?"
	Lead   string   // what it means, in a sentence or two
	Points []string // what will happen, one by one
	Facts  []fact   // what will change: now and then

	Action string // path that the answer is posted to
	Button string // says what it does: "Revoke the key"
	Danger bool   // takes something away
	Back   string // path of the way out

	// Original is what the page was made of: if that has changed meanwhile, the change is
	// not made.
	Original []original

	// Type is a name that has to be typed; "" asks for none.
	Type string

	Form form // with the reason why the answer before was not taken
}

// fact is one thing that will change.
type fact struct{ Name, Now, Then string }

// Same tells that it stays as it is.
func (f fact) Same() bool { return f.Now == f.Then }

// Long tells that on a phone the two do not stand side by side.
func (f fact) Long() bool { return max(len(f.Now), len(f.Then)) > sideBySide }

const sideBySide = 15 // characters of code in half the width of a phone

// confirm answers with a confirmation.
func (r *request) confirm(tab string, c confirmation) error {
	return r.show("confirm", page{Status: c.Form.Status(), Title: c.Title, Tab: tab}, c)
}

// retyped tells whether the name that a confirmation asks for was typed.
func (r *request) retyped(name string) bool { return r.PostForm.Get("name") == name }

// wrongName is said when it was not.
const wrongName = "That is another name. Nothing was done."

// original is a hidden field of a form: what something was when the form was made, to
// notice that somebody else has changed it meanwhile.
type original struct{ Name, Value string }

const wasMark = "was_" // begins the name of the hidden field that holds what a field was

// values is a thing as its form shows it: what each field holds.
type values map[string]string

// form is the form filled in with them, which carries them along as originals.
func (all values) form() form {
	f := form{Typed: url.Values{}}
	for name, value := range all {
		f.Typed.Set(name, value)
		f.Typed.Set(wasMark+name, value)
	}
	return f
}

// Original is what the fields held at first. It stays when the form is shown again: who
// is told that somebody else was faster has to load it anew.
func (f form) Original() []original {
	var all []original
	for _, name := range slices.Sorted(maps.Keys(f.Typed)) {
		if strings.HasPrefix(name, wasMark) {
			all = append(all, original{name, f.Typed.Get(name)})
		}
	}
	return all
}

// typed is what the sent form holds in the fields of a thing.
func (r *request) typed(of values) values {
	all := values{}
	for name := range of {
		all[name] = r.PostForm.Get(name)
	}
	return all
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

// changes finds the fields that the sent form changes, given what they hold now and
// what was typed: those that were typed otherwise than the form had them at first. If
// somebody else has changed one of these meanwhile, to something else, conflict is the
// form with a word on it, and nothing shall be done. What else has changed is left as it
// is.
//
// Between this look and the change there is a moment; in it the last one to save
// wins, as it would with any two who save one after the other.
func (r *request) changes(current, typed values) (changed changes, conflict *form) {
	changed = changes{}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		was := r.PostForm.Get(wasMark + name)
		if typed[name] == was || typed[name] == current[name] {
			continue
		}
		if current[name] != was {
			f := r.invalid(name, "Somebody else has changed this meanwhile to "+quoted(current[name])+
				". Nothing was saved; load the page again to go on from there.")
			f.Refusal.Status = http.StatusConflict
			return nil, &f
		}
		changed[name] = true
	}
	return changed, nil
}

// optional is a field of a change, when the form changes it; nil takes it away.
func optional[T any](changed bool, value *T) wire.Optional[T] {
	if !changed {
		return wire.Optional[T]{}
	}
	return wire.Optional[T]{Set: true, Value: value}
}

func quoted(s string) string {
	if s == "" {
		return "nothing"
	}
	return "“" + s + "”"
}
