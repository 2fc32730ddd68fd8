package console

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

	// Based is what the page was based on, sent along in hidden fields: if that has
	// changed meanwhile, the change is not made.
	Based []based

	// Type is a name that has to be typed; "" asks for none.
	Type string

	Form form // with the reason why the answer before was not taken
}

// fact is one thing that will change.
type fact struct{ Name, Now, Then string }

// Same tells that it stays as it is.
func (f fact) Same() bool { return f.Now == f.Then }

// based is one hidden field.
type based struct{ Name, Value string }

// confirm answers with a confirmation.
func (v *visit) confirm(tab string, c confirmation) error {
	return v.show("confirm", sheet{Status: c.Form.Status(), Title: c.Title, Tab: tab}, c)
}

// retyped tells whether the name that a confirmation asks for was typed.
func (v *visit) retyped(name string) bool { return v.typed("name") == name }
