package console

import (
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	inApps = "/projects/{project}/environments/{environment}/apps"
	inApp  = inApps + "/{app}"
)

func (m routes) apps() {
	m.page(inApps, listApps)
	m.page("/projects/{project}/environments/{environment}/new-app", func(v *visit) error { return newApp(v, form{}) })
	m.change(inApps, createApp)
	m.page(inApp, showApp)
	m.page(inApp+"/state", showAppState)
	m.page(inApp+"/delete", func(v *visit) error { return askDeleteApp(v, form{}) })
	m.change(inApp+"/delete", deleteApp)
}

// app is the name of the app that the visit is about.
func (v *visit) app() string { return v.r.PathValue("app") }

// inApp is a path of the visit's app.
func (v *visit) inApp(rest ...string) string {
	return v.inEnvironment(append([]string{"apps", v.app()}, rest...)...)
}

// readApp reads the visit's app.
func (v *visit) readApp() (wire.App, error) {
	return v.api.App(v.ctx, v.project, v.environment, v.app())
}

type appsPage struct {
	Apps   []wire.App
	Paging paging
}

func listApps(v *visit) error {
	list, err := v.api.AppsPage(v.ctx, v.project, v.environment, v.asked())
	if err != nil {
		return err
	}
	return v.show("apps", sheet{Title: "Apps", Tab: tabApps}, appsPage{Apps: list.Items, Paging: v.paging(list.NextPageToken)})
}

// newAppPage is the form for an app, of one kind or the other.
type newAppPage struct {
	Git  bool
	Form form
}

func newApp(v *visit, f form) error {
	git := v.r.URL.Query().Get("kind") == "git" || f.Value("kind") == "git"
	return v.show("newapp", sheet{Status: f.Status(), Title: "New app", Tab: tabApps}, newAppPage{Git: git, Form: f})
}

// appFields says which codes are about which field.
func appFields() map[string]string {
	return map[string]string{
		"invalid_name": "name", "already_exists": "name", "invalid_image": "image", "invalid_host": "host", "host_taken": "host",
		"invalid_port": "port", "invalid_git_source": "repository",
	}
}

func createApp(v *visit) error {
	name := v.typed("name")
	in := wire.CreateApp{Name: &name}
	if host := v.typed("host"); host != "" {
		in.Host = &host
	}
	if typed := v.typed("port"); typed != "" {
		port, err := strconv.Atoi(typed)
		if err != nil {
			return newApp(v, v.sent("port", "A port is a number from 1 to 65535."))
		}
		in.Port = &port
	}
	if v.typed("kind") == "git" {
		source := v.gitSource()
		in.GitSource = &source
	} else {
		image := v.typed("image")
		in.Image = &image
	}
	a, err := v.api.CreateApp(v.ctx, v.project, v.environment, in)
	if err != nil {
		f, ok := v.refused(err, appFields())
		if !ok {
			return err
		}
		return newApp(v, f)
	}
	return v.done(v.inEnvironment("apps", a.Name), noticeAppCreated)
}

// appPage is an app's Overview.
type appPage struct {
	App     wire.App
	Current *wire.Deployment // nil before the first
	Failed  bool             // the newest deployment did not work
	Serving *wire.Deployment // what runs meanwhile, if it is another
	Build   *wire.Build      // the newest of a git app
	Live    live
}

// overview reads what an app's Overview shows.
func (v *visit) overview() (appPage, error) {
	var p appPage
	var history wire.List[wire.Deployment]
	var builds wire.List[wire.Build]
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		p.App, err = v.readApp()
		return err
	})
	g.Go(func() (err error) {
		history, err = v.api.DeploymentsPage(ctx, v.project, v.environment, v.app(), client.Page{Size: 10})
		return err
	})
	g.Go(func() (err error) {
		builds, err = v.api.BuildsPage(ctx, v.project, v.environment, v.app(), client.Page{Size: 1})
		return err
	})
	if err := g.Wait(); err != nil {
		return appPage{}, err
	}
	for i := range history.Items {
		d := &history.Items[i]
		if d.Current {
			p.Current = d
		} else if d.Status == "live" && p.Serving == nil {
			p.Serving = d
		}
	}
	p.Failed = p.Current != nil && p.Current.Status == "failed"
	if len(builds.Items) > 0 && p.App.GitSource != nil {
		p.Build = &builds.Items[0]
	}
	moving := gateMoves(p.App.Gate) || p.Current != nil && p.Current.Status == "rolling_out" || p.Build != nil && buildMoves(*p.Build)
	p.Live = following(moving, v.inApp("state"), []any{p.App, p.Current, p.Serving, p.Build})
	return p, nil
}

// gateMoves tells whether a gate is on its way to another state.
func gateMoves(g wire.Gate) bool { return g.State == "pending" || g.State == "releasing" }

// buildMoves tells whether a build goes on.
func buildMoves(b wire.Build) bool { return b.Status == "queued" || b.Status == "running" }

func showApp(v *visit) error {
	p, err := v.overview()
	if err != nil {
		return err
	}
	return v.show("app", sheet{Title: p.App.Name, Tab: tabApps}, p)
}

func showAppState(v *visit) error {
	p, err := v.overview()
	if err != nil {
		return err
	}
	return v.follow(p.Live, "app", "state", p)
}

func askDeleteApp(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	return v.confirm(tabApps, confirmation{
		Title: "Delete the app " + a.Name + "?",
		Lead:  "This cannot be undone.",
		Points: []string{
			"What runs it is removed from the cluster, and " + a.URL + " answers no more.",
			"Its deploy history and its webhook are deleted.",
			"Keys stay. A key that names this app in its scope opens nothing by that any more.",
		},
		Type: a.Name, Danger: true, Form: f,
		Action: v.inApp("delete"), Button: "Delete the app", Back: v.inApp("settings"),
	})
}

func deleteApp(v *visit) error {
	if !v.retyped(v.app()) {
		return askDeleteApp(v, v.sent("name", wrongName))
	}
	if err := v.api.DeleteApp(v.ctx, v.project, v.environment, v.app()); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		if f.Refusal.Status == http.StatusNotFound {
			return err
		}
		return askDeleteApp(v, f)
	}
	return v.done(v.inEnvironment("apps"), noticeAppDeleted)
}
