package apps

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestGitSourceOfAnApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	before := o.createApp("hello")
	path := o.apps("/hello/git-source")
	source := wire.GitSource{Repository: "https://git.example.com/shop/hello.git", Branch: "main", Path: "services/api"}

	o.as("dev").delete(path).Refused(404, "not_found")
	got := functest.Read[wire.App](o.as("dev").put(path, `{"repository":"https://git.example.com/shop/hello.git","branch":"main","path":"services/api"}`), 200)
	check.Equal(t, "source", &source, got.GitSource)
	if got.Kind != "git" || got.Image != before.Image || got.Revision != before.Revision {
		t.Errorf("after attaching: %s app with image %s, revision %d", got.Kind, got.Image, got.Revision)
	}
	got = functest.Read[wire.App](o.as("dev").put(path, `{"repository":"git@git.example.com:shop/hello.git","branch":"release"}`), 200)
	if got.GitSource.Branch != "release" || got.GitSource.Path != "" {
		t.Errorf("after the change: source %+v", got.GitSource)
	}

	o.as("dev").delete(path).Is(204)
	got = functest.Read[wire.App](o.as("dev").get(o.apps("/hello")), 200)
	if got.Kind != "image" || got.GitSource != nil || got.Image != before.Image || got.Revision != before.Revision {
		t.Errorf("after detaching: %+v", got)
	}
	o.as("dev").delete(path).Refused(404, "not_found")
}

func TestGitSourceIsRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	o.as("dev").post(o.apps(""), `{"name":"site","git_source":{"repository":"https://git.example.com/site.git","branch":"main"}}`).Is(201)
	path := o.apps("/hello/git-source")
	const good = `{"repository":"https://git.example.com/hello.git","branch":"main"}`
	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"no body", ``, 400, "malformed_json"},
		{"an unknown field", `{"repository":"https://git.example.com/a.git","branch":"main","tag":"v1"}`, 400, "unknown_field"},
		{"a number for branch", `{"repository":"https://git.example.com/a.git","branch":1}`, 400, "wrong_type"},
		{"no repository", `{"branch":"main"}`, 422, "invalid_git_source"},
		{"no branch", `{"repository":"https://git.example.com/a.git"}`, 422, "invalid_git_source"},
		{"a password", `{"repository":"https://ada:pw@git.example.com/a.git","branch":"main"}`, 422, "invalid_git_source"},
		{"an option for branch", `{"repository":"https://git.example.com/a.git","branch":"--upload-pack=x"}`, 422, "invalid_git_source"},
		{"a path that leaves", `{"repository":"https://git.example.com/a.git","branch":"main","path":"../x"}`, 422, "invalid_git_source"},
		{"a long branch", `{"repository":"https://git.example.com/a.git","branch":"` + strings.Repeat("a", 256) + `"}`, 422, "invalid_git_source"},
	}
	for _, tt := range tests {
		o.as("dev").put(path, tt.body).Refused(tt.status, problem.Code(tt.code))
	}
	for _, name := range []string{"vic", "eve"} {
		o.as(name).put(path, good).Refused(403, "forbidden")
		o.as(name).delete(o.apps("/site/git-source")).Refused(403, "forbidden")
	}
	o.as("").put(path, good).Refused(401, "unauthenticated")
	o.as("dev").put(o.apps("/nobody/git-source"), good).Refused(404, "not_found")
	o.as("dev").delete(o.apps("/nobody/git-source")).Refused(404, "not_found")
	if got := functest.Read[wire.App](o.as("dev").get(o.apps("/hello")), 200); got.GitSource != nil {
		t.Errorf("source of hello: got %+v", got.GitSource)
	}
	if got := functest.Read[wire.App](o.as("dev").get(o.apps("/site")), 200); got.GitSource == nil {
		t.Error("site has no source")
	}
}
