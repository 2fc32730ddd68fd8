package console

import (
	"net/http"
)

// sheet is what a page says about itself.
type sheet struct {
	Status int    // HTTP status; 0 is 200
	Title  string // of the window and, in most pages, the heading
	Tab    string // which part of the navigation it belongs to: see tab constants
}

// Parts of the navigation.
const (
	tabEnvironments = "environments"
	tabApps         = "apps"
	tabPlans        = "plans"
	tabKeys         = "api-keys"
	tabMembers      = "members"
	tabAudit        = "audit"
)

// view is what a page's template gets: the frame, the sheet, and the page's own data
// as Body.
type view struct {
	frame
	sheet

	Notice string // what has just been done
	Path   string // of the page, with its query, to come back to
	Body   any
}

// Section is the part of an environment to switch to in another one.
func (v view) Section() string {
	if v.Tab == "" {
		return tabApps
	}
	return v.Tab
}

// show answers with a page: the template of that name inside the layout.
func (v *visit) show(name string, s sheet, body any) error {
	f, err := v.frame()
	if err != nil {
		return err
	}
	notice := takeNotice(v.w, v.r)
	return v.s.pages.write(v.w, s.Status, name, "layout", view{
		frame: f, sheet: s, Notice: notice, Path: v.r.URL.RequestURI(), Body: body,
	})
}

// part answers with one template of a page, without the layout, for a page that
// refreshes a part of itself.
func (v *visit) part(name, part string, body any) error {
	f, err := v.frame()
	if err != nil {
		return err
	}
	return v.s.pages.write(v.w, http.StatusOK, name, part, view{frame: f, Body: body})
}

// done answers a form that was taken: on to a page of the console, which tells what
// was done.
func (v *visit) done(path string, n notice) error {
	leaveNotice(v.w, n)
	return v.goTo(path)
}

// goTo sends the browser to another page of the console.
func (v *visit) goTo(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// lost answers for pages that do not exist.
func (s *Service) lost(w http.ResponseWriter, r *http.Request) error {
	s.refuse(w, r, noPage())
	return nil
}
