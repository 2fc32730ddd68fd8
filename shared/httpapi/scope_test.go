package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

type office struct{ asked []string }

func (o *office) Session(r *http.Request) (identity.Session, error) {
	name := r.Header.Get("User")
	if name == "" {
		return identity.Session{}, problem.FromCode(problem.Unauthenticated)
	}
	c := identity.Caller{Username: name, Admin: name == "admin"}
	if role, ok := strings.CutPrefix(name, "token:"); ok {
		c.Grant = identity.Grant{Project: "shop", Role: app.Role(role)}
	}
	return identity.Session{Caller: c, Forgeable: r.Header.Get("Cookie") != ""}, nil
}

func (o *office) look(there bool, what string) error {
	o.asked = append(o.asked, what)
	if !there {
		return problem.FromCode(problem.NotFound)
	}
	return nil
}

func (o *office) Project(_ context.Context, name string) (app.Project, error) {
	if err := o.look(name == "shop", name); err != nil {
		return app.Project{}, err
	}
	return app.Project{Name: name, Members: map[string]app.Role{"vic": app.Viewer, "dev": app.Developer, "own": app.Owner}}, nil
}

func (o *office) Environment(_ context.Context, project, name string) (app.Environment, error) {
	return app.Environment{Project: project, Name: name, Namespace: project + "-" + name}, o.look(name == "prod", project+"/"+name)
}

func (o *office) App(_ context.Context, namespace, name string) (app.App, error) {
	return app.App{Namespace: namespace, Name: name}, o.look(name == "hello", namespace+"/"+name)
}

func (o *office) ask(t *testing.T, user string, row *api.Row, values ...string) (Scope, error) {
	t.Helper()
	a := NewAPI(slog.New(slog.DiscardHandler), o, o)
	r := httptest.NewRequestWithContext(t.Context(), row.Method, "/", http.NoBody)
	r.Header.Set("User", user)
	for i, name := range row.Parameters() {
		r.SetPathValue(name, values[i])
	}
	return a.scope(row, http.Header{}, r)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	rows := map[app.Role]*api.Row{
		app.Viewer: api.GetProject.Row, app.Developer: {Method: "PATCH", Path: "/x/{project}", Need: api.Developer}, app.Owner: api.DeleteProject.Row,
		"": {Method: "GET", Path: "/x/{project}", Need: api.SignedIn}, // a project route without a role: always denied
	}
	allowed := map[string]map[app.Role]bool{
		"vic": {app.Viewer: true},
		"dev": {app.Viewer: true, app.Developer: true},
		"own": {app.Viewer: true, app.Developer: true, app.Owner: true},
		"out": {},

		"token:viewer":    {app.Viewer: true},
		"token:developer": {app.Viewer: true, app.Developer: true},
		"token:owner":     {app.Viewer: true, app.Developer: true, app.Owner: true},
		"admin":           {app.Viewer: true, app.Developer: true, app.Owner: true, "": true},
	}
	for user, may := range allowed {
		for role, row := range rows {
			s, err := new(office).ask(t, user, row, "shop")
			if may[role] && (err != nil || s.Caller.Username != user || s.Project.Name != "shop" || !s.Role.Allows(role) && role != "") {
				t.Errorf("%s as %s: got %+v, %v", user, role, s, err)
			}
			if !may[role] && !problem.Is(err, problem.Forbidden) {
				t.Errorf("%s as %s: got %v, want forbidden", user, role, err)
			}
		}
	}
	for _, name := range []string{"nowhere", "no/where"} {
		if _, err := new(office).ask(t, "admin", rows[app.Viewer], name); !problem.Is(err, problem.NotFound) {
			t.Errorf("admin in %s: got %v", name, err)
		}
	}
	if _, err := new(office).ask(t, "own", api.ListUsers.Row); !problem.Is(err, problem.Forbidden) {
		t.Errorf("owner at an admin route: got %v", err)
	}
	if _, err := new(office).ask(t, "admin", api.ListUsers.Row); err != nil {
		t.Error(err)
	}
}

