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

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

// request is a request with a session token, which is known to be valid only after layout returns.
type request struct {
	*http.Request

	s   *Service
	w   http.ResponseWriter
	api *client.Client

	project, environment string

	layout func() (layoutData, error) // waits for the data of the layout
}

type layoutData struct {
	User         wire.Caller
	CSRF         string
	Project      wire.Project
	Projects     []wire.Project
	Environments []wire.Environment
	Environment  string
}

// Can reports whether the user's role in the project includes the role need, e.g. "developer". It
// only decides what a page shows.
func (f layoutData) Can(need string) bool { return app.Role(f.Project.Role).Allows(app.Role(need)) }

// allows reports whether the user has an access level in the project.
func (f layoutData) allows(need api.Access) bool {
	if need == api.Admin {
		return f.User.Admin
	}
	return f.Can(string(need.Role()))
}

// signedIn returns a handler that calls do if the request has a session token, and otherwise
// redirects to the sign-in page. It reads the data of the layout concurrently with do.
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
		wait := r.readLayout(ctx)
		defer wait() //nolint:errcheck // callers of layout handle the error
		defer cancel()
		if err := do(r); err != nil {
			s.fail(r, err)
		}
		return nil
	}
}

const projectsOffered = 20

// readLayout starts to read the data of the layout. wait blocks until it has ended.
func (r *request) readLayout(ctx context.Context) (wait func() error) {
	f := layoutData{Environment: r.environment}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		session, err := r.api.WhoAmI(ctx)
		if err == nil {
			f.User, f.CSRF = session.User, session.CSRFToken
			reqctx.SetActor(ctx, reqctx.Actor{Kind: reqctx.User, Name: session.User.Username})
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
	r.layout = func() (layoutData, error) {
		err := wait()
		return f, err
	}
	return wait
}

// read returns a function for [errgroup.Group.Go] that stores the result of from.
func read[T any](into *T, from func() (T, error)) func() error {
	return func() (err error) {
		*into, err = from()
		return err
	}
}

// sessionToken returns the session token of a request. Of several cookies it returns the first
// valid one, but none if they belong to different users, as identity.Guard does.
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
		case err != nil: // invalid, or the API is unavailable, which the page reports
		case found == "":
			found, owner = client.Token(t), who.User.Username
		case owner != who.User.Username:
			return "", false
		}
	}
	return found, found != ""
}

func (r *request) checkCSRF() error {
	if r.ParseForm() != nil {
		return unreadable()
	}
	f, err := r.layout()
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

type page struct {
	Status int // HTTP status; 0 means 200
	Title  string
	Tab    string // selected part of the navigation

	Propagation *propagation // of the change that led to the page, or nil
}

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

type pageData struct {
	layoutData
	page

	Notice string
	Path   string
	Body   any
}

func (v pageData) Section(project, environment string) string {
	segments := []string{"projects", project, "environments", environment}
	switch v.Tab {
	case tabApps, tabPlans, tabKeys, tabActivity:
		segments = append(segments, v.Tab)
	}
	return at(segments...)
}

func (r *request) show(name string, p page, body any) error {
	f, err := r.layout()
	if err != nil {
		return err
	}
	return r.s.renderer.Write(r.w, r.Request, p.Status, name, "layout", pageData{
		layoutData: f, page: p, Notice: takeNotice(r.w, r.Request), Path: r.URL.RequestURI(), Body: body,
	})
}

func (r *request) part(name, part string, body any) error {
	f, err := r.layout()
	if err != nil {
		return err
	}
	return r.s.renderer.Write(r.w, r.Request, http.StatusOK, name, part, pageData{layoutData: f, Body: body})
}

func (r *request) done(path string, n notice) error {
	leaveNotice(r.w, n)
	return r.redirect(path)
}

const (
	noticeCookie  = "__Host-sluice_notice"
	noticeSeconds = 60
)

func leaveNotice(w http.ResponseWriter, n notice) {
	http.SetCookie(w, cookieOf(noticeCookie, strconv.Itoa(int(n)), noticeSeconds))
}

func takeNotice(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, cookieOf(noticeCookie, "", -1))
	n, _ := strconv.Atoi(c.Value)
	return notice(n).text()
}

// cookieOf returns a cookie that scripts cannot read. With a __Host- name, other hosts cannot set
// it.
func cookieOf(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}

func (r *request) redirect(path string) error {
	http.Redirect(r.w, r.Request, path, http.StatusSeeOther)
	return nil
}

func at(segments ...string) string {
	var b strings.Builder
	b.WriteString(home)
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

func (r *request) inProject(rest ...string) string {
	return at(append([]string{"projects", r.project}, rest...)...)
}

func (r *request) inEnvironment(rest ...string) string {
	return at(append([]string{"projects", r.project, "environments", r.environment}, rest...)...)
}

// localPath returns s if it is the path of a console page, and "" otherwise. It prevents open
// redirects.
func localPath(s string) string {
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
