package console

import "github.com/sluicegate/sluice/shared/wire"

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
	a, err := v.readApp()
	if err != nil {
		return buildsPage{}, err
	}
	list, err := v.api.BuildsPage(v.ctx, v.project, v.environment, v.app(), v.asked())
	if err != nil {
		return buildsPage{}, err
	}
	p := buildsPage{App: a, Builds: list.Items, Paging: v.paging(list.NextPageToken)}
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
