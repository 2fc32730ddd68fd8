package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func deploysTab(r *request) appTab[wire.Deployment] {
	return appTab[wire.Deployment]{"deploys", "deployments", "history", r.api.DeploymentsPage, func(d wire.Deployment) bool { return d.Status == "rolling_out" }}
}

func listDeploys(r *request) error { return deploysTab(r).show(r) }

func showDeploysTable(r *request) error { return deploysTab(r).follow(r) }

func newDeploy(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if f.Err == nil {
		f = view.FilledForm("image", a.Image)
	}
	return r.ask(tabApps, view.FormPage{
		Title: "New deployment of " + a.Name, Button: "Deploy", Action: r.inApp("deploys"), Back: r.inApp("deploys"), Form: f,
		Lead:   "The new revision becomes the current one. The live revision keeps serving until the new one is ready.",
		Hidden: []view.HiddenInput{{Name: "current", Value: strconv.FormatInt(a.Revision, 10)}, {Name: onceField, Value: rand.Text()}},
		Inputs: []view.Input{f.Text("image", "Image", "A full image reference with a tag or a digest.").
			Require().Placeholder("registry.example.com/hello:v2")},
	})
}

func deploy(r *request) error {
	once, err := r.deployOnce()
	if err != nil {
		return err
	}
	_, err = once.Deploy(r.Context(), r.project, r.environment, r.app(), r.PostForm.Get("image"))
	if err != nil {
		return r.notDeployed(err, newDeploy)
	}
	return r.done(r.inApp("deploys"), noticeDeployed)
}

// deployOnce returns an API client whose call takes effect at most once for the submitted form, and
// only while the form's revision is current.
func (r *request) deployOnce() (*client.Client, error) {
	current, err := strconv.ParseInt(r.PostForm.Get("current"), 10, 64)
	if err != nil {
		return nil, notFound()
	}
	once, err := r.issueOnce()
	if err != nil {
		return nil, err
	}
	return once.Matching(api.RevisionTag(current)), nil
}

func (r *request) notDeployed(err error, page ask) error {
	if !client.HasCode(err, "precondition_failed") {
		return r.again(err, page)
	}
	a, err := r.readApp()
	if err != nil {
		return err
	}
	return page(r, r.invalid("", fmt.Sprintf("No changes were made: revision %d was deployed in the meantime. Review it, then submit again.", a.Revision)))
}

func (r *request) deployment(ctx context.Context, environment string, is func(wire.Deployment) bool) (wire.Deployment, error) {
	for d, err := range r.api.Deployments(ctx, r.project, environment, r.app()) {
		if err != nil {
			return wire.Deployment{}, err
		}
		if is(d) {
			return d, nil
		}
	}
	return wire.Deployment{}, r.noRevision(environment)
}

func (r *request) noRevision(environment string) error {
	return httpError{
		Status: http.StatusNotFound, Title: "Revision not found",
		Text: "The deployment history of " + r.app() + " in " + environment + " contains no matching revision.",
	}
}

func fullImage(d wire.Deployment) string {
	if d.Digest == "" {
		return d.Image
	}
	return d.Image + "@" + string(d.Digest)
}

func facts(now, then wire.Deployment) []view.Comparison {
	return []view.Comparison{
		{Name: "Image", Now: fullImage(now), Then: fullImage(then)},
		{Name: "Commit", Now: string(now.Commit), Then: string(then.Commit)},
	}
}

func (r *request) revision() (int64, error) { return revisionIn(r.PathValue(revisionField)) }

func revisionIn(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, notFound()
	}
	return n, nil
}

func askRollback(r *request, f view.Form) error {
	n, err := r.revision()
	if err != nil {
		return err
	}
	then, err := r.api.Deployment(r.Context(), r.project, r.environment, r.app(), n)
	if client.HasCode(err, "not_found") {
		return r.noRevision(r.environment)
	}
	if err != nil {
		return err
	}
	now, err := r.deployment(r.Context(), r.environment, func(d wire.Deployment) bool { return d.Current })
	if err != nil {
		return err
	}
	c := view.Confirmation{
		Title:  fmt.Sprintf("Roll %s back to revision %d?", r.app(), n),
		Lead:   fmt.Sprintf("Revision %d is current. The rollback creates a new revision with the image of revision %d.", now.Revision, n),
		Facts:  facts(now, then),
		Hidden: []view.HiddenInput{{Name: "current", Value: strconv.FormatInt(now.Revision, 10)}, {Name: onceField, Value: rand.Text()}},
		Form:   f, // without Danger: a rollback removes nothing
		Action: r.inApp("deploys", strconv.FormatInt(n, 10), "rollback"), Button: fmt.Sprintf("Roll back to revision %d", n), Back: r.inApp("deploys"),
	}
	if then.Status == "failed" {
		c.Points = append(c.Points, fmt.Sprintf("Revision %d failed when it was deployed: %s", n, then.Message))
	}
	if then.NoDigest != "" {
		c.Points = append(c.Points, string(then.NoDigest)+" The rollback deploys the image that the tag refers to now.")
	}
	c.Points = append(c.Points, "The live revision keeps serving until the new one is ready.")
	return r.confirm(tabApps, c)
}

