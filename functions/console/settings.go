package console

import (
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) settings() {
	m.page(inApp+"/settings", func(v *visit) error { return showSettings(v, settingsForms{}) })
	m.page(inApp+"/settings/gate/state", showGate)
	m.page(inApp+"/settings/gate", func(v *visit) error { return askReleaseGate(v, form{}) })
	m.change(inApp+"/settings/gate", switchGate)
	m.gitSources()
	m.webhooks()
}

// settingsForms are the forms of an app's Settings that were not taken.
type settingsForms struct {
	Gate, Git, Webhook form
	ShowToken          bool // it was asked for
}

// settingsPage is an app's Settings.
type settingsPage struct {
	App     wire.App
	Live    live // the gate's state
	Webhook webhookCard
	Forms   settingsForms
}

func (v *visit) readSettings() (settingsPage, error) {
	var p settingsPage
	var hook client.Webhook
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) {
		p.App, err = v.readApp()
		return err
	})
	g.Go(func() (err error) {
		hook, err = v.api.Webhook(ctx, v.project, v.environment, v.app())
		return err
	})
	if err := g.Wait(); err != nil {
		return settingsPage{}, err
	}
	p.Live = v.followGate(p.App)
	p.Webhook = cardOf(p.App, hook)
	return p, nil
}

func showSettings(v *visit, forms settingsForms) error {
	p, err := v.readSettings()
	if err != nil {
		return err
	}
	p.Forms = forms
	if forms.ShowToken {
		p.Webhook = p.Webhook.open()
	}
	status := max(forms.Gate.Status(), forms.Git.Status(), forms.Webhook.Status())
	return v.show("settings", sheet{Status: status, Title: p.App.Name + " settings", Tab: tabApps}, p)
}

// followGate is the part of the page that shows how far the gate is.
func (v *visit) followGate(a wire.App) live {
	return following(gateMoves(a.Gate), v.inApp("settings", "gate", "state"), []any{a.RequireAPIKey, a.Gate})
}

func showGate(v *visit) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	l := v.followGate(a)
	return v.follow(l, "settings", "gate", settingsPage{App: a, Live: l})
}

// askReleaseGate asks before Require API key is switched off: it lets everybody in.
func askReleaseGate(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if !a.RequireAPIKey {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	return v.confirm(tabApps, confirmation{
		Title: "Switch Require API key off for " + a.Name + "?",
		Lead:  "Anybody who knows " + a.URL + " can call the app then, without a key.",
		Points: []string{
			"No plan's rate or quota holds for it any more, and its requests are not counted.",
			"Plans and keys stay as they are. Switching it on again puts the gate back.",
		},
		Based:  []based{{"require", "off"}},
		Danger: true, Form: f,
		Action: v.inApp("settings", "gate"), Button: "Switch it off", Back: v.inApp("settings"),
	})
}

// switchGate sets Require API key to what the form says.
func switchGate(v *visit) error {
	on := v.typed("require") == "on"
	a, err := v.readApp()
	if err == nil && a.RequireAPIKey == on {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	if err == nil {
		_, err = v.api.RequireAPIKey(v.ctx, v.project, v.environment, v.app(), on)
	}
	if err != nil {
		f, ok := v.refused(err, nil)
		switch {
		case !ok || client.HasCode(err, "not_found"):
			return err
		case on:
			return showSettings(v, settingsForms{Gate: f})
		}
		return askReleaseGate(v, f)
	}
	if on {
		return v.done(v.inApp("settings"), noticeGateOn)
	}
	return v.done(v.inApp("settings"), noticeGateOff)
}
