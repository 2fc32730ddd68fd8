package builds

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listBuilds lists an app's builds, newest first.
func (s *Service) listBuilds(w http.ResponseWriter, r *http.Request) error {
	ref, _, err := s.app(r, app.Viewer)
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

// requestBuild records a build of a commit or of the branch's head, and starts it. What
// cannot be started at once is the next tick's. Problems: invalid_commit, no_git_source,
// not_found.
func (s *Service) requestBuild(w http.ResponseWriter, r *http.Request) error {
	ref, caller, err := s.app(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.DecodeOptional[wire.RequestBuild](w, r)
	if err != nil {
		return err
	}
	commit := ""
	if in.Commit != nil {
		if commit, err = hook.ParseCommit(*in.Commit); err != nil {
			return err
		}
	}
	b, err := s.builds.RecordBuild(r.Context(), ref, func(a app.App) (deploy.Build, error) {
		if a.GitSource == nil {
			return deploy.Build{}, problem.Of(problem.NoGitSource)
		}
		return deploy.NewBuild(*a.GitSource, commit, deploy.Manual, caller.Username, s.moment()), nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), startTimeout)
	defer cancel()
	if err := s.look(ctx, ref, b); err != nil {
		s.log.WarnContext(ctx, "build not started yet", "app", ref.String(), "build", b.Number, "error", err)
	}
	return httpapi.JSON(w, http.StatusAccepted, wireBuild(b))
}

// getBuild reads one build. Problem: not_found.
func (s *Service) getBuild(w http.ResponseWriter, r *http.Request) error {
	ref, _, err := s.app(r, app.Viewer)
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

// app lets only those through who have a role in the request's project, and gives the
// app that the address names. Problems: those of the guard, not_found.
func (s *Service) app(r *http.Request, need app.Role) (app.Ref, identity.Caller, error) {
	project, environment, name := r.PathValue("project"), r.PathValue("environment"), r.PathValue("app")
	caller, err := s.guard.Require(r, project, need)
	if err != nil {
		return app.Ref{}, identity.Caller{}, err
	}
	if !app.ValidLabel(environment) { // it becomes part of a document's path
		return app.Ref{}, caller, problem.New(problem.NotFound, "There is no such environment.")
	}
	if !app.ValidLabel(name) {
		return app.Ref{}, caller, problem.New(problem.NotFound, "There is no such app.")
	}
	env, err := s.apps.Environment(r.Context(), project, environment)
	if err != nil {
		return app.Ref{}, caller, err
	}
	a, err := s.apps.App(r.Context(), env.Namespace, name)
	return a.Ref(), caller, err
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
