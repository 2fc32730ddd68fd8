package apps

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// setGitSource makes an app a git app, or changes what it is built from. It goes on
// running what it runs until its next build. Problems: not_found,
// invalid_git_source.
func (s *Service) setGitSource(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ref(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.GitSource](w, r)
	if err != nil {
		return err
	}
	source := app.GitSource{Repository: in.Repository, Branch: in.Branch, Path: in.Path}
	if err := checkGitSource(source); err != nil {
		return err
	}
	a, err := s.apps.UpdateApp(r.Context(), ref, func(a app.App) (app.App, error) {
		if a.GitSource == nil || *a.GitSource != source {
			a.GitSource, a.UpdatedAt = &source, s.now().UTC()
		}
		return a, nil
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "git source set", "app", ref.String())
	return httpapi.JSON(w, http.StatusOK, s.wireApp(a))
}

// removeGitSource makes a git app an image app, which keeps running its image. One
// that has never been built has none, and waits for the first deployment. A build
// that is under way deploys nothing any more. Problem: not_found, also for an app
// without a git source.
func (s *Service) removeGitSource(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ref(r, app.Developer)
	if err != nil {
		return err
	}
	_, err = s.apps.UpdateApp(r.Context(), ref, func(a app.App) (app.App, error) {
		if a.GitSource == nil {
			return app.App{}, problem.New(problem.NotFound, "The app has no git source.")
		}
		a.GitSource, a.UpdatedAt = nil, s.now().UTC()
		return a, nil
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "git source removed", "app", ref.String())
	return httpapi.NoContent(w)
}
