package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func hello() app.Ref { return app.Ref{Namespace: "shop-prod", Name: "hello"} }

// storeApp stores app hello of shop-prod, with an image unless it is "".
func storeApp(t *testing.T, s *store.Store, image string) app.App {
	t.Helper()
	a := app.App{
		Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "hello.example.com", Port: 8080,
		Image: image, Preflight: app.PreflightApp, Gate: app.Gate{State: app.Ungated, Since: noon()}, CreatedAt: noon(), UpdatedAt: noon(),
	}
	if image == "" {
		a.GitSource = &app.GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"}
	} else {
		a.Revision = 1
	}
	err := s.CreateProject(t.Context(), app.Project{Name: "shop"})
	if err != nil && !problem.Is(err, problem.AlreadyExists) {
		t.Fatal(err)
	}
	err = s.CreateEnvironment(t.Context(), app.Environment{Project: "shop", Name: "prod", Namespace: "shop-prod"})
	if err != nil && !problem.Is(err, problem.AlreadyExists) {
		t.Fatal(err)
	}
	check.OK(t, s.CreateApp(t.Context(), a, storetest.First(a)))
	return a
}

func deployImage(t *testing.T, s *store.Store, image string) deploy.Revision {
	t.Helper()
	r, err := s.RecordDeployment(t.Context(), hello(), func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.New(image, "", deploy.Manual, "ada", noon()), nil
	})
	check.OK(t, err)
	return r
}

func setStatus(t *testing.T, s *store.Store, n int64, status deploy.Status) {
	t.Helper()
	_, err := s.UpdateDeployment(t.Context(), hello(), n, func(r deploy.Revision) (deploy.Revision, bool) {
		r.Status, r.FinishedAt = status, noon().Add(time.Duration(n)*time.Minute)
		return r, true
	})
	check.OK(t, err)
}

// history returns an app's revisions, newest first, as "number image status".
func history(t *testing.T, s *store.Store) []string {
	t.Helper()
	revisions, next, err := s.Deployments(t.Context(), hello(), store.Page{Size: 500})
	if err != nil || next != "" {
		t.Fatalf("got token %q, %v, want none", next, err)
	}
	var lines []string
	for _, r := range revisions {
		lines = append(lines, fmt.Sprintf("%d %s %s", r.Number, r.Image, r.Status))
	}
	return lines
}

func expectHistory(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	check.Equal(t, "history", want, history(t, s))
}

func TestRecordDeployment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	expectHistory(t, s, "1 hello:v1 rolling_out")
	want := deploy.New("hello:v2", "sha256:abc", deploy.Webhook, "webhook", noon())
	want.Commit, want.Note, want.Source = "0123abc", "A note.", 1
	var seen deploy.Revision
	got, err := s.RecordDeployment(t.Context(), hello(), func(a app.App, current deploy.Revision) (deploy.Revision, error) {
		seen = current
		return want, nil
	})
	check.OK(t, err)
	want.Number = 2
	check.Equal(t, "recorded", want, got)
	if seen.Number != 1 || seen.Image != "hello:v1" {
		t.Errorf("rule: got current revision %+v, want 1", seen)
	}
	stored, err := s.Deployment(t.Context(), hello(), 2)
	check.OK(t, err)
	check.Equal(t, "stored", want, stored)
	a, err := s.App(t.Context(), "shop-prod", "hello")
	if err != nil || a.Revision != 2 || a.Image != "hello:v2@sha256:abc" {
		t.Errorf("app: got revision %d, %s, %v, want 2", a.Revision, a.Image, err)
	}
	expectDeployed(t, s, app.Deployed{At: noon(), Status: "rolling_out"})
	expectHistory(t, s, "2 hello:v2 rolling_out", "1 hello:v1 superseded")
}

func TestRefusedDeployment(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	refused := errors.New("refused")
	_, err := s.RecordDeployment(t.Context(), hello(), func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.Revision{}, problem.FromCode(problem.GitSourceAttached).WithCause(refused)
	})
	if !problem.Is(err, problem.GitSourceAttached) || !errors.Is(err, refused) {
		t.Errorf("got error %v, want the error of rule", err)
	}
	expectHistory(t, s, "1 hello:v1 rolling_out")
	none := app.Ref{Namespace: "shop-prod", Name: "none"}
	_, err = s.RecordDeployment(t.Context(), none, func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.Revision{}, nil
	})
	check.Problem(t, err, problem.NotFound)
	_, err = s.Deployment(t.Context(), hello(), 7)
	check.Problem(t, err, problem.NotFound)
}

// expectDeployed compares the revision's summary in the app's document.
func expectDeployed(t *testing.T, s *store.Store, want app.Deployed) {
	t.Helper()
	a, err := s.App(t.Context(), "shop-prod", "hello")
	check.OK(t, err)
	check.Equal(t, "the app's deployment", want, a.Deployed)
}

