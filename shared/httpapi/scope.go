package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

// Sessions says who makes a request; *identity.Guard implements it.
type Sessions interface {
	// Session authenticates a request. It returns a csrf_required problem for a change that
	// may be forged. Other problems: unauthenticated, unavailable.
	Session(r *http.Request) (identity.Session, error)
}

// Resources are what paths name; *store.Store implements it.
type Resources interface {
	// Project, Environment and App read one. Problem: not_found.
	Project(ctx context.Context, name string) (app.Project, error)
	Environment(ctx context.Context, project, name string) (app.Environment, error)
	App(ctx context.Context, namespace, name string) (app.App, error)
}

// Scope is who asks and what the path names, as far as the route's row has it: the
// caller has what the row needs, and all of it is there.
type Scope struct {
	Session     identity.Session
	Caller      identity.Caller // the session's
	Role        app.Role        // of the caller in the project; admins are owners
	Project     app.Project
	Environment app.Environment
	App         app.App
	Match       Match // what If-Match asks for, of a row that reads it

	row     *api.Row
	request *http.Request
	head    http.Header // of the answer
}

// Param is a parameter of the path.
func (s Scope) Param(name string) string { return s.request.PathValue(name) }

// Number is a parameter of the path that is a number, written in one way alone; what is
// none is 0, which nothing has.
func (s Scope) Number(name string) int64 {
	n, err := strconv.ParseInt(s.Param(name), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s.Param(name) {
		return 0
	}
	return n
}

// SetLocation names the work that the call began, by its number, in the header of the response.
func (s Scope) SetLocation(n int64) {
	names := s.row.Begins.Parameters()
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = s.Param(name)
	}
	values[len(values)-1] = strconv.FormatInt(n, 10)
	s.head.Set(api.Location, s.row.Begins.URL(url.PathEscape, values...))
}

// Header gives all values of a header. The row must say that it is read.
func (s Scope) Header(name string) []string {
	if !slices.Contains(s.row.Headers, name) {
		panic(s.row.Pattern() + " does not say that it reads " + name)
	}
	return s.request.Header.Values(name)
}

// BaseURL is the API's own address from outside, without a slash at the end: the
// configured one, or else the one by which the caller has reached it.
func (s Scope) BaseURL(configured string) string {
	switch {
	case configured != "":
		return strings.TrimRight(configured, "/")
	case s.request.TLS != nil || s.request.Header.Get("X-Forwarded-Proto") == "https":
		return "https://" + s.request.Host
	}
	return "http://" + s.request.Host
}

// scope returns the caller of a request, and what the path names.
func (a *API) scope(row *api.Row, head http.Header, r *http.Request) (Scope, error) {
	s, err := a.caller(row, head, r)
	if err != nil {
		return Scope{}, err
	}
	return s, a.find(r.Context(), &s)
}

// caller finds out who makes a request. It writes the caller's budget into the header of the
// response. Problems: those of [Sessions], rate_limited, forbidden.
func (a *API) caller(row *api.Row, head http.Header, r *http.Request) (Scope, error) {
	s := Scope{row: row, request: r, head: head}
	if !row.Need.Session() {
		return s, nil
	}
	var err error
	if s.Session, err = a.sessions.Session(r); err != nil {
		return Scope{}, err
	}
	s.Caller = s.Session.Caller
	if a.budgets != nil && row.Budgeted() {
		if err := a.budgets.take(s.Caller, head); err != nil {
			return Scope{}, err
		}
	}
	if row.Recorded && s.Session.Forgeable {
		return Scope{}, problem.Of(problem.CSRFRequired)
	}
	if row.Need == api.Admin && !s.Caller.Admin {
		return Scope{}, problem.Of(problem.Forbidden)
	}
	return s, nil
}

// find looks up what the path names, as far as the caller may know it. Problems: forbidden,
// not_found.
func (a *API) find(ctx context.Context, s *Scope) (err error) {
	row := s.row
	if !row.Need.Session() {
		return nil
	}
	if row.Has("project") {
		err = a.inProject(ctx, row.Need.Role(), s)
	}
	if err == nil && row.People && s.Caller.Service() {
		err = problem.New(problem.Forbidden, "A service token may not do this, whatever its role; it is for people who sign in.")
	}
	if err == nil && row.Has("environment") {
		s.Environment, err = a.Environment(ctx, s.Project.Name, s.Param("environment"))
	}
	if err == nil && row.Has("app") {
		s.App, err = a.App(ctx, s.Environment, s.Param("app"))
	}
	return err
}

// inProject asks for a role in the project of the path. A project that does not exist is
// not_found for admins; anyone else who is no member gets forbidden whether or not it
// exists, so that names cannot be probed.
func (a *API) inProject(ctx context.Context, need app.Role, s *Scope) error {
	name, err := s.Param("project"), noSuch("project")
	if app.ValidLabel(name) { // it becomes part of a document's path
		s.Project, err = a.resources.Project(ctx, name)
	}
	if err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	s.Role = s.Caller.RoleIn(s.Project)
	if s.Caller.Admin {
		return err
	}
	if err != nil || !s.Role.Allows(need) {
		return problem.Of(problem.Forbidden)
	}
	return nil
}

// Environment reads an environment of a project. Problem: not_found.
func (a *API) Environment(ctx context.Context, project, name string) (app.Environment, error) {
	if !app.ValidLabel(name) {
		return app.Environment{}, noSuch("environment")
	}
	return a.resources.Environment(ctx, project, name)
}

// App reads an app of an environment. Problem: not_found.
func (a *API) App(ctx context.Context, of app.Environment, name string) (app.App, error) {
	if !app.ValidLabel(name) {
		return app.App{}, noSuch("app")
	}
	return a.resources.App(ctx, of.Namespace, name)
}

// Missing says which required field a request lacks, or sets to null.
func Missing(field string) error {
	return problem.At(field, problem.New(problem.MissingField, "%s is required.", field))
}

// Required is [Missing] of a field that is not there.
func Required[T any](field string, value *T) error {
	if value == nil {
		return Missing(field)
	}
	return nil
}

// Given is what a field holds; one that is not there holds the zero value.
func Given[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}

func noSuch(what string) error { return problem.New(problem.NotFound, "There is no such %s.", what) }
