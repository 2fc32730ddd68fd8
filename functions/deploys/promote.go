package deploys

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// promote deploys what the app of the same name runs in another environment of the
// project. Problems: missing_field, invalid_parameter, no_previous_revision,
// not_found for the app, the environment, its app and the revision.
func (s *Service) promote(w http.ResponseWriter, r *http.Request) error {
	a, caller, err := s.app(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.Promote](w, r)
	if err != nil {
		return err
	}
	if in.FromEnvironment == nil {
		return problem.New(problem.MissingField, "from_environment is required.")
	}
	if *in.FromEnvironment == a.Environment {
		return problem.New(problem.InvalidParameter, "from_environment is the app's own environment; roll back instead.")
	}
	from, err := s.appIn(r, a.Project, *in.FromEnvironment, a.Name)
	if err != nil {
		return err
	}
	source, err := s.promoted(r, from, in.Revision)
	if err != nil {
		return err
	}
	rev := source.Copy(deploy.Promotion, caller.Username, s.moment())
	return s.record(w, r, a.Ref(), func(app.App, deploy.Revision) (deploy.Revision, error) { return rev, nil })
}

// promoted finds the revision that is promoted.
func (s *Service) promoted(r *http.Request, from app.App, n *int64) (deploy.Revision, error) {
	if n != nil {
		return s.revision(r.Context(), from.Ref(), *n)
	}
	rev, err := s.newest(r.Context(), from.Ref(), from.Revision, deploy.Revision.Promotable)
	if problem.Is(err, problem.NoPreviousRevision) {
		err = problem.New(problem.NoPreviousRevision, "Nothing is live there, and nothing rolls out.")
	}
	return rev, err
}
