package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (r *request) app() string { return r.PathValue("app") }

func (r *request) inApp(rest ...string) string {
	return r.inEnvironment(append([]string{"apps", r.app()}, rest...)...)
}

func (r *request) readApp() (wire.App, error) {
	return r.api.App(r.Context(), r.project, r.environment, r.app())
}

func listApps(r *request) error {
	return showList(r, "apps", page{Title: "Apps", Tab: tabApps}, func(ctx context.Context, p client.Page) (wire.List[wire.App], error) {
		return r.api.AppsPage(ctx, r.project, r.environment, p)
	})
}

type appTab[T any] struct {
	name  string
	title string // of its page, after the name of the app
	part  string // template of its table, which requests itself again
	read  func(ctx context.Context, project, environment, app string, p client.Page) (wire.List[T], error)
	moves func(T) bool // reports whether an item is in progress
}

type appList[T any] struct {
	view.List[T]

	App  wire.App
	Live view.Polling
}

func (t appTab[T]) list(r *request) (appList[T], error) {
	var p appList[T]
	var found wire.List[T]
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&found, func() (wire.List[T], error) { return t.read(ctx, r.project, r.environment, r.app(), r.asked()) }))
	if err := g.Wait(); err != nil {
		return appList[T]{}, err
	}
	p.Items, p.Paging = found.Items, r.paging(r.URL.EscapedPath(), found.NextPageToken, len(found.Items), nil)
	p.Live = view.NewPolling(slices.ContainsFunc(found.Items, t.moves), r.inApp(t.name, "table"), found)
	return p, nil
}

func (t appTab[T]) show(r *request) error {
	p, err := t.list(r)
	if err != nil {
		return err
	}
	return r.show(t.name, page{Title: p.App.Name + " " + t.title, Tab: tabApps}, p)
}

func (t appTab[T]) follow(r *request) error {
	p, err := t.list(r)
	if err != nil {
		return err
	}
	return r.follow(p.Live, t.name, t.part, p)
}

type newAppPage struct {
	Git  bool
	Form view.Form
}

func newApp(r *request, f view.Form) error {
	git := r.URL.Query().Get("kind") == "git" || f.Value("kind") == "git"
	return r.show("newapp", page{Status: f.Status(), Title: "New app", Tab: tabApps}, newAppPage{Git: git, Form: f})
}

func createApp(r *request) error {
	name := r.PostForm.Get("name")
	in := wire.CreateApp{Name: &name}
	if host := r.PostForm.Get("host"); host != "" {
		in.Host = &host
	}
	if typed := r.PostForm.Get("port"); typed != "" {
		port, err := strconv.Atoi(typed)
		if err != nil {
			return newApp(r, r.invalid("port", "A port is a number from 1 to 65535."))
		}
		in.Port = &port
	}
	if r.PostForm.Get("kind") == "git" {
		source := r.gitSource()
		in.GitSource = &source
	} else {
		image := r.PostForm.Get("image")
		in.Image = &image
	}
	a, err := r.api.CreateApp(r.Context(), r.project, r.environment, in)
	if err != nil {
		return r.again(err, newApp)
	}
	return r.done(r.inEnvironment("apps", a.Name), noticeAppCreated)
}

type appPage struct {
	App     wire.App
	Current *wire.Deployment
	Failed  bool
	Serving *wire.Deployment // the live deployment, if it is not the current one
	Before  *wire.Deployment // target of a rollback; nil if there is none
	Build   *wire.Build      // the newest build; nil for an image app
	Live    view.Polling

	Curl string

	CallersURL string // path of the part with the keys that can access the app
	AllKeys    string
}

const callersShown = 5

func (r *request) overview() (appPage, error) {
	var p appPage
	var history wire.List[wire.Deployment]
	var builds wire.List[wire.Build]
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&history, func() (wire.List[wire.Deployment], error) {
		return r.api.DeploymentsPage(ctx, r.project, r.environment, r.app(), client.Page{Size: 10})
	}))
	g.Go(read(&builds, func() (wire.List[wire.Build], error) {
		return r.api.BuildsPage(ctx, r.project, r.environment, r.app(), client.Page{Size: 1})
	}))
	if err := g.Wait(); err != nil {
		return appPage{}, err
	}
	p.read(history.Items)
	p.Curl = "curl -i " + p.App.URL
	if p.App.RequireAPIKey {
		p.Curl = callWithKey(p.App)
	}
	p.Failed = p.Current != nil && p.Current.Status == "failed"
	if len(builds.Items) > 0 && p.App.GitSource != nil {
		p.Build = &builds.Items[0]
	}
	moving := gateMoves(p.App.Gate) || p.Current != nil && p.Current.Status == "rolling_out" || p.Build != nil && buildMoves(*p.Build)
	p.Live = view.NewPolling(moving, r.inApp("state"), []any{p.App, p.Current, p.Serving, p.Build})
	return p, nil
}

