package builds

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

const failedStep = "step build-and-push exited with 1: Dockerfile:3 | error: failed to solve"

func TestBuild(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		status       deploy.BuildStatus
		message      string
	}{
		{"as Tekton sends it", "", deploy.Succeeded, ""},
		{"the v1 shape", "v1", deploy.Succeeded, ""},
		{"events twice", "twice", deploy.Succeeded, ""},
		{"events out of order", "reordered", deploy.Succeeded, ""},
		{"both", "twice-reordered-v1", deploy.Succeeded, ""},
		{"without a digest", "nodigest", deploy.Succeeded, ""},
		{"a failure", "fail", deploy.BuildFailed, failedStep},
		{"a failure out of order", "fail-reordered", deploy.BuildFailed, failedStep},
		{"a timeout", "timeout", deploy.BuildFailed, "PipelineRunTimeout"},
		{"no image", "noimage", deploy.BuildFailed, "contain no image"},
		{"another commit", "misbuilt", deploy.BuildFailed, "Commit 0123abc was requested, but the run built "},
		{"another commit, in the v1 shape", "misbuilt-v1", deploy.BuildFailed, "Commit 0123abc was requested, but the run built "},
		{"no commit", "nocommit", deploy.BuildFailed, "Commit 0123abc was requested, but the run's results contain no commit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.script, nil)
			n := w.ask(tt.script)
			if code := w.event(app.BuildRequested, w.ref.String()); code >= 300 {
				t.Errorf("event: got status %d", code)
			}
			b := w.becomes(n, tt.status)
			if !strings.Contains(b.Message, tt.message) {
				t.Errorf("unexpected message %q", b.Message)
			}
			if tt.status != deploy.Succeeded {
				w.history()
				return
			}
			w.history("1 build 1")
			r, err := w.store.Deployment(t.Context(), w.ref, 1)
			check.OK(t, err)
			want := "registry.example.com/built/" + w.ref.Namespace + "/hello:build-1-"
			if r.Trigger != deploy.Webhook || len(r.Commit) != 40 || !strings.HasPrefix(r.Commit, "0123abc") || !strings.HasPrefix(r.Image, want) || r.Digest != b.Digest {
				t.Errorf("revision %+v", r)
			}
			if asked := strings.Contains(tt.script, "nodigest"); asked != (r.Note == "Not queried.") {
				t.Errorf("note: got %q", r.Note)
			}
			check.Eventually(t, "notify the deploys function", patience, func() error {
				if w.told.count() == 0 {
					return errors.New("got no notification")
				}
				return nil
			})
		})
	}
}

func TestEventsThatNeverCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	n := w.ask("silent")
	w.becomesByTicks(n, deploy.Succeeded)
	w.history("1 build 1")
}

// The older build's end is noticed only by ticks, so that it is certainly later.
func TestNewerBuildWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	first := w.ask("slow-silent")
	w.tick()
	second := w.ask("twice")
	w.tick()
	w.becomes(second, deploy.Succeeded)
	b := w.becomesByTicks(first, deploy.BuildSuperseded)
	if !strings.Contains(b.Message, "Build 2") || b.Revision != 0 {
		t.Errorf("older build: got %+v", b)
	}
	w.history("1 build 2")
	third := w.ask("")
	w.tick()
	w.becomes(third, deploy.Succeeded)
	w.history("2 build 3", "1 build 2")
}

func TestRollbackMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	before := w.ask("silent")
	w.becomesByTicks(before, deploy.Succeeded)
	late := w.ask("silent")
	w.tick()
	_, err := w.store.RecordDeployment(t.Context(), w.ref, func(_ app.App, current deploy.Revision) (deploy.Revision, error) {
		return current.Copy(deploy.Rollback, "ada", time.Now().UTC()), nil
	})
	check.OK(t, err)
	if b := w.becomesByTicks(late, deploy.BuildSuperseded); !strings.Contains(b.Message, "rolled back") || b.Revision != 0 {
		t.Errorf("build requested before the rollback: got %+v", b)
	}
	w.history("2 ada", "1 build 1")
	w.becomesByTicks(w.ask("silent"), deploy.Succeeded)
	w.history("3 build 3", "2 ada", "1 build 1")
}

func TestDetachedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	n := w.ask("silent")
	w.tick()
	_, err := w.store.UpdateApp(t.Context(), w.ref, func(a app.App) (app.App, error) {
		a.GitSource = nil
		return a, nil
	})
	check.OK(t, err)
	w.becomesByTicks(n, deploy.BuildSuperseded)
	w.history()
}

// A late event about a build of a deleted app does not affect a later app with the same name.
func TestAppMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	n := w.ask("silent")
	w.tick()
	old := w.build(n)
	check.OK(t, storetest.DeleteApp(t.Context(), w.store, w.ref))
	w.tick()
	w.addApp("slow-silent")
	w.ask("slow-silent")
	if w.build(1).RunName(w.ref) == old.RunName(w.ref) {
		t.Fatal("both builds have the same run")
	}
	w.tekton("successful", runOf(w, old, "True"))
	if b := w.build(1); b.Status != deploy.Queued {
		t.Errorf("new app's build: got %+v", b)
	}
	w.history()
}

func TestCancelledAndDeletedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "held", nil)
	cancelled := w.ask("held")
	w.tick()
	deleted := w.ask("held-silent")
	w.tick()
	w.patch(cancelled, `{"spec":{"status":"Cancelled"}}`)
	if b := w.becomes(cancelled, deploy.BuildFailed); !strings.Contains(b.Message, "Cancelled") {
		t.Errorf("unexpected message %q", b.Message)
	}
	w.deleteRun(deleted)
	if b := w.becomesByTicks(deleted, deploy.BuildFailed); !strings.Contains(b.Message, "deleted") {
		t.Errorf("unexpected message %q", b.Message)
	}
	w.history()
}

func TestBuildsOfAnAppAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "held", func(c *Config, _ *Parts) { c.PerApp = 2 })
	first, second, third, fourth := w.ask("held"), w.ask("held"), w.ask("held"), w.ask("held")
	for range 2 {
		w.tick()
		for n, want := range map[int64]deploy.BuildStatus{first: deploy.Running, second: deploy.Running, third: deploy.Queued, fourth: deploy.Queued} {
			if got := w.build(n).Status; got != want {
				t.Errorf("build %d: got status %s, want %s", n, got, want)
			}
		}
	}
	w.patch(first, `{"spec":{"status":"Cancelled"}}`)
	w.becomes(third, deploy.Running)
	if got := w.build(fourth).Status; got != deploy.Queued {
		t.Errorf("build %d: got status %s, want queued", fourth, got)
	}
}

func TestSourceChangedBeforeTheBuildBegan(t *testing.T) {
	t.Parallel()
	other := source("silent")
	other.Branch = "other"
	for name, git := range map[string]*app.GitSource{"removed": nil, "replaced": &other} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "silent", nil)
			n := w.ask("silent")
			if _, err := w.store.UpdateApp(t.Context(), w.ref, func(a app.App) (app.App, error) { a.GitSource = git; return a, nil }); err != nil {
				t.Fatal(err)
			}
			w.tick()
			if b := w.build(n); b.Status != deploy.BuildSuperseded || b.RunUID != "" || b.Message == "" {
				t.Errorf("got %+v, want a superseded build without a run", b)
			}
			w.history()
		})
	}
}

func TestBuildForARegistryThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	allow := func(registries ...string) {
		t.Helper()
		_, err := w.store.UpdateProject(t.Context(), w.project, func(p app.Project) (app.Project, error) { p.Registries = registries; return p, nil })
		check.OK(t, err)
	}
	allow("registry.example.com/other")
	n := w.ask("silent")
	w.tick()
	if b := w.build(n); b.Status != deploy.BuildFailed || b.RunUID != "" || !strings.Contains(b.Message, "registry.example.com") {
		t.Errorf("got %+v, want a failed build without a run", b)
	}
	allow("registry.example.com/built")
	w.becomesByTicks(w.ask("silent"), deploy.Succeeded)
	running := w.ask("held-silent")
	w.tick()
	allow("registry.example.com/other")
	w.tekton("successful", runOf(w, w.build(running), "True"))
	if b := w.build(running); b.Status != deploy.BuildFailed || !strings.Contains(b.Message, "registry.example.com") {
		t.Errorf("got %+v, want a failed build", b)
	}
	w.history("1 build 2")
}

// Events without the token or not about a build have no effect.
func TestEventsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	n := w.ask("slow-silent")
	w.tick()
	b := w.build(n)
	good, err := json.Marshal(map[string]any{"pipelineRun": runOf(w, b, "True")})
	check.OK(t, err)
	for path, want := range map[string]int{
		"/events/" + token[1:] + "x": http.StatusUnauthorized,
		"/events/x":                  http.StatusUnauthorized,
		"/events/":                   http.StatusNotFound,
		"/events/%00":                http.StatusUnauthorized,
		"/events/" + token + "/x":    http.StatusNotFound,
		"/events//":                  http.StatusNotFound,
		"/events/%2e%2e":             http.StatusNotFound,
		"/events/../events/" + token: http.StatusNotFound,
		"/Events/" + token:           http.StatusNotFound,
	} {
		if code := w.send(path, "successful", string(good)); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	other := runOf(w, b, "True")
	other["metadata"].(map[string]any)["uid"] = "another" //nolint:forcetypeassert // runOf made it
	nameless := runOf(w, b, "True")
	nameless["metadata"].(map[string]any)["name"] = "another" //nolint:forcetypeassert // runOf made it
	for _, run := range []any{other, nameless, nil, 7, map[string]any{}} {
		if code := w.tekton("successful", run); code >= 300 {
			t.Errorf("%v: got status %d, so Tekton sends it again", run, code)
		}
	}
	if code := w.tekton("surprising", runOf(w, b, "True")); code >= 300 {
		t.Errorf("event of another type: got status %d", code)
	}
	if got := w.build(n); got.Status != deploy.Running {
		t.Errorf("build: got %+v", got)
	}
	w.history()
}

