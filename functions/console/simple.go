package console

// simple is a page that is one form of plain fields.
type simple struct {
	Title  string
	Lead   string
	Action string // path that it is posted to
	Button string // says what it does
	Back   string // path of the way out
	Based  []based
	Inputs []input
	Form   form
}

// ask answers with a form's page.
func (v *visit) ask(tab string, p simple) error {
	return v.show("new", sheet{Status: p.Form.Status(), Title: p.Title, Tab: tab}, p)
}
