package console

import (
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) builds() {
	m.page(inApp+"/builds", listBuilds)
	m.page(inApp+"/builds/table", showBuildsTable)
	m.page(inApp+"/new-build", func(v *visit) error { return newBuild(v, filled("commit", v.r.URL.Query().Get("commit"))) })
	m.change(inApp+"/builds", requestBuild)
}

// buildsPage is a git app's Builds tab.
type buildsPage struct {
	App    wire.App
	Builds []wire.Build // newest first
	Paging paging
	Live   live
}

func (v *visit) readBuilds() (buildsPage, error) {
	var p buildsPage
	var list wire.List[wire.Build]
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		p.App, err = v.readApp()
		return err
	})
	g.Go(func() (err error) {
		list, err = v.api.BuildsPage(ctx, v.project, v.environment, v.app(), v.asked())
		return err
	})
	if err := g.Wait(); err != nil {
		return buildsPage{}, err
	}
	p.Builds, p.Paging = list.Items, v.paging(list.NextPageToken)
	moving := false
	for _, b := range list.Items {
		moving = moving || buildMoves(b)
	}
	p.Live = following(moving, v.inApp("builds", "table"), list)
	return p, nil
}

func listBuilds(v *visit) error {
	p, err := v.readBuilds()
	if err != nil {
		return err
	}
	return v.show("builds", sheet{Title: p.App.Name + " builds", Tab: tabApps}, p)
}

func showBuildsTable(v *visit) error {
	p, err := v.readBuilds()
	if err != nil {
		return err
	}
	return v.follow(p.Live, "builds", "builds", p)
}

// newBuild asks which commit to build. That of a build that has failed is in the
// address.
func newBuild(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if a.GitSource == nil {
		return v.done(v.inApp("deploys"), noticeNothingChanged)
	}
	return v.ask(tabApps, simple{
		Title: "Build " + a.Name, Button: "Build now", Action: v.inApp("builds"), Back: v.inApp("builds"), Form: f,
		Lead: "What is built is deployed, unless a newer build is deployed before. What serves now keeps serving until it is ready.",
		Inputs: []input{f.Text("commit", "Commit", "A commit hash, or the first digits of one on "+a.GitSource.Branch+". Empty builds the head of "+a.GitSource.Branch+".").
			Like("9fceb02")},
	})
}

func requestBuild(v *visit) error {
	_, err := v.api.RequestBuild(v.ctx, v.project, v.environment, v.app(), strings.TrimSpace(v.typed("commit")))
	if err != nil {
		f, ok := v.refused(err, map[string]string{"invalid_commit": "commit"})
		if !ok {
			return err
		}
		return newBuild(v, f)
	}
	return v.done(v.inApp("builds"), noticeBuildRequested)
}
