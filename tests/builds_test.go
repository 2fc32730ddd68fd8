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

// gitApp makes an app that is built from a repository; script says how the build
// system behaves, see package emulators/builds.
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

func pushed(s *stacktest.Site, url, token, commit string) stacktest.Answer {
	return s.Post(url, []byte(`{"commit":"`+commit+`"}`), "X-Service-Token", token)
}

// built waits until a build has a status.
func built(t *testing.T, s *stacktest.Site, number int64, status string) wire.Build {
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

// TestBuilds: a commit is built and deployed, however the build system's events
// come: once, twice, out of order, in either shape, or not at all.
func TestBuilds(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	for _, script := range []string{"once", "twice", "reordered", "twice-reordered", "v1", "silent", "nodigest"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := stacktest.New(t, world)
			url, token := gitApp(t, s, script)
			if a := pushed(s, url, token, "abc1234"); a.Status != http.StatusAccepted || !strings.Contains(a.Body, `"building"`) {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			b := built(t, s, 1, "succeeded")
			d := s.Settled("hello", 2, "live")
			if len(d.Commit) != 40 || !strings.HasPrefix(string(d.Commit), "abc1234") || d.Commit != b.Commit || d.Trigger != "webhook" || b.Revision != 2 || !strings.HasPrefix(d.Image, strings.SplitN(string(b.Image), "@", 2)[0]) {
				t.Errorf("build %+v, deployed %+v", b, d)
			}
			if len(s.History("hello")) != 2 {
				t.Errorf("history: %+v", s.History("hello"))
			}
		})
	}
}

// TestBuildsThatFail deploy nothing, and say why.
func TestBuildsThatFail(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	for _, script := range []string{"fail", "timeout", "noimage", "misbuilt", "nocommit"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := stacktest.New(t, world)
			url, token := gitApp(t, s, script)
			pushed(s, url, token, "abc1234")
			b := built(t, s, 1, "failed")
			if b.Message == "" || b.Revision != 0 || script == "fail" && !strings.HasPrefix(string(b.Message), "step build-and-push exited with 1: ") {
				t.Errorf("build %+v", b)
			}
			if n := len(s.History("hello")); n != 1 {
				t.Errorf("%d revisions", n)
			}
		})
	}
}

// TestNewerBuildWins: a build that ends after a newer one has deployed deploys
// nothing (promise D9).
func TestNewerBuildWins(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "slow")
	pushed(s, url, token, "aaaaaaa")
	built(t, s, 1, "running")
	setSource(t, s, "once")
	pushed(s, url, token, "bbbbbbb")
	newer := built(t, s, 2, "succeeded")
	if older := built(t, s, 1, "superseded"); older.Revision != 0 {
		t.Errorf("the older build deployed: %+v", older)
	}
	d := s.Settled("hello", int64(newer.Revision), "live")
	if !d.Current || !strings.HasPrefix(string(d.Commit), "bbbbbbb") || len(s.History("hello")) != 2 {
		t.Errorf("history: %+v", s.History("hello"))
	}
}

// TestRollbackIsNotUndone: a build that was asked for before a rollback, and ends after
// it, deploys nothing; the next one does.
func TestRollbackIsNotUndone(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "slow")
	s.Settled("hello", 1, "live")
	pushed(s, url, token, "aaaaaaa")
	built(t, s, 1, "running")
	d := rollback(t, s, 1)
	if b := built(t, s, 1, "superseded"); b.Revision != 0 || b.Message == "" {
		t.Errorf("the build from before the rollback: %+v", b)
	}
	if now := s.Settled("hello", d.Revision, "live"); !now.Current {
		t.Errorf("current is not the rollback: %+v", s.History("hello"))
	}
	setSource(t, s, "once")
	pushed(s, url, token, "bbbbbbb")
	after := built(t, s, 2, "succeeded")
	if now := s.Settled("hello", int64(after.Revision), "live"); !now.Current {
		t.Errorf("the build from after the rollback: %+v", now)
	}
}

