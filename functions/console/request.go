package console

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// request is one request of somebody who is signed in, or believes so: whether the
// session is good is known once frame has answered.
type request struct {
	*http.Request

	s   *Service
	w   http.ResponseWriter
	api *client.Client // signed in

	project, environment string // of the path, "" outside of one

	frame func() (frame, error) // waits for it; the same each time
}

// frame is what every page shows around its content.
type frame struct {
	User         wire.User
	CSRF         string // of the session, in every form
	Project      wire.Project
	Projects     []wire.Project     // that can be switched to
	Environments []wire.Environment // of the project, for the switcher
	Environment  string
}

// Can tells whether the user's role in the project allows what needs a role, e.g.
// "developer". Pages leave out what it does not; the API decides.
func (f frame) Can(need string) bool { return app.Role(f.Project.Role).Allows(app.Role(need)) }

// signedIn lets do answer the requests of who has a session. What the frame shows is
// asked for at the same time as what the page shows.
func (s *Service) signedIn(do handler) httpapi.Handler {
	return func(w http.ResponseWriter, hr *http.Request) error {
		token, ok := s.sessionToken(hr)
		if !ok {
			s.toSignIn(w, hr)
			return nil
		}
		ctx, cancel := context.WithCancel(hr.Context())
		r := &request{
			Request: hr.WithContext(ctx), s: s, w: w, api: s.api.WithToken(token),
			project: hr.PathValue("project"), environment: hr.PathValue("environment"),
		}
		wait := r.readFrame(ctx)
		defer wait() //nolint:errcheck // whoever needed the frame has seen its error
		defer cancel()
		if err := do(r); err != nil {
			s.fail(r, err)
		}
		return nil
	}
}

// projectsOffered is how many projects can be switched to from any page; the list of
// projects has all of them.
const projectsOffered = 20

// readFrame asks for the frame, and gives what waits for it.
func (r *request) readFrame(ctx context.Context) (wait func() error) {
	f := frame{Environment: r.environment}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		session, err := r.api.WhoAmI(ctx)
		if err == nil {
			f.User, f.CSRF = wire.User(session.User), session.CSRFToken
			trace.Identify(ctx, trace.Actor{Kind: trace.User, Name: session.User.Username}) // for the log
		}
		return err
	})
	if r.project != "" {
		g.Go(read(&f.Project, func() (wire.Project, error) { return r.api.Project(ctx, r.project) }))
		g.Go(func() error {
			list, err := r.api.ProjectsPage(ctx, client.Page{Size: projectsOffered})
			f.Projects = list.Items
			return err
		})
		g.Go(func() error {
			list, err := r.api.EnvironmentsPage(ctx, r.project, client.Page{})
			f.Environments = list.Items
			return err
		})
	}
	wait = sync.OnceValue(g.Wait)
	r.frame = func() (frame, error) {
		err := wait()
		return f, err
	}
	return wait
}

// read gives what reads something into a variable, for [errgroup.Group.Go].
func read[T any](into *T, from func() (T, error)) func() error {
	return func() (err error) {
		*into, err = from()
		return err
	}
}

// sessionToken is the session of a request's cookie. Of several it is the first good
// one, and none if there are good ones of two people, as the API has it (see
// identity.Guard).
func (s *Service) sessionToken(r *http.Request) (client.Token, bool) {
	tokens := identity.Cookies(r)
	if len(tokens) == 1 {
		return client.Token(tokens[0]), true
	}
	var found client.Token
	var owner string
	for _, t := range tokens {
		who, err := s.api.WithToken(client.Token(t)).WhoAmI(r.Context())
		switch {
		case err != nil: // it is dead, or the page will tell that the API is away
		case found == "":
			found, owner = client.Token(t), who.User.Username
		case owner != who.User.Username:
			return "", false
		}
	}
	return found, found != ""
}

