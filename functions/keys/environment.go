package keys

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
)

// project lets only those through who have a role in the request's project.
func (s *Service) project(r *http.Request, need app.Role) (string, identity.Caller, error) {
	name := r.PathValue("project")
	caller, err := s.guard.Require(r, name, need)
	return name, caller, err
}

// environment is project for an address that names an environment, which must
// exist. Problems: those of the guard, not_found.
func (s *Service) environment(r *http.Request, need app.Role) (app.Environment, identity.Caller, error) {
	project, caller, err := s.project(r, need)
	if err != nil {
		return app.Environment{}, identity.Caller{}, err
	}
	env, err := s.environmentNamed(r, project, r.PathValue("environment"))
	return env, caller, err
}

func (s *Service) environmentNamed(r *http.Request, project, name string) (app.Environment, error) {
	if !app.ValidLabel(name) { // it becomes part of a document's path
		return app.Environment{}, problem.New(problem.NotFound, "There is no such environment.")
	}
	return s.environments.Environment(r.Context(), project, name)
}

// readPage takes the part of a list that a request asks for. Problem: invalid_page.
func readPage(r *http.Request) (store.Page, error) {
	page, err := httpapi.ReadPage(r)
	return store.Page{Size: page.Size, Token: page.Token}, err
}

// missing says which required field a request lacks, or sets to null.
func missing(field string) error {
	return problem.New(problem.MissingField, "%s is required.", field)
}
