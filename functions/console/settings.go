package console

import (
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// settingsForms are the forms of an app's Settings that were not taken.
type settingsForms struct {
	Gate, Webhook form
	ShowToken     bool // it was asked for
}

// settingsPage is an app's Settings.
type settingsPage struct {
	App     wire.App
	Live    live // the gate's state
	Webhook webhookCard
	Forms   settingsForms
}

func showSettings(r *request) error { return showSettingsWith(r, settingsForms{}) }

func showToken(r *request) error { return showSettingsWith(r, settingsForms{ShowToken: true}) }

func toSettings(r *request) error { return r.redirect(r.inApp("settings")) }

// showSettingsWith shows an app's Settings, with forms that were not taken.
func showSettingsWith(r *request, forms settingsForms) error {
	p := settingsPage{Forms: forms}
	var hook client.Webhook
	var g errgroup.Group
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&hook, r.readWebhook))
	if err := g.Wait(); err != nil {
		return err
	}
	p.Live, p.Webhook = r.followGate(p.App), cardOf(p.App, hook, forms.ShowToken)
	status := max(forms.Gate.Status(), forms.Webhook.Status())
	return r.show("settings", page{Status: status, Title: p.App.Name + " settings", Tab: tabApps}, p)
}

// followGate is the part of the page that shows how far the gate is.
func (r *request) followGate(a wire.App) live {
	return following(gateMoves(a.Gate), r.inApp("settings", "gate", "state"), []any{a.RequireAPIKey, a.Gate})
}

func showGate(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	l := r.followGate(a)
	return r.follow(l, "settings", "gate", settingsPage{App: a, Live: l})
}

// askReleaseGate asks before Require API key is switched off: it lets everybody in.
func askReleaseGate(r *request, f form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if !a.RequireAPIKey {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	return r.confirm(tabApps, confirmation{
		Title: "Switch Require API key off for " + a.Name + "?",
		Lead:  "Anybody who knows " + a.URL + " can call the app then, without a key.",
		Points: []string{
			"No plan's rate or quota holds for it any more, and its requests are not counted.",
			"Plans and keys stay as they are. Switching it on again puts the gate back.",
		},
		Original: []original{{"require", "off"}},
		Danger:   true, Form: f,
		Action: r.inApp("settings", "gate"), Button: "Switch it off", Back: r.inApp("settings"),
	})
}

// switchGate sets Require API key to what the form says.
func switchGate(r *request) error {
	on := r.PostForm.Get("require") == "on"
	a, err := r.readApp()
	if err == nil && a.RequireAPIKey == on {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	if err == nil {
		_, err = r.api.RequireAPIKey(r.Context(), r.project, r.environment, r.app(), on)
	}
	switch {
	case gone(err):
		return err
	case err != nil && !on:
		return r.again(err, nil, askReleaseGate)
	case err != nil:
		return r.again(err, nil, func(r *request, f form) error { return showSettingsWith(r, settingsForms{Gate: f}) })
	case on:
		return r.done(r.inApp("settings"), noticeGateOn)
	}
	return r.done(r.inApp("settings"), noticeGateOff)
}
