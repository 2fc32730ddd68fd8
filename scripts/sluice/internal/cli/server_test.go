package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/tests/check"
)

func TestServerSelection(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		variable map[string]string // OTHER is replaced by the URL of the other server
		args     string
		here     string // token that the context's server gets; "" if it gets no request
		other    string
		asked    string
		exit     int
	}{
		{name: "the context", args: "plan list", here: "Bearer the-token", asked: "GET /projects/shop/environments/prod/plans"},
		{name: "flags", args: "plan list -p lab -e dev", here: "Bearer the-token", asked: "GET /projects/lab/environments/dev/plans"},
		{
			name: "variables", variable: map[string]string{"SLUICE_PROJECT": "p", "SLUICE_ENVIRONMENT": "e", "SLUICE_TOKEN": "t"},
			args: "plan list", here: "Bearer t", asked: "GET /projects/p/environments/e/plans",
		},
		{
			name: "flags before variables", variable: map[string]string{"SLUICE_PROJECT": "p", "SLUICE_ENVIRONMENT": "e"},
			args: "plan list --project lab", here: "Bearer the-token", asked: "GET /projects/lab/environments/e/plans",
		},
		{
			name: "the context's token is not sent to another server", variable: map[string]string{"SLUICE_URL": "OTHER"},
			args: "project list", exit: 3,
		},
		{
			name: "the context's project does not apply to another server", variable: map[string]string{"SLUICE_URL": "OTHER", "SLUICE_TOKEN": "t"},
			args: "plan list", exit: 2,
		},
		{
			name: "another server with its own token", variable: map[string]string{"SLUICE_URL": "OTHER/", "SLUICE_TOKEN": "t"},
			args: "plan list -p lab -e dev", other: "Bearer t", asked: "GET /projects/lab/environments/dev/plans",
		},
		{
			name: "--context before all variables", variable: map[string]string{"SLUICE_URL": "OTHER", "SLUICE_TOKEN": "t"},
			args: "plan list --context test", here: "Bearer the-token", asked: "GET /projects/shop/environments/prod/plans",
		},
		{name: "not a URL", variable: map[string]string{"SLUICE_URL": "sluice"}, args: "project list", exit: 2},
		{name: "a URL with a password", variable: map[string]string{"SLUICE_URL": "https://a:b@sluice"}, args: "project list", exit: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			here, other := newFake(t, nil), newFake(t, nil)
			empty := answer{200, list("")}
			here.all, other.all = &empty, &empty
			p := newPerson(t, here.URL)
			for k, v := range tt.variable {
				p.variable[k] = strings.Replace(v, "OTHER", other.URL, 1)
			}
			r := p.runs(strings.Fields(tt.args)...)
			if r.exit != tt.exit {
				t.Errorf("%s", r)
			}
			if got := strings.Join(here.tokens, ","); got != tt.here {
				t.Errorf("token at the context's server: got %q, want %q", got, tt.here)
			}
			if got := strings.Join(other.tokens, ","); got != tt.other {
				t.Errorf("token at the other server: got %q, want %q", got, tt.other)
			}
			if got := strings.Join(append(here.requests(), other.requests()...), ","); got != tt.asked {
				t.Errorf("request: got %q, want %q", got, tt.asked)
			}
		})
	}
}

