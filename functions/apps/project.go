package apps

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listProjects(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.guard.Caller(r)
	if err != nil {
		return err
	}
	page, err := readPage(r)
	if err != nil {
		return err
	}
	member := caller.Username
	if caller.Admin {
		member = "" // all of them
	}
	projects, next, err := s.projects.Projects(r.Context(), member, page)
	if err != nil {
		return err
	}
	list := wire.List[wire.Project]{Items: []wire.Project{}, NextPageToken: next}
	for _, p := range projects {
		list.Items = append(list.Items, wireProject(p, caller))
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// createProject makes a project. Problems: forbidden, missing_field,
// invalid_name, already_exists.
func (s *Service) createProject(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.guard.Caller(r)
	if err != nil {
		return err
	}
	if !caller.Admin {
		return problem.New(problem.Forbidden, "Only admins make projects.")
	}
	in, err := httpapi.Decode[wire.CreateProject](w, r)
	if err != nil {
		return err
	}
	name, err := label("project", in.Name)
	if err != nil {
		return err
	}
	p := app.Project{Name: name, Members: map[string]app.Role{caller.Username: app.Owner}, CreatedAt: s.now().UTC()}
	if err := s.projects.CreateProject(r.Context(), p); err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusCreated, wireProject(p, caller))
}

func (s *Service) getProject(w http.ResponseWriter, r *http.Request) error {
	p, caller, err := s.project(r, app.Viewer)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, wireProject(p, caller))
}

// deleteProject deletes a project without environments. Problem: not_empty.
func (s *Service) deleteProject(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("project")
	if _, err := s.guard.Require(r, name, app.Owner); err != nil {
		return err
	}
	if err := s.projects.DeleteProject(r.Context(), name); err != nil {
		return err
	}
	return httpapi.NoContent(w)
}

// project asks for a role in the project of a request's path and reads it.
func (s *Service) project(r *http.Request, need app.Role) (app.Project, identity.Caller, error) {
	name := r.PathValue("project")
	caller, err := s.guard.Require(r, name, need)
	if err != nil {
		return app.Project{}, identity.Caller{}, err
	}
	p, err := s.projects.Project(r.Context(), name)
	return p, caller, err
}

func wireProject(p app.Project, caller identity.Caller) wire.Project {
	role := p.Members[caller.Username]
	if caller.Admin {
		role = app.Owner
	}
	return wire.Project{Name: p.Name, Role: string(role), CreatedAt: p.CreatedAt}
}

func readPage(r *http.Request) (store.Page, error) {
	p, err := httpapi.ReadPage(r)
	return store.Page{Size: p.Size, Token: p.Token}, err
}

// label is a required field that names a project or an environment. Problems:
// missing_field, invalid_name.
func label(what string, value *string) (string, error) {
	if value == nil {
		return "", nameRequired()
	}
	return *value, app.CheckLabel(what, *value)
}

func nameRequired() error { return problem.New(problem.MissingField, "name is required.") }
