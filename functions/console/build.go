package console

import (
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/wire"
)

func buildsTab(r *request) appTab[wire.Build] {
	return appTab[wire.Build]{"builds", "builds", "builds", r.api.BuildsPage, buildMoves}
}

func listBuilds(r *request) error { return buildsTab(r).show(r) }

func showBuildsTable(r *request) error { return buildsTab(r).follow(r) }

// newBuild shows the form for a build. To retry a failed build, the query contains its commit.
func newBuild(r *request, f view.Form) error {
	if f.Values == nil {
		f = view.FilledForm("commit", r.URL.Query().Get("commit"))
	}
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if a.GitSource == nil {
		return r.done(r.inApp("deploys"), noticeNothingChanged)
	}
	return r.ask(tabApps, view.FormPage{
		Title: "New build of " + a.Name, Button: "Build now", Action: r.inApp("builds"), Back: r.inApp("builds"), Form: f,
		Lead:   "The image is deployed unless a newer build is deployed first. The live revision keeps serving until the new one is ready.",
		Hidden: []view.HiddenInput{{Name: "current", Value: strconv.FormatInt(a.Revision, 10)}, {Name: onceField, Value: rand.Text()}},
		Inputs: []view.Input{f.Text("commit", "Commit", "A commit hash, or its first digits, on "+a.GitSource.Branch+". If empty, the head of "+a.GitSource.Branch+" is built.").
			Placeholder("9fceb02")},
	})
}

func requestBuild(r *request) error {
	once, err := r.deployOnce()
	if err != nil {
		return err
	}
	_, err = once.RequestBuild(r.Context(), r.project, r.environment, r.app(), strings.TrimSpace(r.PostForm.Get("commit")))
	if err != nil {
		return r.notDeployed(err, newBuild)
	}
	return r.done(r.inApp("builds"), noticeBuildRequested)
}