func TestWithoutContext(t *testing.T) {
	t.Parallel()
	p := newPerson(t, "")
	if r := p.runs("project", "list"); r.exit != 2 || r.err != `error: no server: run "sluice login URL", or set SLUICE_URL (usage)`+"\n" {
		t.Errorf("%s", r)
	}
	if r := p.runs("context", "list"); r.exit != 0 || r.out != "" || r.err != "No contexts.\n" {
		t.Errorf("%s", r)
	}
	if r := p.runs("context", "show"); r.exit != 4 {
		t.Errorf("%s", r)
	}
	p.home = ""
	if r := p.runs("project", "list"); r.exit != 1 || !strings.Contains(r.err, "set HOME or XDG_CONFIG_HOME") {
		t.Errorf("%s", r)
	}
	f := newFake(t, shop())
	p.variable["SLUICE_URL"], p.variable["SLUICE_TOKEN"] = f.URL, "t"
	if r := p.runs("project", "list"); r.exit != 0 {
		t.Errorf("%s", r)
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	f := newFake(t, shop())
	p := newPerson(t, "")
	p.terminal, p.stdin = true, "ada\nopen sesame\n"
	if r := p.runs("login", f.URL+"/"); r.exit != 0 || r.err != "Username: Password for ada: \n" {
		t.Fatalf("%s", r)
	}
	name := host(f)
	path := filepath.Join(string(p.dir()), "contexts", name+".json")
	info, err := os.Stat(path)
	p.must(err)
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the context file: got %o, want 600", got)
	}
	if r := p.runs("context", "set", "-p", "shop", "-e", "prod"); r.exit != 0 {
		t.Errorf("%s", r)
	}
	p.stdin, p.terminal = "open sesame", false
	if r := p.runs("login", "--password-stdin"); r.exit != 0 {
		t.Errorf("%s", r)
	}
	c, err := p.dir().Get(name)
	p.must(err)
	want := contexts.Context{Name: name, URL: f.URL, Project: "shop", Environment: "prod", Username: "ada", Token: "new-token", ExpiresAt: c.ExpiresAt}
	check.Equal(t, "saved", want, c)
	if r := p.runs("login", f.URL); r.exit != 2 || !strings.Contains(r.err, "--password-stdin") {
		t.Errorf("%s", r)
	}
	if r := p.runs("logout"); r.exit != 0 {
		t.Errorf("%s", r)
	}
	b, err := os.ReadFile(path)
	p.must(err)
	if strings.Contains(string(b), "token") {
		t.Errorf("the context still contains a token: %s", b)
	}
	if r := p.runs("whoami"); r.exit != 3 || !strings.Contains(r.err, "Not signed in to "+f.URL) {
		t.Errorf("%s", r)
	}
	for _, q := range f.requests() {
		if strings.HasPrefix(q, "POST /session ") && q != `POST /session {"username":"ada","password":"open sesame"}` {
			t.Errorf("sign-in request: got %s", q)
		}
	}
}

// logout deletes the saved session even if the session has ended or the server fails.
func TestLogoutDeletesTheSession(t *testing.T) {
	t.Parallel()
	for code, exit := range map[string]int{"unauthenticated": 0, "internal": 1} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			f.all = &answer{map[string]int{"unauthenticated": 401, "internal": 500}[code], `{"code":"` + code + `","message":"M."}`}
			p := newPerson(t, f.URL)
			if r := p.runs("logout"); r.exit != exit {
				t.Errorf("%s", r)
			}
			c, err := p.dir().Get("test")
			p.must(err)
			if c.Token != "" {
				t.Error("the context still contains a token")
			}
		})
	}
}

func TestIsPlaintext(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"https://sluice.example.com": false, "http://sluice.example.com": true, "http://localhost:8080": false,
		"http://127.0.0.1:8080": false, "http://[::1]:8080": false, "http://x.localhost": false, "http://10.0.0.1": true,
	} {
		if got := isPlaintext(url); got != want {
			t.Errorf("isPlaintext(%q): got %v, want %v", url, got, want)
		}
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args, typed string
		exit              int
		asked             []string
	}{
		{"a new user's", "admin create-user bob", "one\none\n", 0, []string{`POST /users {"username":"bob","password":"one"}`}},
		{"two that differ", "admin create-user bob", "one\ntwo\n", 1, nil},
		{"your own", "password", "old\nnew\nnew\n", 0, []string{"GET /session", `PUT /users/ada/password {"current_password":"old","password":"new"}`}},
		{"another user's", "admin reset-password bob", "new\nnew\n", 0, []string{`PUT /users/bob/password {"password":"new"}`}},
		{"none", "admin create-user bob --password-stdin", "", 2, nil},
		{"too long", "admin create-user bob --password-stdin", strings.Repeat("x", 5000), 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shop())
			p := newPerson(t, f.URL)
			p.terminal, p.stdin = true, tt.typed
			if r := p.runs(strings.Fields(tt.args)...); r.exit != tt.exit {
				t.Errorf("%s", r)
			}
			check.Equal(t, "asked", tt.asked, f.requests())
		})
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	one, two := newFake(t, shop()), newFake(t, shop())
	p := newPerson(t, one.URL)
	p.stdin = "pw"
	if r := p.runs("login", two.URL, "--context", "two", "-u", "ada", "--password-stdin"); r.exit != 0 {
		t.Fatalf("%s", r)
	}
	current := func() (names []string) {
		r := p.runs("context", "list", "-o", "json")
		var got struct {
			Items []contextView `json:"items"`
		}
		p.must(json.Unmarshal([]byte(r.out), &got))
		for _, c := range got.Items {
			if c.Current {
				names = append(names, c.Name)
			}
		}
		return names
	}
	check.Equal(t, "current after login", []string{"two"}, current())
	if r := p.runs("context", "use", "test"); r.exit != 0 || current()[0] != "test" {
		t.Errorf("%s", r)
	}
	if r := p.runs("context", "use", "nosuch"); r.exit != 4 {
		t.Errorf("%s", r)
	}
	if r := p.runs("context", "delete", "test", "--yes"); r.exit != 0 || current() != nil {
		t.Errorf("%s", r)
	}
	if r := p.runs("context", "set", "--context", "two"); r.exit != 2 {
		t.Errorf("%s", r)
	}
}