func TestRecordedReadIsNotForged(t *testing.T) {
	t.Parallel()
	for row, want := range map[*api.Row]problem.Code{api.ExplainRequest.Row: problem.CSRFRequired, api.GetProject.Row: ""} {
		r := httptest.NewRequestWithContext(t.Context(), row.Method, "/", http.NoBody)
		r.Header.Set("User", "own")
		r.Header.Set("Cookie", "of a browser")
		r.SetPathValue("project", "shop")
		_, err := NewAPI(slog.New(slog.DiscardHandler), new(office), new(office)).scope(row, http.Header{}, r)
		if (err == nil) != (want == "") || want != "" && !problem.Is(err, want) {
			t.Errorf("%s with the cookie: got %v, want %q", row.Pattern(), err, want)
		}
	}
}

// TestServiceTokenIsRejectedOnUserRoutes checks that service tokens cannot use routes for users. A token of another project
// gets the same response as a user who is not a member.
func TestServiceTokenIsRejectedOnUserRoutes(t *testing.T) {
	t.Parallel()
	for _, row := range []*api.Row{api.SignOut.Row, api.ChangePassword.Row, api.SetMembers.Row, api.RemoveMember.Row, api.CreateToken.Row, api.RevokeToken.Row, api.EnableWebhook.Row, api.AddTrust.Row} {
		if _, err := new(office).ask(t, "own", row, "shop", "prod", "hello"); err != nil {
			t.Errorf("owner at %s: got %v", row.Pattern(), err)
		}
		if _, err := new(office).ask(t, "token:owner", row, "shop", "prod", "hello"); !problem.Is(err, problem.Forbidden) {
			t.Errorf("token at %s: got %v", row.Pattern(), err)
		}
		if !row.Has("project") {
			continue
		}
		_, outsider := new(office).ask(t, "out", row, "nowhere", "prod", "hello")
		if _, err := new(office).ask(t, "token:owner", row, "nowhere", "prod", "hello"); err == nil || err.Error() != outsider.Error() {
			t.Errorf("token of another project at %s: got %v, want %v", row.Pattern(), err, outsider)
		}
	}
	for _, row := range []*api.Row{api.GetSession.Row, api.ListProjects.Row, api.ListTokens.Row, api.DeleteProject.Row} {
		if _, err := new(office).ask(t, "token:owner", row, "shop"); err != nil {
			t.Errorf("token at %s: got %v", row.Pattern(), err)
		}
	}
}

func TestForeignAndUnknownProjectsLookAlike(t *testing.T) {
	t.Parallel()
	var o office
	_, there := o.ask(t, "out", api.GetProject.Row, "shop")
	for _, name := range []string{"nowhere", "../users/ada"} {
		if _, err := o.ask(t, "out", api.GetProject.Row, name); err == nil || there == nil || err.Error() != there.Error() {
			t.Errorf("%s: got %v, want %v", name, err, there)
		}
	}
	for _, row := range []*api.Row{api.GetApp.Row, api.ListUsers.Row} {
		if _, err := o.ask(t, "", row, "shop", "prod", "hello"); !problem.Is(err, problem.Unauthenticated) {
			t.Errorf("unauthenticated at %s: got %v", row.Path, err)
		}
	}
	_, _ = o.ask(t, "out", api.GetApp.Row, "shop", "prod", "hello")
	check.Equal(t, "what was looked up", []string{"shop", "nowhere", "shop"}, o.asked)
}

