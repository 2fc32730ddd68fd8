package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

const built = "0123abc000000000000000000000000000000000"

func recordBuild(t *testing.T, s *store.Store) deploy.Build {
	t.Helper()
	b, err := s.RecordBuild(t.Context(), hello(), func(a app.App) (deploy.Build, error) {
		return deploy.NewBuild(*a.GitSource, "0123abc", deploy.Webhook, "webhook", noon()), nil
	})
	check.OK(t, err)
	return b
}

func observe(t *testing.T, s *store.Store, n int64, run deploy.Run) deploy.Build {
	t.Helper()
	b, err := storetest.ObserveBuild(t.Context(), s, hello(), n, run, noon().Add(time.Minute))
	check.OK(t, err)
	return b
}

func TestQueuedBuildsAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	for range deploy.MaxQueued {
		recordBuild(t, s)
	}
	record := func() error {
		_, err := s.RecordBuild(t.Context(), hello(), func(app.App) (deploy.Build, error) {
			return deploy.NewBuild(app.GitSource{Repository: "https://git.example/shop.git", Branch: "main"}, "", deploy.Manual, "ada", noon()), nil
		})
		return err
	}
	call := func() error {
		_, _, err := s.Receive(t.Context(), hello(), hook.CallID{}, noon(), func(app.App) (hook.RecordedWork, error) {
			return hook.RecordedWork{Decision: hook.Decision{Action: hook.Build}, Build: deploy.NewBuild(app.GitSource{Repository: "https://git.example/shop.git", Branch: "main"}, "", deploy.Webhook, "webhook", noon())}, nil
		})
		return err
	}
	wantProblem(t, "one build more", record(), problem.TooManyBuilds)
	wantProblem(t, "one call more", call(), problem.TooManyBuilds)
	observe(t, s, 1, deploy.Run{UID: "a", Event: "started"})
	wantProblem(t, "once a build has begun", call(), "")
	wantProblem(t, "with a full queue again", record(), problem.TooManyBuilds)
}

func TestBuildIsDeployedOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	if n := recordBuild(t, s).Number; n != 1 {
		t.Fatalf("first build: got %d, want 1", n)
	}
	if b := observe(t, s, 1, deploy.Run{UID: "a", Event: "started"}); b.Status != deploy.Running {
		t.Errorf("started build: got %s, want running", b.Status)
	}
	done := deploy.Run{UID: "a", Event: "successful", Done: true, OK: true, Image: "hello:b1", Digest: "sha256:1", Commit: built}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := storetest.ObserveBuild(t.Context(), s, hello(), 1, done, noon().Add(time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := s.Build(t.Context(), hello(), 1)
	check.OK(t, err)
	want := deploy.Build{
		Number: 1, Commit: built, Source: app.GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"},
		Trigger: deploy.Webhook, Actor: "webhook", Status: deploy.Succeeded, RunUID: "a", Image: "hello:b1", Digest: "sha256:1", Revision: 1,
		Seen: []string{"a/started", "a/successful"}, RequestedAt: noon(), FinishedAt: noon().Add(time.Minute),
	}
	check.Equal(t, "build", want, got)
	expectHistory(t, s, "1 hello:b1 rolling_out")
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 5})
	if err != nil || len(pending) != 0 {
		t.Errorf("pending builds: got %v, %v, want none", pending, err)
	}
}

func TestFirstBuild(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	a, err := s.App(t.Context(), hello().Namespace, hello().Name)
	check.OK(t, err)
	first := deploy.NewBuild(*a.GitSource, "", deploy.Manual, "ada", noon())
	check.Problem(t, s.CreateApp(t.Context(), a, store.InitialState{Build: &first}), problem.AlreadyExists)
	a.Name, a.Host = "second", "second.example.com"
	check.OK(t, s.CreateApp(t.Context(), a, store.InitialState{Build: &first}))
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 5})
	if diff := cmp.Diff([]store.PendingBuild{{App: a.Ref(), Number: 1}}, pending); err != nil || diff != "" {
		t.Errorf("pending builds, %v (-want +got):\n%s", err, diff)
	}
	first.Number = 1
	got, err := s.Build(t.Context(), a.Ref(), 1)
	if diff := cmp.Diff(first, got); err != nil || diff != "" {
		t.Errorf("first build, %v (-want +got):\n%s", err, diff)
	}
	next, err := s.RecordBuild(t.Context(), a.Ref(), func(a app.App) (deploy.Build, error) { return first, nil })
	if err != nil || next.Number != 2 {
		t.Errorf("next build: got %d, %v, want 2", next.Number, err)
	}
}