func rollBack(r *request) error {
	n, err := r.revision()
	if err != nil {
		return err
	}
	once, err := r.deployOnce()
	if err != nil {
		return err
	}
	if _, err := once.Rollback(r.Context(), r.project, r.environment, r.app(), n); err != nil {
		return r.notDeployed(err, askRollback)
	}
	return r.done(r.inApp("deploys"), noticeRolledBack)
}

type promotePage struct {
	App     wire.App
	Sources []promotionSource
}

// promotionSource is the revision of another environment that a promotion deploys by default.
type promotionSource struct {
	Environment string
	wire.Deployment
}

const atOnce = 8

const revisionField = "revision"

func choosePromotion(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	f, err := r.layout()
	if err != nil {
		return err
	}
	found := make([]promotionSource, len(f.Environments))
	g, ctx := errgroup.WithContext(r.Context())
	g.SetLimit(atOnce)
	for i, e := range f.Environments {
		if e.Name == r.environment {
			continue
		}
		g.Go(func() error {
			d, err := r.deployment(ctx, e.Name, wasReady)
			found[i] = promotionSource{e.Name, d}
			if isNotFound(err) || errors.Is(err, r.noRevision(e.Name)) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p := promotePage{App: a, Sources: slices.DeleteFunc(found, func(s promotionSource) bool { return s.Revision == 0 })}
	return r.show("promote", page{Title: "Promotion of " + a.Name, Tab: tabApps}, p)
}

func wasReady(d wire.Deployment) bool { return d.ReadyAt != nil }

// promotable returns the revision that the list of environments or the form shows, or the newest
// one that was ready. It returns an error with status 404 if the revision was never ready.
func (r *request) promotable(from string) (wire.Deployment, error) {
	shown := cmp.Or(r.PostForm.Get(revisionField), r.URL.Query().Get(revisionField))
	if shown == "" {
		return r.deployment(r.Context(), from, wasReady)
	}
	n, err := revisionIn(shown)
	if err != nil {
		return wire.Deployment{}, err
	}
	d, err := r.api.Deployment(r.Context(), r.project, from, r.app(), n)
	if isNotFound(err) || err == nil && !wasReady(d) {
		return wire.Deployment{}, r.noRevision(from)
	}
	return d, err
}

// askPromote shows the confirmation of a promotion. The form contains the shown revision, so that
// a newer one is not promoted instead.
func askPromote(r *request, f view.Form) error {
	from := r.PathValue("from")
	then, err := r.promotable(from)
	if err != nil {
		return err
	}
	a, err := r.readApp()
	if err != nil {
		return err
	}
	now := wire.Deployment{}
	if a.Revision > 0 {
		if now, err = r.deployment(r.Context(), r.environment, func(d wire.Deployment) bool { return d.Current }); err != nil {
			return err
		}
	}
	revision := strconv.FormatInt(then.Revision, 10)
	return r.confirm(tabApps, view.Confirmation{
		Title:  fmt.Sprintf("Promote %s from %s to %s?", a.Name, from, r.environment),
		Lead:   fmt.Sprintf("The promotion creates a new revision in %s with the image of revision %s in %s.", r.environment, revision, from),
		Facts:  facts(now, then),
		Points: []string{"The live revision keeps serving until the new one is ready."},
		Hidden: []view.HiddenInput{{Name: "current", Value: strconv.FormatInt(a.Revision, 10)}, {Name: revisionField, Value: revision}, {Name: onceField, Value: rand.Text()}},
		Form:   f,
		Action: r.inApp("promote", from), Button: "Promote to " + r.environment, Back: r.inApp("promote"),
	})
}

func promote(r *request) error {
	revision, err := revisionIn(r.PostForm.Get(revisionField))
	if err != nil {
		return err
	}
	once, err := r.deployOnce()
	if err != nil {
		return err
	}
	if _, err := once.Promote(r.Context(), r.project, r.environment, r.app(), r.PathValue("from"), revision); err != nil {
		return r.notDeployed(err, askPromote)
	}
	return r.done(r.inApp("deploys"), noticePromoted)
}
