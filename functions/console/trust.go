package console

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

type trustRow struct {
	wire.Trust

	Terms   []term
	Snippet webhookSnippet
}

type term struct{ Name, Pattern string }

func trustRows(a wire.App, w client.Webhook, trusts []wire.Trust) []trustRow {
	var rows []trustRow
	for _, t := range trusts {
		hook, ci := snippetOf(a, w), snippet.CI(t.Provider)
		hook.Audience = t.Audience
		if app.Provider(t.Provider) == app.Other {
			ci = snippet.Curl
		}
		row := trustRow{Trust: t, Snippet: webhookSnippet{ID: "snippet-" + t.ID, Title: hook.Title(ci), Text: hook.For(ci)}}
		for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
			row.Terms = append(row.Terms, term{name, t.Claims[name]})
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *request) readTrusts() ([]wire.Trust, error) {
	return client.Collect(r.api.Trusts(r.Context(), r.project, r.environment, r.app()))
}

type trustPage struct {
	App       wire.App
	Providers []view.Option
	Issuers   []view.Option
	Form      view.Form
}

func newTrust(r *request, f view.Form) error {
	p := trustPage{Form: f, Providers: []view.Option{
		{Value: string(app.GitHub), Label: "GitHub Actions"},
		{Value: string(app.GitLab), Label: "GitLab CI"},
		{Value: string(app.Forgejo), Label: "Forgejo Actions"},
		{Value: string(app.Other), Label: "Other"},
	}}
	var hook client.Webhook
	var g errgroup.Group
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&hook, r.readWebhook))
	if err := g.Wait(); err != nil {
		return err
	}
	for _, issuer := range hook.Issuers {
		p.Issuers = append(p.Issuers, view.Option{Value: issuer, Label: issuer})
	}
	return r.show("newtrust", page{Status: f.Status(), Title: "New trusted pipeline", Tab: tabApps}, p)
}

func addTrust(r *request) error {
	provider := app.Provider(cmp.Or(r.PostForm.Get("provider"), string(app.Other)))
	claims := provider.Claims(app.TrustConditions{
		Repository: r.PostForm.Get("repository"), Ref: r.PostForm.Get("ref"),
		Environment: r.PostForm.Get("ci_environment"), Workflow: r.PostForm.Get("workflow"),
		AnyEvent: r.PostForm.Has("any_event"), Unprotected: r.PostForm.Has("unprotected"),
	})
	_, err := r.api.AddTrust(r.Context(), r.project, r.environment, r.app(), wire.AddTrust{
		Provider: string(provider), Issuer: r.PostForm.Get("issuer"), Claims: claims,
	})
	if err != nil {
		return r.again(err, newTrust)
	}
	return r.done(r.inApp("settings"), noticeTrustAdded)
}

func askRemoveTrust(r *request, f view.Form) error {
	id := r.PathValue("trust")
	return r.confirm(tabApps, view.Confirmation{
		Title:  "Remove this trusted pipeline?",
		Lead:   "Pipelines that match " + id + " can no longer deploy " + r.app() + ". Existing deployments remain.",
		Danger: true, Form: f,
		Action: r.inApp("settings", "webhook", "trusts", id, "remove"), Button: "Remove trusted pipeline", Back: r.inApp("settings"),
	})
}

func removeTrust(r *request) error {
	err := r.api.RemoveTrust(r.Context(), r.project, r.environment, r.app(), r.PathValue("trust"))
	switch {
	case client.HasCode(err, "not_found"):
		return r.done(r.inApp("settings"), noticeNothingChanged)
	case err != nil:
		return r.again(err, askRemoveTrust)
	}
	return r.done(r.inApp("settings"), noticeTrustRemoved)
}
