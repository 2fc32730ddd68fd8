package deploys

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/image"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listDeployments lists an app's history, newest first.
func (s *Service) listDeployments(w http.ResponseWriter, r *http.Request) error {
	a, _, err := s.app(r, app.Viewer)
	if err != nil {
		return err
	}
	page, err := httpapi.ReadPage(r)
	if err != nil {
		return err
	}
	revisions, next, err := s.history.Deployments(r.Context(), a.Ref(), store.Page{Size: page.Size, Token: page.Token})
	if err != nil {
		return err
	}
	list := wire.List[wire.Deployment]{Items: make([]wire.Deployment, len(revisions)), NextPageToken: next}
	for i, rev := range revisions {
		list.Items[i] = wireDeployment(rev, a.Revision)
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// createDeployment deploys an image. Problems: missing_field, invalid_image,
// git_source_attached, not_found.
func (s *Service) createDeployment(w http.ResponseWriter, r *http.Request) error {
	a, caller, err := s.app(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreateDeployment](w, r)
	if err != nil {
		return err
	}
	if in.Image == nil {
		return problem.New(problem.MissingField, "image is required.")
	}
	if err := image.Check(*in.Image); err != nil {
		return err
	}
	if a.GitSource != nil { // before a registry is asked in vain; the rule looks again
		return problem.Of(problem.GitSourceAttached)
	}
	digest, note := s.registry.Resolve(r.Context(), *in.Image)
	rev := deploy.New(*in.Image, digest, deploy.Manual, caller.Username, s.moment())
	rev.Note = note
	return s.record(w, r, a.Ref(), func(a app.App, _ deploy.Revision) (deploy.Revision, error) {
		if a.GitSource != nil {
			return deploy.Revision{}, problem.Of(problem.GitSourceAttached)
		}
		return rev, nil
	})
}

// record records a deployment, starts its rollout and answers with the revision.
func (s *Service) record(w http.ResponseWriter, r *http.Request, ref app.Ref, rule func(app.App, deploy.Revision) (deploy.Revision, error)) error {
	rev, err := s.history.RecordDeployment(r.Context(), ref, rule)
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "deployment recorded", "app", ref.String(), "revision", rev.Number,
		"trigger", string(rev.Trigger), "actor", rev.Actor)
	s.followers.follow(r.Context(), ref)
	return httpapi.JSON(w, http.StatusCreated, wireDeployment(rev, rev.Number))
}

// app lets only those through who have a role in the request's project, and gives
// the app that the address names. Problems: those of the guard, not_found.
func (s *Service) app(r *http.Request, need app.Role) (app.App, identity.Caller, error) {
	project := r.PathValue("project")
	caller, err := s.guard.Require(r, project, need)
	if err != nil {
		return app.App{}, identity.Caller{}, err
	}
	a, err := s.appIn(r, project, r.PathValue("environment"), r.PathValue("app"))
	return a, caller, err
}

// appIn reads an app of an environment of a project. Problem: not_found.
func (s *Service) appIn(r *http.Request, project, environment, name string) (app.App, error) {
	if !app.ValidLabel(environment) { // it becomes part of a document's path
		return app.App{}, problem.New(problem.NotFound, "There is no such environment.")
	}
	if !app.ValidLabel(name) {
		return app.App{}, problem.New(problem.NotFound, "There is no such app.")
	}
	env, err := s.apps.Environment(r.Context(), project, environment)
	if err != nil {
		return app.App{}, err
	}
	return s.apps.App(r.Context(), env.Namespace, name)
}

func wireDeployment(r deploy.Revision, current int64) wire.Deployment {
	return wire.Deployment{
		Revision: r.Number, Image: r.Image, Digest: r.Digest, NoDigest: r.NoDigest(), Commit: r.Commit,
		Trigger: string(r.Trigger), Actor: r.Actor, SourceRevision: r.Source,
		Status: string(r.Status), Message: r.Says(), DeployedAt: r.DeployedAt, Current: r.Number == current,
	}
}