// checkCSRF refuses a form that does not carry the session's CSRF value, or cannot be
// read.
func (r *request) checkCSRF() error {
	if r.ParseForm() != nil {
		return unreadable()
	}
	f, err := r.frame()
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("csrf")), []byte(f.CSRF)) != 1 || f.CSRF == "" {
		return httpError{
			Status: http.StatusForbidden, Title: "Form out of date",
			Text: "No changes were made: the form belongs to an earlier session. Go back, reload the page and try again.",
		}
	}
	return nil
}

// page is what a page says about itself.
type page struct {
	Status int    // HTTP status; 0 is 200
	Title  string // of the window and, in most pages, the heading
	Tab    string // which part of the navigation it belongs to: see tab constants
}

// Parts of the navigation.
const (
	tabOverview     = "overview"
	tabEnvironments = "environments"
	tabApps         = "apps"
	tabPlans        = "plans"
	tabKeys         = "api-keys"
	tabMembers      = "members"
	tabActivity     = "activity"
	tabAudit        = "audit"
)

// pageData is what a page's template gets: the frame, the page, and its own data as Body.
type pageData struct {
	frame
	page

	Notice string // what has just been done
	Path   string // of the page, with its query, to come back to
	Body   any
}

// Section is the path of the same part of another environment, as segments.
func (v pageData) Section(project, environment string) string {
	segments := []string{"projects", project, "environments", environment}
	switch v.Tab {
	case tabApps, tabPlans, tabKeys, tabActivity:
		segments = append(segments, v.Tab)
	}
	return at(segments...)
}

// show answers with a page: the template of that name inside the layout.
func (r *request) show(name string, p page, body any) error {
	f, err := r.frame()
	if err != nil {
		return err
	}
	return r.s.renderer.Write(r.w, r.Request, p.Status, name, "layout", pageData{
		frame: f, page: p, Notice: takeNotice(r.w, r.Request), Path: r.URL.RequestURI(), Body: body,
	})
}

// part answers with one template of a page, without the layout, for a page that
// refreshes a part of itself.
func (r *request) part(name, part string, body any) error {
	f, err := r.frame()
	if err != nil {
		return err
	}
	return r.s.renderer.Write(r.w, r.Request, http.StatusOK, name, part, pageData{frame: f, Body: body})
}

// done answers a form that was taken: on to a page of the console, which tells what
// was done.
func (r *request) done(path string, n notice) error {
	leaveNotice(r.w, n)
	return r.redirect(path)
}

const (
	noticeCookie  = "__Host-sluice_notice"
	noticeSeconds = 60 // for the page that follows to be asked for
)

// leaveNotice leaves a notice for the next page.
func leaveNotice(w http.ResponseWriter, n notice) {
	http.SetCookie(w, cookieOf(noticeCookie, strconv.Itoa(int(n)), noticeSeconds))
}

// takeNotice returns the stored notice and deletes it.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, cookieOf(noticeCookie, "", -1))
	n, _ := strconv.Atoi(c.Value) // a value that the console did not write is no notice
	return notice(n).text()
}

// cookieOf is a cookie of the console's own, which no script reads and no other host sets.
func cookieOf(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}

// redirect sends the browser to another page of the console.
func (r *request) redirect(path string) error {
	http.Redirect(r.w, r.Request, path, http.StatusSeeOther)
	return nil
}

// at is the path of a page, of unescaped segments: at("projects", "shop").
func at(segments ...string) string {
	var b strings.Builder
	b.WriteString(home)
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// inProject and inEnvironment are paths of the request's project and environment.
func (r *request) inProject(rest ...string) string {
	return at(append([]string{"projects", r.project}, rest...)...)
}

func (r *request) inEnvironment(rest ...string) string {
	return at(append([]string{"projects", r.project, "environments", r.environment}, rest...)...)
}

// own gives s if it is a page of the console, else "": nobody is sent elsewhere by a
// link that somebody else has made.
func own(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.ContainsAny(s, "\\\r\n\t") {
		return ""
	}
	if u.Path != home && !strings.HasPrefix(u.Path, home+"/") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/../") {
		return ""
	}
	u.Fragment = ""
	return u.String()
}