func TestWithoutTekton(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", func(_ *Config, p *Parts) { p.Cluster = nowhere{} })
	n := w.ask("")
	w.tick()
	if b := w.build(n); b.Status != deploy.Queued {
		t.Errorf("immediately: got %+v", b)
	}
	w.service.now = func() time.Time { return time.Now().Add(time.Hour) }
	w.tick()
	if b := w.build(n); b.Status != deploy.BuildFailed || b.Message == "" {
		t.Errorf("after an hour: got %+v", b)
	}
}

func TestListBuilds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	for range 3 {
		w.ask("")
	}
	get := func(path, user string) functest.Answer { return w.builds(user, http.MethodGet, path, "", nil) }
	list := functest.Read[wire.List[wire.Build]](get("?page_size=2", "vera"), http.StatusOK)
	if len(list.Items) != 2 || list.Items[0].Build != 3 || list.NextPageToken == "" || list.Items[0].Status != "queued" {
		t.Errorf("list: got %+v", list)
	}
	for path, want := range map[string]int{"/1": 200, "/4": 404, "/0": 404, "/01": 404, "/-1": 404, "/x": 404} {
		get(path, "vera").Is(want)
	}
	get("", "").Is(http.StatusUnauthorized)
}

func TestRequestBuildOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	send := func(body string, headers http.Header) functest.Answer {
		return w.builds("ada", http.MethodPost, "", body, headers)
	}
	for try := range 2 {
		a := send(`{"commit":"0123abc"}`, http.Header{"Idempotency-Key": {"1"}, "If-Match": {`"0"`}})
		b := functest.Read[wire.Build](a, http.StatusAccepted)
		if b.Build != 1 || !strings.HasSuffix(a.Header.Get("Location"), "/apps/hello/builds/1") || (a.Header.Get("Idempotent-Replayed") == "true") != (try == 1) {
			t.Errorf("call %d: got %v %s", try, a.Header, a.Body)
		}
	}
	send(`{"commit":"0123abd"}`, http.Header{"Idempotency-Key": {"1"}}).Is(http.StatusUnprocessableEntity)
	send(`{}`, http.Header{"If-Match": {`"7"`}}).Is(http.StatusPreconditionFailed)
	if builds, _, err := w.store.Builds(t.Context(), w.ref, store.Page{Size: 10}); err != nil || len(builds) != 1 {
		t.Errorf("got %d builds, %v; want 1", len(builds), err)
	}
}

func TestRequestBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", nil)
	commit := strings.Repeat("ab", 20)
	tests := []struct {
		name, user, body string
		status           int
		code             problem.Code
		commit           string
	}{
		{"a viewer", "vera", `{}`, 403, "forbidden", ""},
		{"nobody", "", `{}`, 401, "unauthenticated", ""},
		{"no body", "ada", ``, 202, "", ""},
		{"a commit", "ada", `{"commit":"` + strings.ToUpper(commit) + `"}`, 202, "", commit},
		{"its first digits", "ada", `{"commit":"abab"}`, 202, "", "abab"},
		{"no commit", "ada", `{"commit":""}`, 202, "", ""},
		{"a branch", "ada", `{"commit":"main"}`, 422, "invalid_commit", ""},
		{"an option", "ada", `{"commit":"--upload-pack=x"}`, 422, "invalid_commit", ""},
		{"a branch's field", "ada", `{"branch":"other"}`, 400, "unknown_field", ""},
		{"a number", "ada", `{"commit":1234}`, 400, "wrong_type", ""},
	}
	number := int64(0)
	for _, tt := range tests {
		a := w.requests(tt.user, tt.body)
		if a.Status != tt.status || a.Code() != tt.code {
			t.Errorf("%s: %d %s", tt.name, a.Status, a.Body)
		}
		if a.Status != http.StatusAccepted {
			continue
		}
		number++
		if b := w.build(number); b.Commit != tt.commit || b.Actor != "ada" || b.Trigger != deploy.Manual || b.Status == deploy.Queued {
			t.Errorf("%s: got %+v", tt.name, b)
		}
	}
	if b := w.becomesByTicks(number, deploy.Succeeded); len(b.Commit) != 40 {
		t.Errorf("build of the branch's head: got %+v", b)
	}
	r, err := w.store.Deployment(t.Context(), w.ref, w.build(number).Revision)
	if err != nil || r.Trigger != deploy.Manual {
		t.Errorf("revision: got %+v, %v", r, err)
	}
	if _, err := w.store.UpdateApp(t.Context(), w.ref, func(a app.App) (app.App, error) { a.GitSource = nil; return a, nil }); err != nil {
		t.Fatal(err)
	}
	w.requests("ada", `{}`).Refused(http.StatusConflict, "no_git_source")
}

func TestRequestBuildWithoutTekton(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent", func(_ *Config, p *Parts) { p.Cluster = nowhere{} })
	if a := w.requests("ada", "").Is(http.StatusAccepted); !strings.Contains(string(a.Body), `"queued"`) {
		t.Errorf("got %s, want a queued build", a.Body)
	}
	w.service.cluster = w.cluster
	w.becomesByTicks(1, deploy.Succeeded)
}
