package tests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// gitApp creates an app with a git source. script selects the behavior of package
// emulators/tekton.
func gitApp(t *testing.T, s *stacktest.Site, script string) (url, token string) {
	t.Helper()
	s.App("hello")
	setSource(t, s, script)
	return s.Webhook("hello")
}

func setSource(t *testing.T, s *stacktest.Site, script string) {
	t.Helper()
	source := wire.GitSource{Repository: "https://git.example/emulate-" + script + "/hello.git", Branch: "main"}
	if _, err := s.Client.SetGitSource(t.Context(), s.Project, s.Env, "hello", source); err != nil {
		t.Fatal(err)
	}
}

func requestBuild(s *stacktest.Site, url, token, commit string) stacktest.Answer {
	return s.Post(url, []byte(`{"commit":"`+commit+`"}`), "X-Service-Token", token)
}

func waitForBuild(t *testing.T, s *stacktest.Site, number int64, status string) wire.Build {
	t.Helper()
	var b wire.Build
	s.Until("have a build that is "+status, func() bool {
		var err error
		if b, err = s.Client.Build(t.Context(), s.Project, s.Env, "hello", number); err != nil {
			t.Fatal(err)
		}
		return b.Status == status
	})
	return b
}

func TestBuilds(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	for _, script := range []string{"once", "twice", "reordered", "twice-reordered", "v1", "silent", "nodigest"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := stacktest.New(t, world)
			url, token := gitApp(t, s, script)
			if a := requestBuild(s, url, token, "abc1234"); a.Status != http.StatusAccepted || !strings.Contains(a.Body, `"building"`) {
				t.Fatalf("got %d %s, want 202 building", a.Status, a.Body)
			}
			b := waitForBuild(t, s, 1, "succeeded")
			d := s.Settled("hello", 2, "live")
			if len(d.Commit) != 40 || !strings.HasPrefix(string(d.Commit), "abc1234") || d.Commit != b.Commit || d.Trigger != "webhook" || b.Revision != 2 || !strings.HasPrefix(d.Image, strings.SplitN(string(b.Image), "@", 2)[0]) {
				t.Errorf("got build %+v, deployment %+v; want the same commit, deployed as revision 2", b, d)
			}
			if len(s.History("hello")) != 2 {
				t.Errorf("history: got %+v, want 2 revisions", s.History("hello"))
			}
		})
	}
}

func TestBuildsThatFail(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	for _, script := range []string{"fail", "timeout", "noimage", "misbuilt", "nocommit"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := stacktest.New(t, world)
			url, token := gitApp(t, s, script)
			requestBuild(s, url, token, "abc1234")
			b := waitForBuild(t, s, 1, "failed")
			if b.Message == "" || b.Revision != 0 || script == "fail" && !strings.HasPrefix(string(b.Message), "step build-and-push exited with 1: ") {
				t.Errorf("got build %+v, want a message and no revision", b)
			}
			if n := len(s.History("hello")); n != 1 {
				t.Errorf("revisions: got %d, want 1", n)
			}
		})
	}
}

func TestNewerBuildWins(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "slow")
	requestBuild(s, url, token, "aaaaaaa")
	waitForBuild(t, s, 1, "running")
	setSource(t, s, "once")
	requestBuild(s, url, token, "bbbbbbb")
	newer := waitForBuild(t, s, 2, "succeeded")
	if older := waitForBuild(t, s, 1, "superseded"); older.Revision != 0 {
		t.Errorf("older build: got %+v, want no revision", older)
	}
	d := s.Settled("hello", int64(newer.Revision), "live")
	if !d.Current || !strings.HasPrefix(string(d.Commit), "bbbbbbb") || len(s.History("hello")) != 2 {
		t.Errorf("history: got %+v, want 2 revisions and the newer build deployed", s.History("hello"))
	}
}

// TestRollbackIsNotUndone ends a build after a rollback that followed its request.
func TestRollbackIsNotUndone(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "slow")
	s.Settled("hello", 1, "live")
	requestBuild(s, url, token, "aaaaaaa")
	waitForBuild(t, s, 1, "running")
	d := rollback(t, s, 1)
	if b := waitForBuild(t, s, 1, "superseded"); b.Revision != 0 || b.Message == "" {
		t.Errorf("build requested before the rollback: got %+v, want a message and no revision", b)
	}
	if now := s.Settled("hello", d.Revision, "live"); !now.Current {
		t.Errorf("the rollback is not current: %+v", s.History("hello"))
	}
	setSource(t, s, "once")
	requestBuild(s, url, token, "bbbbbbb")
	after := waitForBuild(t, s, 2, "succeeded")
	if now := s.Settled("hello", int64(after.Revision), "live"); !now.Current {
		t.Errorf("build requested after the rollback: got %+v, want it current", now)
	}
}

