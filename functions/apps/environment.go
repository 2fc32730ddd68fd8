package apps

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listEnvironments(w http.ResponseWriter, r *http.Request) error {
	project := r.PathValue("project")
	if _, err := s.guard.Require(r, project, app.Viewer); err != nil {
		return err
	}
	page, err := readPage(r)
	if err != nil {
		return err
	}
	environments, next, err := s.environments.Environments(r.Context(), project, page)
	if err != nil {
		return err
	}
	list := wire.List[wire.Environment]{Items: []wire.Environment{}, NextPageToken: next}
	for _, e := range environments {
		list.Items = append(list.Items, wireEnvironment(e))
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// createEnvironment makes an environment and its namespace. Problems:
// missing_field, invalid_name, already_exists, namespace_taken.
func (s *Service) createEnvironment(w http.ResponseWriter, r *http.Request) error {
	project := r.PathValue("project")
	if _, err := s.guard.Require(r, project, app.Owner); err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreateEnvironment](w, r)
	if err != nil {
		return err
	}
	name, err := label("environment", in.Name)
	if err != nil {
		return err
	}
	namespace, err := app.Namespace(project, name)
	if err != nil {
		return err
	}
	if s.cfg.reservedNamespace(namespace) {
		return problem.New(problem.NamespaceTaken, "The namespace %s is reserved.", namespace)
	}
	e := app.Environment{Project: project, Name: name, Namespace: namespace, CreatedAt: s.now().UTC()}
	if err := s.environments.CreateEnvironment(r.Context(), e); err != nil {
		return err
	}
	s.ensureNamespace(context.WithoutCancel(r.Context()), namespace)
	return httpapi.JSON(w, http.StatusCreated, wireEnvironment(e))
}

// ensureNamespace makes an environment's namespace, if that works now: the first
// app of the environment needs it, and makes it if it isn't there.
func (s *Service) ensureNamespace(ctx context.Context, namespace string) {
	if err := s.cluster.EnsureNamespace(ctx, namespace); err != nil {
		s.log.WarnContext(ctx, "namespace not made yet", "namespace", namespace, "error", err)
	}
}

// deleteEnvironment deletes an environment without apps, keys and plans. Problem:
// not_empty.
func (s *Service) deleteEnvironment(w http.ResponseWriter, r *http.Request) error {
	project := r.PathValue("project")
	if _, err := s.guard.Require(r, project, app.Owner); err != nil {
		return err
	}
	if err := s.environments.DeleteEnvironment(r.Context(), project, r.PathValue("environment")); err != nil {
		return err
	}
	return httpapi.NoContent(w)
}

// environment asks for a role in the project of a request's path and reads the
// environment of it.
func (s *Service) environment(r *http.Request, need app.Role) (app.Environment, error) {
	project := r.PathValue("project")
	if _, err := s.guard.Require(r, project, need); err != nil {
		return app.Environment{}, err
	}
	return s.environments.Environment(r.Context(), project, r.PathValue("environment"))
}

func (c Config) reservedNamespace(ns string) bool {
	return strings.HasPrefix(ns, "kube-") || ns == c.WebhookNamespace || slices.Contains(c.ReservedNamespaces, ns)
}

func wireEnvironment(e app.Environment) wire.Environment {
	return wire.Environment{Name: e.Name, Project: e.Project, Namespace: e.Namespace, CreatedAt: e.CreatedAt}
}