func TestContextSet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		ended      bool
		want       string
		exit       int
		stderr     string
	}{
		{name: "another environment", args: "-p lab -e dev", want: "lab/dev"},
		{name: "another project with the same environment", args: "-p lab", want: "lab/prod"},
		{name: "only a project", args: "-p lab --environment=", want: "lab/"},
		{name: "none", args: "--project= --environment=", want: "/"},
		{
			name: "no such environment", args: "-e dev", want: "shop/prod", exit: 4,
			stderr: "error: Project shop has no environment dev. It has: prod. (not_found)\n",
		},
		{name: "no such project", args: "-p no", want: "shop/prod", exit: 4, stderr: "error: Project no does not exist. (not_found)\n"},
		{name: "only a project that does not exist", args: "-p no --environment=", want: "shop/prod", exit: 4, stderr: "error: Project no does not exist. (not_found)\n"},
		{name: "without a session", args: "-p no -e dev", ended: true, want: "no/dev"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, newFake(t, shop()).URL)
			c, err := p.dir().Get("test")
			p.must(err)
			if tt.ended {
				c.ExpiresAt = now
				p.must(p.dir().Put(c))
			}
			r := p.runs(strings.Fields("context set " + tt.args)...)
			c, err = p.dir().Get("test")
			p.must(err)
			if got := c.Project + "/" + c.Environment; r.exit != tt.exit || r.err != tt.stderr || got != tt.want {
				t.Errorf("got %swith context %s, want %s", r, got, tt.want)
			}
		})
	}
}

// TestVerbose checks that --verbose logs every request without secrets, and does not change standard
// output.
func TestVerbose(t *testing.T) {
	t.Parallel()
	const env = "/api/v1/projects/shop/environments/prod"
	tests := []struct {
		name, args, request string
		stderr              []string
	}{
		{"a read", "plan list", "r-1", []string{"GET " + env + "/plans: 200 after 0s, request r-1"}},
		{"without a request ID", "plan list", "", []string{"GET " + env + "/plans: 200 after 0s, request unknown"}},
		{
			"two pages", "project list", "r-1",
			[]string{"GET /api/v1/projects: 200 after 0s, request r-1", "GET /api/v1/projects?page_token=more: 200 after 0s, request r-1"},
		},
		{"a password", "login --username ada --password-stdin", "r-1", []string{"POST /api/v1/session: 200 after 0s, request r-1"}},
		{"a key", "key create --plan plan-starter", "r-1", []string{"POST " + env + "/api-keys: 200 after 0s, request r-1"}},
		{
			"a webhook's token", "app webhook enable hello --ci none", "r-1",
			[]string{
				"GET " + env + "/apps/hello: 200 after 0s, request r-1", "GET " + env + "/apps/hello/webhook: 200 after 0s, request r-1",
				"POST " + env + "/apps/hello/webhook: 200 after 0s, request r-1",
			},
		},
		{"an error", "app show nosuch", "r-1", []string{"GET " + env + "/apps/nosuch: 418 after 0s, request r-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := func(more ...string) result {
				f := newFake(t, shop())
				f.request = tt.request
				p := newPerson(t, f.URL)
				p.stdin = "open sesame"
				r := p.runs(append(strings.Fields(tt.args), more...)...)
				r.out = strings.ReplaceAll(r.out, f.URL, "URL")
				return r
			}
			r := runs("--verbose")
			var got []string
			for line := range strings.Lines(r.err) {
				if strings.Contains(line, ", request ") {
					got = append(got, strings.TrimSuffix(line, "\n"))
				}
			}
			check.Equal(t, "requests", tt.stderr, got)
			for _, secret := range []string{"open sesame", "the-token", "new-token", "sluice_ab12cd34_", "dG9rZW4"} {
				if strings.Contains(r.err, secret) {
					t.Errorf("the log contains %s: %s", secret, r.err)
				}
			}
			if quiet := runs(); quiet.out != r.out || quiet.exit != r.exit {
				t.Errorf("got %swithout --verbose: %s", r, quiet)
			}
		})
	}
}

func TestVerboseWithoutResponse(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.Close()
	p := newPerson(t, f.URL)
	p.tries = 2
	r := p.runs("project", "list", "--verbose")
	if n := strings.Count(r.err, "GET /api/v1/projects: no response after 0s: "); r.exit != 1 || n != 2 {
		t.Errorf("got %d logged tries, want 2: %s", n, r)
	}
}