// TestDoubleDelivery: the provider's push and the CI's call for one commit are two
// builds, and the newer one is what runs in the end.
func TestDoubleDelivery(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	s := stacktest.New(t, world)
	url, token := gitApp(t, s, "once")
	commit := strings.Repeat("cd", 20)
	push := []byte(`{"ref":"refs/heads/main","after":"` + commit + `","deleted":false}`)
	if a := s.Post(url, push, "X-GitHub-Event", "push", "X-GitHub-Delivery", "d1", "X-Hub-Signature-256", sign(token, push)); a.Status != http.StatusAccepted {
		t.Fatalf("push: %d %s", a.Status, a.Body)
	}
	if a := pushed(s, url, token, commit); a.Status != http.StatusAccepted {
		t.Fatalf("CI: %d %s", a.Status, a.Body)
	}
	b := built(t, s, 2, "succeeded")
	s.Until("end both builds", func() bool {
		builds, err := client.Collect(s.Client.Builds(t.Context(), s.Project, s.Env, "hello"))
		return err == nil && len(builds) == 2 && builds[1].FinishedAt != nil
	})
	if d := s.Settled("hello", int64(b.Revision), "live"); !d.Current || string(d.Commit) != commit {
		t.Errorf("runs %+v, want the newer build's", d)
	}
}

// TestBuildsOnDemand: a git app is built when it is created, and when an operator asks
// for it: the branch's head, or a commit, as that of a build that failed.
func TestBuildsOnDemand(t *testing.T) {
	stacktest.Insides(t, "what the build system does is a script's")
	t.Parallel()
	s := stacktest.New(t, world)
	name := "hello"
	source := wire.GitSource{Repository: "https://git.example/emulate-misbuilt/hello.git", Branch: "main"}
	if _, err := s.Client.CreateApp(t.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, GitSource: &source}); err != nil {
		t.Fatal(err)
	}
	first := built(t, s, 1, "succeeded")
	if d := s.Settled("hello", 1, "live"); d.Commit != first.Commit || len(d.Commit) != 40 || d.Trigger != "manual" {
		t.Errorf("the first build: %+v, deployed %+v", first, d)
	}
	request := func(commit string) wire.Build {
		t.Helper()
		b, err := s.Client.RequestBuild(t.Context(), s.Project, s.Env, "hello", commit)
		check.OK(t, err)
		return b
	}
	const commit = "abc1234000000000000000000000000000000000"
	request(commit)
	failed := built(t, s, 2, "failed")
	if !strings.Contains(string(failed.Message), commit) || !strings.Contains(string(failed.Message), string(first.Commit)) {
		t.Errorf("another commit was built: %+v", failed)
	}
	setSource(t, s, "once")
	request(string(failed.Commit))
	built(t, s, 3, "succeeded")
	if d := s.Settled("hello", 2, "live"); string(d.Commit) != commit || d.Actor != "build 3" {
		t.Errorf("the retry: %+v", d)
	}
	s.App("image")
	_, err := s.Client.RequestBuild(t.Context(), s.Project, s.Env, "image", "")
	if !client.HasCode(err, "no_git_source") {
		t.Errorf("an image app: %v", err)
	}
}

// TestBuildEventsNeedTheSecretPath: nobody but the build system can tell builds
// that one is done, and from outside nobody reaches it at all.
func TestBuildEventsNeedTheSecretPath(t *testing.T) {
	stacktest.Insides(t, "it asks the function at its own address")
	t.Parallel()
	s := stacktest.New(t, world)
	event := []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/x", "Ce-Type", "dev.tekton.event.pipelinerun.successful.v1"}
	inside := world.Info().Functions["builds"]
	for address, want := range map[string]int{
		inside + "/events/guess":                    http.StatusUnauthorized,
		inside + "/events/":                         http.StatusNotFound,
		world.Info().BaseURL + "/events/guess":      http.StatusNotFound,
		world.Info().BaseURL + "/":                  http.StatusMethodNotAllowed, // it leads people to the console
		world.Info().BaseURL + "/api/v1/events/any": http.StatusNotFound,
	} {
		if a := s.Post(address, []byte(`{}`), event...); a.Status != want {
			t.Errorf("%s: %d %s, want %d", address, a.Status, a.Body, want)
		}
	}
}
