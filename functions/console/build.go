package console

import (
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) builds() {
	m.page(inApp+"/builds", listBuilds)
	m.page(inApp+"/builds/table", showBuildsTable)
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
