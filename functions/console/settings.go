package console

import (
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

type settingsForms struct {
	Webhook   view.Form
	ShowToken bool
}

type settingsPage struct {
	App     wire.App
	Webhook webhookCard
	Trusts  []trustRow
	Issuers []string
	Forms   settingsForms
}

func showSettings(r *request) error { return showSettingsWith(r, settingsForms{}) }

func showToken(r *request) error { return showSettingsWith(r, settingsForms{ShowToken: true}) }

func toSettings(r *request) error { return r.redirect(r.inApp("settings")) }

func showSettingsWith(r *request, forms settingsForms) error {
	p := settingsPage{Forms: forms}
	var hook client.Webhook
	var trusts []wire.Trust
	var g errgroup.Group
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&hook, r.readWebhook))
	g.Go(read(&trusts, r.readTrusts))
	if err := g.Wait(); err != nil {
		return err
	}
	p.Webhook = cardOf(p.App, hook, forms.ShowToken)
	p.Trusts, p.Issuers = trustRows(p.App, hook, trusts), hook.Issuers
	return r.show("settings", page{Status: forms.Webhook.Status(), Title: p.App.Name + " settings", Tab: tabApps}, p)
}