// read selects the deployments to show from the history, newest first. It selects the same rollback
// target as deploy.Previous.
func (p *appPage) read(history []wire.Deployment) {
	for i := range history {
		d := &history[i]
		if d.Current {
			p.Current = d
			continue
		}
		if d.Status == "live" && p.Serving == nil {
			p.Serving = d
		}
		if p.Before == nil && d.Status != "failed" || d.ReadyAt != nil && (p.Before == nil || p.Before.ReadyAt == nil) {
			p.Before = d
		}
	}
}

func gateMoves(g wire.Gate) bool { return g.State == "pending" || g.State == "releasing" }

func buildMoves(b wire.Build) bool { return b.Status == "queued" || b.Status == "running" }

func callWithKey(a wire.App) string { return `curl -i -H "X-API-Key: $API_KEY" ` + a.URL }

func showApp(r *request) error {
	p, err := r.overview()
	if err != nil {
		return err
	}
	p.CallersURL, p.AllKeys = r.inApp("callers"), r.inEnvironment("api-keys")+"?"+url.Values{"app": {r.app()}, "sort": {wire.SortLastSeen}}.Encode()
	return r.show("app", page{Title: p.App.Name, Tab: tabApps}, p)
}

// showCallers shows the part of the status page with the keys that can access the app. It is loaded
// separately, because the API reads all keys of the environment to find them.
func showCallers(r *request) error {
	filter := client.KeyFilter{Environment: r.environment, App: r.app(), Sort: wire.SortLastSeen}
	list, err := r.api.KeysPage(r.Context(), r.project, filter, client.Page{Size: callersShown})
	if err != nil {
		return err
	}
	return r.part("app", "callers", keyTable{Rows: r.keyRows(list.Items, nil)})
}

func showAppState(r *request) error {
	p, err := r.overview()
	if err != nil {
		return err
	}
	return r.follow(p.Live, "app", "state", p)
}

func askDeleteApp(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	return r.confirm(tabApps, view.Confirmation{
		Title: "Delete the app " + a.Name + "?",
		Lead:  "This cannot be undone.",
		Points: []string{
			"The app is removed from the cluster, and " + a.URL + " stops responding.",
			"Its deployment history and its webhook are deleted.",
			"Its host, " + a.Host + ", is reserved for the project for 30 days. Only an admin can release it earlier.",
			"API keys remain. The app is removed from their scopes. Keys without other apps are rejected until you edit them.",
		},
		Type: a.Name, Danger: true, Form: f,
		Action: r.inApp("delete"), Button: "Delete app", Back: r.inApp("settings"),
	})
}

func deleteApp(r *request) error {
	if !r.retyped(r.app()) {
		return askDeleteApp(r, r.invalid("name", wrongName))
	}
	deleted, err := r.api.DeleteApp(r.Context(), r.project, r.environment, r.app())
	switch {
	case isNotFound(err):
		return err
	case err != nil:
		return r.again(err, askDeleteApp)
	case deleted.KeyCount == 0:
		return r.done(r.inEnvironment("apps"), noticeAppDeleted)
	}
	return r.showDeletedApp(deleted)
}

type deletedApp struct {
	App  string
	Keys []narrowedKey
	More int
	List string
}

type narrowedKey struct{ Label, Path, Scope string }

func (r *request) showDeletedApp(d wire.DeletedApp) error {
	p := deletedApp{App: r.app(), More: d.KeyCount - len(d.Keys), List: r.inEnvironment("apps")}
	for _, k := range d.Keys {
		p.Keys = append(p.Keys, narrowedKey{Label: cmp.Or(k.Name, k.KeyID), Path: r.inEnvironment("api-keys", k.KeyID), Scope: scopeText(k.Apps)})
	}
	return r.show("apps_deleted", page{Title: "App deleted", Tab: tabApps}, p)
}
