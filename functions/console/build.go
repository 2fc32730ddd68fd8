package console

import (
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/wire"
)

// buildsPage is a git app's Builds tab.
type buildsPage struct {
	App    wire.App
	Builds []wire.Build // newest first
	Paging paging
	Live   live
}

func (r *request) readBuilds() (buildsPage, error) {
	var p buildsPage
	var list wire.List[wire.Build]
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&p.App, r.readApp))
	g.Go(func() (err error) {
		list, err = r.api.BuildsPage(ctx, r.project, r.environment, r.app(), r.asked())
		return err
	})
	if err := g.Wait(); err != nil {
		return buildsPage{}, err
	}
	p.Builds, p.Paging = list.Items, r.paging(list.NextPageToken)
	moving := false
	for _, b := range list.Items {
		moving = moving || buildMoves(b)
	}
	p.Live = following(moving, r.inApp("builds", "table"), list)
	return p, nil
}

func listBuilds(r *request) error {
	p, err := r.readBuilds()
	if err != nil {
		return err
	}
	return r.show("builds", page{Title: p.App.Name + " builds", Tab: tabApps}, p)
}

func showBuildsTable(r *request) error {
	p, err := r.readBuilds()
	if err != nil {
		return err
	}
	return r.follow(p.Live, "builds", "builds", p)
}

// newBuild asks which commit to build. That of a build that has failed is in the
// address.
func newBuild(r *request, f form) error {
	if f.Typed == nil {
		f = filled("commit", r.URL.Query().Get("commit"))
	}
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if a.GitSource == nil {
		return r.done(r.inApp("deploys"), noticeNothingChanged)
	}
	return r.ask(tabApps, formPage{
		Title: "Build " + a.Name, Button: "Build now", Action: r.inApp("builds"), Back: r.inApp("builds"), Form: f,
		Lead: "What is built is deployed, unless a newer build is deployed before. What serves now keeps serving until it is ready.",
		Inputs: []input{f.Text("commit", "Commit", "A commit hash, or the first digits of one on "+a.GitSource.Branch+". Empty builds the head of "+a.GitSource.Branch+".").
			Like("9fceb02")},
	})
}

func requestBuild(r *request) error {
	_, err := r.api.RequestBuild(r.Context(), r.project, r.environment, r.app(), strings.TrimSpace(r.PostForm.Get("commit")))
	if err != nil {
		return r.again(err, map[string]string{"invalid_commit": "commit"}, newBuild)
	}
	return r.done(r.inApp("builds"), noticeBuildRequested)
}
