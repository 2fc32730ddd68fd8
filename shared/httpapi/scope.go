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
	"github.com/sluicegate/sluice/shared/wire"
)

// Sessions authenticates requests. *identity.Guard implements it.
type Sessions interface {
	// Session authenticates a request. It returns an unauthenticated or unavailable problem, or a
	// csrf_required problem for a change that may be forged.
	Session(r *http.Request) (identity.Session, error)
}

// Resources reads the resources in paths. *store.Store implements it.
type Resources interface {
	// The methods return a not_found problem if the resource does not exist.
	Project(ctx context.Context, name string) (app.Project, error)
	Environment(ctx context.Context, project, name string) (app.Environment, error)
	App(ctx context.Context, namespace, name string) (app.App, error)
}

// Scope is the caller and the resources in the path. The resources exist, and the caller has the
// access that the row requires.
type Scope struct {
	Session     identity.Session
	Caller      identity.Caller // of the session
	Role        app.Role        // of the caller in the project; admins are owners
	Project     app.Project
	Environment app.Environment
	App         app.App
	Match       Match // of a row that reads If-Match

	row     *api.Row
	request *http.Request
	head    http.Header // of the response
}

// Param returns a path parameter.
func (s Scope) Param(name string) string { return s.request.PathValue(name) }

// Number returns a numeric path parameter, or 0 if it is not a number in canonical form.
func (s Scope) Number(name string) int64 {
	n, err := strconv.ParseInt(s.Param(name), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s.Param(name) {
		return 0
	}
	return n
}

// SetLocation sets Location to the URL of the work with number n that the call started.
func (s Scope) SetLocation(n int64) {
	names := s.row.Begins.Parameters()
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = s.Param(name)
	}
	values[len(values)-1] = strconv.FormatInt(n, 10)
	s.head.Set(api.Location, s.row.Begins.URL(url.PathEscape, values...))
}

// Header returns all values of a header. It panics if the row does not declare the header.
func (s Scope) Header(name string) []string {
	if !slices.Contains(s.row.Headers, name) {
		panic(s.row.Pattern() + " does not declare the header " + name)
	}
	return s.request.Header.Values(name)
}

// BaseURL returns the public URL of the API without a trailing slash: configured, or if that is
// empty, the URL that the caller used.
func (s Scope) BaseURL(configured string) string {
	switch {
	case configured != "":
		return strings.TrimRight(configured, "/")
	case s.request.TLS != nil || s.request.Header.Get("X-Forwarded-Proto") == "https":
		return "https://" + s.request.Host
	}
	return "http://" + s.request.Host
}

func (a *API) scope(row *api.Row, head http.Header, r *http.Request) (Scope, error) {
	s, err := a.caller(row, head, r)
	if err != nil {
		return Scope{}, err
	}
	return s, a.find(r.Context(), &s)
}

// caller authenticates the caller and writes its remaining budget to the headers. It returns the
// problems of [Sessions], or a rate_limited or forbidden problem.
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
		return Scope{}, problem.FromCode(problem.CSRFRequired)
	}
	if row.Need == api.Admin && !s.Caller.Admin {
		return Scope{}, problem.FromCode(problem.Forbidden)
	}
	return s, nil
}

// find reads the resources in the path. It returns a forbidden or not_found problem.
func (a *API) find(ctx context.Context, s *Scope) (err error) {
	row := s.row
	if !row.Need.Session() {
		return nil
	}
	if row.Has("project") {
		err = a.inProject(ctx, row.Need.Role(), s)
	}
	if err == nil && row.People && s.Caller.Service() {
		err = problem.New(problem.Forbidden, "Service tokens cannot do this. Sign in as a user.")
	}
	if err == nil && row.Has("environment") {
		s.Environment, err = a.Environment(ctx, s.Project.Name, s.Param("environment"))
	}
	if err == nil && row.Has("app") {
		s.App, err = a.App(ctx, s.Environment, s.Param("app"))
	}
	return err
}

// inProject requires a role in the path's project. It returns a not_found problem to admins if the
// project does not exist. Other callers who are not members get a forbidden problem in any case, so
// they cannot find out which projects exist.
func (a *API) inProject(ctx context.Context, need app.Role, s *Scope) error {
	name, err := s.Param("project"), noSuch("project")
	if app.ValidLabel(name) { // it becomes part of a document path
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
		return problem.FromCode(problem.Forbidden)
	}
	return nil
}

// Environment returns an environment. It returns a not_found problem if it does not exist.
func (a *API) Environment(ctx context.Context, project, name string) (app.Environment, error) {
	if !app.ValidLabel(name) {
		return app.Environment{}, noSuch("environment")
	}
	return a.resources.Environment(ctx, project, name)
}

// App returns an app. It returns a not_found problem if it does not exist.
func (a *API) App(ctx context.Context, of app.Environment, name string) (app.App, error) {
	if !app.ValidLabel(name) {
		return app.App{}, noSuch("app")
	}
	return a.resources.App(ctx, of.Namespace, name)
}

// Missing returns a missing_field problem.
func Missing(field string) error {
	return problem.ForField(field, problem.New(problem.MissingField, "%s is required.", field))
}

// Required returns a missing_field problem if value is nil.
func Required[T any](field string, value *T) error {
	if value == nil {
		return Missing(field)
	}
	return nil
}

// Set stores the value of a field of a change in to, unless the field is absent. It returns a
// missing_field problem if the field is null.
func Set[T any](name string, field wire.Optional[T], to *T) error {
	if field.Set && field.Value == nil {
		return Missing(name)
	}
	field.Apply(to)
	return nil
}

// Deref returns *value, or the zero value if value is nil.
func Deref[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}

func noSuch(what string) error { return problem.New(problem.NotFound, "The %s does not exist.", what) }