func TestNewerBuildWins(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	for range 3 {
		recordBuild(t, s)
	}
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 5})
	if err != nil || len(pending) != 3 || pending[0] != (store.PendingBuild{App: hello(), Number: 1}) {
		t.Errorf("pending builds: got %v, %v, want three", pending, err)
	}
	finish := func(n int64, uid, image string) deploy.BuildStatus {
		return observe(t, s, n, deploy.Run{UID: uid, Done: true, OK: true, Image: image, Commit: built}).Status
	}
	if got := finish(3, "c", "hello:b3"); got != deploy.Succeeded {
		t.Errorf("build 3: got %s, want succeeded", got)
	}
	// A rollback does not make the older builds eligible again.
	deployImage(t, s, "hello:older")
	if got := finish(2, "b", "hello:b2"); got != deploy.BuildSuperseded {
		t.Errorf("build 2: got %s, want superseded", got)
	}
	if got := finish(1, "a", "hello:b1"); got != deploy.BuildSuperseded {
		t.Errorf("build 1: got %s, want superseded", got)
	}
	expectHistory(t, s, "2 hello:older rolling_out", "1 hello:b3 superseded")
	builds, next, err := s.Builds(t.Context(), hello(), store.Page{Size: 2})
	if err != nil || len(builds) != 2 || builds[0].Number != 3 || next == "" {
		t.Errorf("builds: got %v, %q, %v, want two and a token", builds, next, err)
	}
}

func TestObserveBuildOfAnEarlierApp(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	earlier := recordBuild(t, s)
	check.OK(t, storetest.DeleteApp(t.Context(), s, hello()))
	storeApp(t, s, "")
	later, err := s.RecordBuild(t.Context(), hello(), func(a app.App) (deploy.Build, error) {
		return deploy.NewBuild(*a.GitSource, "0123abc", deploy.Webhook, "webhook", noon().Add(time.Second)), nil
	})
	if err != nil || later.Number != earlier.Number {
		t.Fatalf("later build: got %d, %v, want the number of the earlier one", later.Number, err)
	}
	done := deploy.Run{UID: "a", Done: true, OK: true, Image: "hello:b1", Digest: "sha256:1", Commit: built}
	_, err = s.ObserveBuild(t.Context(), hello(), earlier, done, noon())
	check.Problem(t, err, problem.NotFound)
	if b, err := s.Build(t.Context(), hello(), 1); err != nil || b.Status != deploy.Queued {
		t.Errorf("got %+v, %v, want a queued build", b, err)
	}
}

func TestBuildOfAReplacedSource(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	recordBuild(t, s)
	_, err := s.UpdateApp(t.Context(), hello(), func(a app.App) (app.App, error) {
		a.GitSource = &app.GitSource{Repository: "https://git.example.com/other.git", Branch: "main"}
		return a, nil
	})
	check.OK(t, err)
	done := deploy.Run{UID: "a", Done: true, OK: true, Image: "hello:b1", Digest: "sha256:1", Commit: built}
	if b := observe(t, s, 1, done); b.Status != deploy.BuildSuperseded || b.Revision != 0 {
		t.Errorf("got %+v, want a superseded build", b)
	}
	expectHistory(t, s)
}

func TestMissingBuild(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	_, err := s.Build(t.Context(), hello(), 4)
	check.Problem(t, err, problem.NotFound)
	_, err = storetest.ObserveBuild(t.Context(), s, hello(), 4, deploy.Run{}, noon())
	check.Problem(t, err, problem.NotFound)
	_, err = s.RecordBuild(t.Context(), app.Ref{Namespace: "shop-prod", Name: "none"}, nil)
	check.Problem(t, err, problem.NotFound)
}