// TestDoubleDelivery sends a push and the call of a CI pipeline for the same commit.
func TestDoubleDelivery(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "once")
	commit := strings.Repeat("cd", 20)
	push := []byte(`{"ref":"refs/heads/main","after":"` + commit + `","deleted":false}`)
	if a := s.Post(url, push, "X-GitHub-Event", "push", "X-GitHub-Delivery", "d1", "X-Hub-Signature-256", sign(token, push)); a.Status != http.StatusAccepted {
		t.Fatalf("push: got %d %s, want 202", a.Status, a.Body)
	}
	if a := requestBuild(s, url, token, commit); a.Status != http.StatusAccepted {
		t.Fatalf("CI: got %d %s, want 202", a.Status, a.Body)
	}
	b := waitForBuild(t, s, 2, "succeeded")
	s.Until("end both builds", func() bool {
		builds, err := client.Collect(s.Client.Builds(t.Context(), s.Project, s.Env, "hello"))
		return err == nil && len(builds) == 2 && builds[1].FinishedAt != nil
	})
	if d := s.Settled("hello", int64(b.Revision), "live"); !d.Current || string(d.Commit) != commit {
		t.Errorf("got %+v, want the deployment of the newer build", d)
	}
}

func TestBuildsOnDemand(t *testing.T) {
	stacktest.Insides(t, "it scripts the build system")
	t.Parallel()
	s := stacktest.New(t, world)
	name := "hello"
	source := wire.GitSource{Repository: "https://git.example/emulate-misbuilt/hello.git", Branch: "main"}
	if _, err := s.Client.CreateApp(t.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, GitSource: &source}); err != nil {
		t.Fatal(err)
	}
	first := waitForBuild(t, s, 1, "succeeded")
	if d := s.Settled("hello", 1, "live"); d.Commit != first.Commit || len(d.Commit) != 40 || d.Trigger != "manual" {
		t.Errorf("first build: got %+v, deployment %+v; want the same 40-character commit", first, d)
	}
	request := func(commit string) wire.Build {
		t.Helper()
		b, err := s.Client.RequestBuild(t.Context(), s.Project, s.Env, "hello", commit)
		check.OK(t, err)
		return b
	}
	const commit = "abc1234000000000000000000000000000000000"
	request(commit)
	failed := waitForBuild(t, s, 2, "failed")
	if !strings.Contains(string(failed.Message), commit) || !strings.Contains(string(failed.Message), string(first.Commit)) {
		t.Errorf("got %+v, want a message with both commits", failed)
	}
	setSource(t, s, "once")
	request(string(failed.Commit))
	waitForBuild(t, s, 3, "succeeded")
	if d := s.Settled("hello", 2, "live"); string(d.Commit) != commit || d.Actor != "build 3" {
		t.Errorf("retry: got %+v, want commit %s deployed by build 3", d, commit)
	}
	s.App("image")
	_, err := s.Client.RequestBuild(t.Context(), s.Project, s.Env, "image", "")
	if !client.HasCode(err, "no_git_source") {
		t.Errorf("image app: got %v, want no_git_source", err)
	}
}

func TestBuildEventsNeedTheSecretPath(t *testing.T) {
	stacktest.Insides(t, "it calls the function at its internal address")
	t.Parallel()
	s := stacktest.New(t, world)
	event := []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/x", "Ce-Type", "dev.tekton.event.pipelinerun.successful.v1"}
	inside := world.Info().Functions["builds"]
	for address, want := range map[string]int{
		inside + "/events/guess":                    http.StatusUnauthorized,
		inside + "/events/":                         http.StatusNotFound,
		world.Info().BaseURL + "/events/guess":      http.StatusNotFound,
		world.Info().BaseURL + "/":                  http.StatusMethodNotAllowed, // redirects only GET to the console
		world.Info().BaseURL + "/api/v1/events/any": http.StatusNotFound,
	} {
		if a := s.Post(address, []byte(`{}`), event...); a.Status != want {
			t.Errorf("%s: got %d %s, want %d", address, a.Status, a.Body, want)
		}
	}
}
