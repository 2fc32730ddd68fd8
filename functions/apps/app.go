package apps

import (
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listApps(w http.ResponseWriter, r *http.Request) error {
	e, err := s.environment(r, app.Viewer)
	if err != nil {
		return err
	}
	page, err := readPage(r)
	if err != nil {
		return err
	}
	apps, next, err := s.apps.Apps(r.Context(), e.Namespace, page)
	if err != nil {
		return err
	}
	list := wire.List[wire.App]{Items: []wire.App{}, NextPageToken: next}
	for _, a := range apps {
		list.Items = append(list.Items, s.wireApp(a))
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

func (s *Service) getApp(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ref(r, app.Viewer)
	if err != nil {
		return err
	}
	a, err := s.apps.App(r.Context(), ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, s.wireApp(a))
}

// updateApp switches Require API key. It answers at once; the app's gate tells
// how far wiring is.
func (s *Service) updateApp(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ref(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.UpdateApp](w, r)
	if err != nil {
		return err
	}
	a, err := s.apps.UpdateApp(r.Context(), ref, func(a app.App) (app.App, error) {
		if in.RequireAPIKey == nil || *in.RequireAPIKey == a.RequireAPIKey {
			return a, nil
		}
		a.RequireAPIKey = *in.RequireAPIKey
		a.UpdatedAt = s.now().UTC()
		a.Gate = a.Gate.Switch(a.RequireAPIKey, a.UpdatedAt)
		return a, nil
	})
	if err != nil {
		return err
	}
	if a.Gate.State == app.Pending || a.Gate.State == app.Releasing {
		s.wiring.Notify(r.Context(), app.GateRequested, ref)
	}
	return httpapi.JSON(w, http.StatusOK, s.wireApp(a))
}

// ref names the app of a request's path, in an environment that exists, for a
// caller who has the role that it takes. Whether there is such an app is not
// known yet.
func (s *Service) ref(r *http.Request, need app.Role) (app.Ref, error) {
	e, err := s.environment(r, need)
	if err != nil {
		return app.Ref{}, err
	}
	name := r.PathValue("app")
	if !app.ValidLabel(name) { // it becomes part of a document's path
		return app.Ref{}, problem.New(problem.NotFound, "There is no such app.")
	}
	return app.Ref{Namespace: e.Namespace, Name: name}, nil
}

func (s *Service) wireApp(a app.App) wire.App {
	out := wire.App{
		Name: a.Name, Project: a.Project, Environment: a.Environment,
		Host: a.Host, URL: strings.ReplaceAll(s.cfg.AppURL, hostMark, a.Host), Port: a.Port,
		Kind: string(a.Kind()), Image: a.Image, RequireAPIKey: a.RequireAPIKey,
		Gate:     wire.Gate{State: string(a.Gate.State), Since: a.Gate.Since, Message: a.Gate.Message},
		Revision: a.Revision,
	}
	if d := a.Deployed; a.Revision > 0 && !d.At.IsZero() {
		out.Deployed = &wire.Deployed{At: d.At, Status: d.Status}
	}
	if g := a.GitSource; g != nil {
		out.GitSource = &wire.GitSource{Repository: g.Repository, Branch: g.Branch, Path: g.Path}
	}
	return out
}
