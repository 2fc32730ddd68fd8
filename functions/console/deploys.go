package console

import (
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) deploys() {
	m.page(inApp+"/deploys", listDeploys)
	m.page(inApp+"/deploys/table", showDeploysTable)
	m.page(inApp+"/new-deploy", func(v *visit) error { return newDeploy(v, form{}) })
	m.change(inApp+"/deploys", createDeploy)
	m.rollbacks()
	m.promotions()
}

// deploysPage is an app's Deploys tab.
type deploysPage struct {
	App     wire.App
	History []wire.Deployment // newest first
	Paging  paging
	Live    live
}

// readDeploys reads the part of the history that the visit asks for.
func (v *visit) readDeploys() (deploysPage, error) {
	var p deploysPage
	var list wire.List[wire.Deployment]
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		p.App, err = v.readApp()
		return err
	})
	g.Go(func() (err error) {
		list, err = v.api.DeploymentsPage(ctx, v.project, v.environment, v.app(), v.asked())
		return err
	})
	if err := g.Wait(); err != nil {
		return deploysPage{}, err
	}
	p.History, p.Paging = list.Items, v.paging(list.NextPageToken)
	moving := false
	for _, d := range list.Items {
		moving = moving || d.Status == "rolling_out"
	}
	p.Live = following(moving, v.inApp("deploys", "table"), list)
	return p, nil
}

func listDeploys(v *visit) error {
	p, err := v.readDeploys()
	if err != nil {
		return err
	}
	return v.show("deploys", sheet{Title: p.App.Name + " deploys", Tab: tabApps}, p)
}

func showDeploysTable(v *visit) error {
	p, err := v.readDeploys()
	if err != nil {
		return err
	}
	return v.follow(p.Live, "deploys", "history", p)
}

func newDeploy(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if f.Refusal == nil {
		f = filled("image", a.Image)
	}
	return v.ask(tabApps, simple{
		Title: "Deploy " + a.Name, Button: "Deploy", Action: v.inApp("deploys"), Back: v.inApp("deploys"), Form: f,
		Lead:  "The new revision becomes the current one. The one that serves now keeps serving until the new one is ready.",
		Based: []based{{"current", strconv.FormatInt(a.Revision, 10)}},
		Inputs: []input{f.Text("image", "Image", "A full image reference with a tag or a digest.").
			Need().Like("registry.example.com/hello:v2")},
	})
}

func createDeploy(v *visit) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if stale := v.overtaken(a); stale != "" {
		return newDeploy(v, v.sent("", stale))
	}
	_, err = v.api.Deploy(v.ctx, v.project, v.environment, v.app(), v.typed("image"))
	if err != nil {
		f, ok := v.refused(err, map[string]string{"invalid_image": "image", "image_required": "image"})
		if !ok {
			return err
		}
		return newDeploy(v, f)
	}
	return v.done(v.inApp("deploys"), noticeDeployed)
}

// overtaken says so when another revision has become the current one since the form
// was shown.
func (v *visit) overtaken(a wire.App) string {
	if v.typed("current") == strconv.FormatInt(a.Revision, 10) {
		return ""
	}
	return fmt.Sprintf("Revision %d was deployed meanwhile, so nothing was done. Look at it, and send this again if you still want to.", a.Revision)
}

// deployment finds one revision of an app in an environment.
func (v *visit) deployment(environment string, is func(wire.Deployment) bool) (wire.Deployment, error) {
	for d, err := range v.api.Deployments(v.ctx, v.project, environment, v.app()) {
		if err != nil {
			return wire.Deployment{}, err
		}
		if is(d) {
			return d, nil
		}
	}
	return wire.Deployment{}, troubled{
		Status: http.StatusNotFound, Title: "There is no such revision",
		Text: "The deploy history of " + v.app() + " in " + environment + " does not hold it.",
	}
}

// fullImage is what a revision runs, with the digest where it is known.
func fullImage(d wire.Deployment) string {
	if d.Digest == "" {
		return d.Image
	}
	return d.Image + "@" + d.Digest
}

// facts say what changes when one deployment takes another's place.
func facts(now, then wire.Deployment) []fact {
	return []fact{
		{Name: "Image", Now: fullImage(now), Then: fullImage(then)},
		{Name: "Commit", Now: now.Commit, Then: then.Commit},
	}
}