func TestLiveRevisionSupersedesPrevious(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.AnnounceEvents(true)
	storeApp(t, s, "hello:v1")
	setStatus(t, s, 1, deploy.Live)
	deployImage(t, s, "hello:v2")
	expectHistory(t, s, "2 hello:v2 rolling_out", "1 hello:v1 live")
	setStatus(t, s, 2, deploy.Failed)
	expectHistory(t, s, "2 hello:v2 failed", "1 hello:v1 live")
	expectDeployed(t, s, app.Deployed{At: noon(), Status: "failed"})
	deployImage(t, s, "hello:v3")
	setStatus(t, s, 3, deploy.Live)
	expectHistory(t, s, "3 hello:v3 live", "2 hello:v2 failed", "1 hello:v1 superseded")
	_, err := s.UpdateDeployment(t.Context(), hello(), 2, func(r deploy.Revision) (deploy.Revision, bool) { return r, true })
	check.Problem(t, err, problem.Conflict)
	waiting, err := s.Announcements(t.Context(), event.Cursor{}, 10)
	check.OK(t, err)
	var outcomes []string
	for _, n := range waiting {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", n.Deployment.Outcome, n.Deployment.Revision.Number))
	}
	check.Equal(t, "announcements", []string{"deployed 1", "failed 2", "upgraded 3"}, outcomes)
	for range 2 {
		check.OK(t, s.Announced(t.Context(), waiting[0].ID))
	}
	if waiting, err = s.Announcements(t.Context(), event.Cursor{}, 10); err != nil || len(waiting) != 2 {
		t.Errorf("announcements: got %v, %v, want two", waiting, err)
	}
}

func TestSetReady(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	deployImage(t, s, "hello:v2")
	for _, at := range []time.Time{noon(), noon().Add(time.Hour)} {
		check.OK(t, s.SetReady(t.Context(), hello(), 1, at))
	}
	r, err := s.Deployment(t.Context(), hello(), 1)
	if err != nil || !r.ReadyAt.Equal(noon()) || r.Image != "hello:v1" || r.Status != deploy.Superseded {
		t.Errorf("got %+v, %v, want the time of the first ready pod", r, err)
	}
	for name, ref := range map[string]app.Ref{"a revision that does not exist": hello(), "an app that does not exist": {Namespace: "shop-prod", Name: "none"}} {
		if err := s.SetReady(t.Context(), ref, 7, noon()); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
}

func TestDeploymentsAtOnce(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	stores := []*store.Store{storetest.Open(t, project), storetest.Open(t, project), storetest.Open(t, project)}
	s := stores[0]
	storeApp(t, s, "hello:v1")
	const deploys = 20
	var mu sync.Mutex
	var numbers []int64
	images := map[int64]string{}
	var all sync.WaitGroup
	for i := range deploys {
		all.Go(func() {
			r, err := stores[i%len(stores)].RecordDeployment(t.Context(), hello(), func(app.App, deploy.Revision) (deploy.Revision, error) {
				return deploy.New(fmt.Sprintf("hello:n%d", i), "", deploy.Manual, "ada", noon()), nil
			})
			if err != nil {
				t.Errorf("deploy %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			numbers, images[r.Number] = append(numbers, r.Number), r.Image
		})
	}
	all.Wait()
	slices.Sort(numbers)
	var want []int64
	for n := range int64(deploys) {
		want = append(want, n+2)
	}
	check.Equal(t, "numbers", want, numbers)
	a, err := s.App(t.Context(), "shop-prod", "hello")
	if err != nil || a.Revision != deploys+1 || a.Image != images[deploys+1] {
		t.Errorf("app: got revision %d, %s, %v, want the last one", a.Revision, a.Image, err)
	}
}

func TestDeploymentsByPage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	for n := 2; n <= 12; n++ {
		deployImage(t, s, fmt.Sprintf("hello:v%d", n))
	}
	var numbers []int64
	page := store.Page{Size: 5}
	for {
		revisions, next, err := s.Deployments(t.Context(), hello(), page)
		check.OK(t, err)
		for _, r := range revisions {
			numbers = append(numbers, r.Number)
		}
		if page.Token = next; next == "" {
			break
		}
	}
	check.Equal(t, "numbers", []int64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, numbers)
	for _, token := range []string{"x", "LTE", "eHl6", "MDE"} {
		_, _, err := s.Deployments(t.Context(), hello(), store.Page{Size: 5, Token: token})
		check.Problem(t, err, problem.InvalidPage)
	}
}

func TestDeletedAppLeavesNoHistory(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "")
	recordBuild(t, s)
	for i := range 201 {
		deployImage(t, s, fmt.Sprintf("hello:v%d", i))
	}
	check.OK(t, storetest.DeleteApp(t.Context(), s, hello()))
	check.Problem(t, storetest.DeleteApp(t.Context(), s, hello()), problem.NotFound)
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 5})
	if err != nil || len(pending) != 0 {
		t.Errorf("pending builds: got %v, %v, want none", pending, err)
	}
	storeApp(t, s, "hello:v9")
	expectHistory(t, s, "1 hello:v9 rolling_out")
	if b := deployImage(t, s, "hello:v10"); b.Number != 2 {
		t.Errorf("next revision: got %d, want 2", b.Number)
	}
}

func TestDeleteAppWhileItIsDeployed(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 2 {
				_, err := s.RecordDeployment(t.Context(), hello(), func(app.App, deploy.Revision) (deploy.Revision, error) {
					return deploy.New("hello:v2", "", deploy.Manual, "ada", noon()), nil
				})
				if err != nil && !problem.Is(err, problem.NotFound) {
					t.Error(err)
				}
			}
		})
	}
	if err := storetest.DeleteApp(t.Context(), s, hello()); err != nil {
		t.Error(err)
	}
	all.Wait()
	storeApp(t, s, "hello:v9")
	expectHistory(t, s, "1 hello:v9 rolling_out")
}
