package console

import (
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) promotions() {
	m.page(inApp+"/promote", choosePromotion)
	m.page(inApp+"/promote/{from}", func(v *visit) error { return askPromote(v, form{}) })
	m.change(inApp+"/promote/{from}", promote)
}

// promotePage lists where an app can be promoted from.
type promotePage struct {
	App     wire.App
	Sources []wire.App // the app of the same name in other environments
}

// atOnce is how many environments are asked at the same time.
const atOnce = 8

func choosePromotion(v *visit) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	f, err := v.frame()
	if err != nil {
		return err
	}
	found := make([]wire.App, len(f.Environments))
	g, ctx := errgroup.WithContext(v.ctx)
	g.SetLimit(atOnce)
	for i, e := range f.Environments {
		if e.Name == v.environment {
			continue
		}
		g.Go(func() (err error) {
			found[i], err = v.api.App(ctx, v.project, e.Name, v.app())
			if client.HasCode(err, "not_found") {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p := promotePage{App: a}
	for _, other := range found {
		if other.Revision > 0 {
			p.Sources = append(p.Sources, other)
		}
	}
	return v.show("promote", sheet{Title: "Promote " + a.Name, Tab: tabApps}, p)
}

// askPromote says what a promotion will change. It promotes what is shown, not what
// is newest by then.
func askPromote(v *visit, f form) error {
	from := v.r.PathValue("from")
	then, err := v.deployment(from, func(d wire.Deployment) bool { return d.Status == "rolling_out" || d.Status == "live" })
	if err != nil {
		return err
	}
	a, err := v.readApp()
	if err != nil {
		return err
	}
	now := wire.Deployment{}
	if a.Revision > 0 {
		if now, err = v.deployment(v.environment, func(d wire.Deployment) bool { return d.Current }); err != nil {
			return err
		}
	}
	revision := strconv.FormatInt(then.Revision, 10)
	return v.confirm(tabApps, confirmation{
		Title:  fmt.Sprintf("Promote %s from %s to %s?", a.Name, from, v.environment),
		Lead:   fmt.Sprintf("A new revision in %s will run what revision %s in %s runs.", v.environment, revision, from),
		Facts:  facts(now, then),
		Points: []string{"What serves now keeps serving until the new revision is ready."},
		Based:  []based{{"current", strconv.FormatInt(a.Revision, 10)}, {"revision", revision}},
		Form:   f,
		Action: v.inApp("promote", from), Button: "Promote to " + v.environment, Back: v.inApp("promote"),
	})
}

func promote(v *visit) error {
	revision, err := strconv.ParseInt(v.typed("revision"), 10, 64)
	if err != nil {
		return noPage()
	}
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if stale := v.overtaken(a); stale != "" {
		return askPromote(v, v.sent("", stale))
	}
	if _, err := v.api.Promote(v.ctx, v.project, v.environment, v.app(), v.r.PathValue("from"), revision); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askPromote(v, f)
	}
	return v.done(v.inApp("deploys"), noticePromoted)
}
