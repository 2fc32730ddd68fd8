package builds

import (
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listBuilds lists an app's builds, newest first.
func (s *Service) listBuilds(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.app(r)
	if err != nil {
		return err
	}
	page, err := httpapi.ReadPage(r)
	if err != nil {
		return err
	}
	builds, next, err := s.builds.Builds(r.Context(), ref, store.Page{Size: page.Size, Token: page.Token})
	if err != nil {
		return err
	}
	list := wire.List[wire.Build]{Items: make([]wire.Build, len(builds)), NextPageToken: next}
	for i, b := range builds {
		list.Items[i] = wireBuild(b)
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// getBuild reads one build. Problem: not_found.
func (s *Service) getBuild(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.app(r)
	if err != nil {
		return err
	}
	text := r.PathValue("build")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != text {
		return problem.New(problem.NotFound, "There is no such build.")
	}
	b, err := s.builds.Build(r.Context(), ref, n)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, wireBuild(b))
}

// app lets viewers through and gives the app that the address names. Problems: those
// of the guard, not_found.
func (s *Service) app(r *http.Request) (app.Ref, error) {
	project, environment, name := r.PathValue("project"), r.PathValue("environment"), r.PathValue("app")
	if _, err := s.guard.Require(r, project, app.Viewer); err != nil {
		return app.Ref{}, err
	}
	if !app.ValidLabel(environment) { // it becomes part of a document's path
		return app.Ref{}, problem.New(problem.NotFound, "There is no such environment.")
	}
	if !app.ValidLabel(name) {
		return app.Ref{}, problem.New(problem.NotFound, "There is no such app.")
	}
	env, err := s.apps.Environment(r.Context(), project, environment)
	if err != nil {
		return app.Ref{}, err
	}
	a, err := s.apps.App(r.Context(), env.Namespace, name)
	return a.Ref(), err
}

func wireBuild(b deploy.Build) wire.Build {
	out := wire.Build{
		Build: b.Number, Commit: b.Commit,
		GitSource: wire.GitSource{Repository: b.Source.Repository, Branch: b.Source.Branch, Path: b.Source.Path},
		Actor:     b.Actor, Status: string(b.Status), Message: b.Message,
		Image: b.Image, Digest: b.Digest, Revision: b.Revision, RequestedAt: b.RequestedAt,
	}
	if b.Final() {
		out.FinishedAt = &b.FinishedAt
	}
	return out
}