func TestScope(t *testing.T) {
	t.Parallel()
	s, err := new(office).ask(t, "vic", api.GetApp.Row, "shop", "prod", "hello")
	if err != nil || s.Role != app.Viewer || s.Environment.Namespace != "shop-prod" || s.App.Name != "hello" || s.Param("app") != "hello" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, values := range [][]string{
		{"shop", "none", "hello"}, {"shop", "prod", "none"}, {"shop", "a/b", "hello"}, {"shop", "prod", "../x"}, {"shop", "", "hello"}, {"shop", "prod", "NO"},
	} {
		var o office
		if _, err := o.ask(t, "vic", api.GetApp.Row, values...); !problem.Is(err, problem.NotFound) {
			t.Errorf("%v: got %v", values, err)
		}
		for _, asked := range o.asked {
			if asked != "shop" && asked != "shop/none" && asked != "shop/prod" && asked != "shop-prod/none" {
				t.Errorf("%v: %s was looked up", values, asked)
			}
		}
	}
	if s, err := new(office).ask(t, "", api.CallWebhook.Row, "a", "b"); err != nil || s.Param("namespace") != "a" {
		t.Errorf("webhook call: got %v", err)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	s, err := new(office).ask(t, "dev", api.CreateKey.Row, "shop", "prod")
	check.OK(t, err)
	s.request.Header.Set(api.IdempotencyKey, "k")
	if got := s.Header(api.IdempotencyKey); !slices.Equal(got, []string{"k"}) {
		t.Errorf("got %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("undeclared header: got no panic")
		}
	}()
	s.Header("X-Forwarded-For")
}

func TestUndeclaredHeaders(t *testing.T) {
	t.Parallel()
	a := NewAPI(slog.New(slog.DiscardHandler), new(office), new(office))
	var got http.Header
	ServeRaw(a, api.GetWebhookBuild.Row, func(_ http.ResponseWriter, r *http.Request, _ Scope) error {
		got = r.Header
		return nil
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/webhook/shop-prod/hello/builds/1", http.NoBody)
	want := http.Header{"X-Service-Token": {"t"}, "Prefer": {"wait=1", "wait=2"}}
	r.Header = want.Clone()
	for _, name := range []string{"X-Other", "Cookie", "X-Github-Event", "Idempotency-Key"} {
		r.Header.Set(name, "v")
	}
	a.ServeHTTP(httptest.NewRecorder(), r)
	check.Equal(t, "headers", want, got)
}

func TestBodyLimitComesFirst(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]int{"admin": http.StatusRequestEntityTooLarge, "": http.StatusUnauthorized} {
		var o office
		a := NewAPI(slog.New(slog.DiscardHandler), &o, &o)
		Serve(a, api.UpdateApp, func(context.Context, Scope, wire.UpdateApp) (wire.App, error) { return wire.App{}, nil })
		for _, path := range []string{"nowhere/environments/prod/apps/hello", "shop/environments/prod/apps/none"} {
			body := strings.NewReader(strings.Repeat(" ", MaxBody+1))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/api/v1/projects/"+path, body)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User", user)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != want || len(o.asked) > 0 {
				t.Errorf("%q at %s: got %d after reading %q, want %d", user, path, w.Code, o.asked, want)
			}
		}
	}
}

func TestSessionEndsDuringTheBody(t *testing.T) {
	t.Parallel()
	var o office
	a := NewAPI(slog.New(slog.DiscardHandler), &o, &o)
	Serve(a, api.CreateUser, func(context.Context, Scope, wire.CreateUser) (wire.User, error) {
		t.Error("the call changed something")
		return wire.User{}, nil
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/users", http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User", "admin")
	r.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
		r.Header.Del("User")
		return 0, io.EOF
	}))
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("got %d, want 401", w.Code)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"7": 7, "0": 0, "-7": -7, "07": 0, "+7": 0, "7x": 0, "": 0, "9223372036854775808": 0} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.SetPathValue("build", text)
		if got := (Scope{request: r}).Number("build"); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, configured, proto, want string }{
		{"URL of the call", "", "", "http://api.example.com:8080"},
		{"behind an HTTPS proxy", "", "https", "https://api.example.com:8080"},
		{"invalid X-Forwarded-Proto", "", "javascript", "http://api.example.com:8080"},
		{"configured", "https://sluice.example.com/", "http", "https://sluice.example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "http://api.example.com:8080/", http.NoBody)
			r.Header.Set("X-Forwarded-Proto", tt.proto)
			if got := (Scope{request: r}).BaseURL(tt.configured); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
