package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) webhooks() {
	m.change(inApp+"/settings/webhook", enableWebhook)
	m.change(inApp+"/settings/webhook/token", func(v *visit) error { return showSettings(v, settingsForms{ShowToken: true}) })
	m.page(inApp+"/settings/webhook/token", toSettings) // who loads the page of the shown token again
	m.page(inApp+"/settings/webhook", toSettings)
	m.page(inApp+"/settings/webhook/regenerate", func(v *visit) error { return askRegenerate(v, form{}) })
	m.change(inApp+"/settings/webhook/regenerate", regenerateWebhook)
	m.page(inApp+"/settings/webhook/disable", func(v *visit) error { return askDisableWebhook(v, form{}) })
	m.change(inApp+"/settings/webhook/disable", disableWebhook)
}

func toSettings(v *visit) error { return v.goTo(v.inApp("settings")) }

// hiddenToken stands in the place of a token that was not asked for.
const hiddenToken = "••••••••" //nolint:gosec // is none

// webhookCard is an app's webhook on its Settings.
type webhookCard struct {
	Enabled  bool
	URL      string
	Token    string // only when it was asked for
	Snippets []webhookSnippet

	hook snippet.Hook
	all  client.WebhookToken
}

// webhookSnippet is what one CI system has to send.
type webhookSnippet struct{ ID, Title, Text string }

// cardOf is the card with its token hidden.
func cardOf(a wire.App, w client.Webhook) webhookCard {
	c := webhookCard{
		Enabled: w.Enabled, URL: w.URL, all: w.Token,
		hook: snippet.Hook{App: a.Name, URL: w.URL, Token: hiddenToken, Git: a.GitSource != nil, Image: a.Image},
	}
	if a.GitSource != nil {
		c.hook.Branch = a.GitSource.Branch
	}
	return c.written()
}

// open is the card with its token, for who may see it.
func (c webhookCard) open() webhookCard {
	if c.all == "" {
		return c
	}
	c.Token, c.hook.Token = string(c.all), string(c.all)
	return c.written()
}

func (c webhookCard) written() webhookCard {
	c.Snippets = nil
	if c.Enabled {
		for _, ci := range snippet.All() {
			c.Snippets = append(c.Snippets, webhookSnippet{ID: "snippet-" + string(ci), Title: ci.Title(), Text: c.hook.For(ci)})
		}
	}
	return c
}

// tokenMark tells tokens apart without telling them: 256 random bits are behind it.
func tokenMark(t client.WebhookToken) string {
	sum := sha256.Sum256([]byte(t))
	return hex.EncodeToString(sum[:6])
}

// enableWebhook gives an app without a webhook one. The API would give one that has
// it another token, and a pipeline that uses the old one would fail.
func enableWebhook(v *visit) error {
	w, err := v.api.Webhook(v.ctx, v.project, v.environment, v.app())
	if err != nil {
		return err
	}
	if w.Enabled {
		f := v.sent("", "The webhook was enabled meanwhile, so nothing was done.")
		return showSettings(v, settingsForms{Webhook: f})
	}
	if _, err := v.api.EnableWebhook(v.ctx, v.project, v.environment, v.app()); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return showSettings(v, settingsForms{Webhook: f})
	}
	return v.done(v.inApp("settings"), noticeWebhookEnabled)
}

func askRegenerate(v *visit, f form) error {
	w, err := v.api.Webhook(v.ctx, v.project, v.environment, v.app())
	if err != nil {
		return err
	}
	if !w.Enabled {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	return v.confirm(tabApps, confirmation{
		Title:  "Make a new webhook token for " + v.app() + "?",
		Lead:   "The token of now is worth nothing from then on: pipelines that use it fail until they have the new one.",
		Based:  []based{{"token", tokenMark(w.Token)}},
		Danger: true, Form: f,
		Action: v.inApp("settings", "webhook", "regenerate"), Button: "Regenerate the token", Back: v.inApp("settings"),
	})
}

func regenerateWebhook(v *visit) error {
	w, err := v.api.Webhook(v.ctx, v.project, v.environment, v.app())
	if err != nil {
		return err
	}
	if !w.Enabled || tokenMark(w.Token) != v.typed("token") {
		f := v.sent("", "Somebody has disabled the webhook or regenerated its token meanwhile, so nothing was done.")
		return showSettings(v, settingsForms{Webhook: f})
	}
	if _, err := v.api.EnableWebhook(v.ctx, v.project, v.environment, v.app()); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askRegenerate(v, f)
	}
	return v.done(v.inApp("settings"), noticeWebhookRegenerated)
}

func askDisableWebhook(v *visit, f form) error {
	w, err := v.api.Webhook(v.ctx, v.project, v.environment, v.app())
	if err != nil {
		return err
	}
	if !w.Enabled {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	return v.confirm(tabApps, confirmation{
		Title:  "Disable the webhook of " + v.app() + "?",
		Lead:   "Its token is worth nothing from then on: pipelines and pushes deploy nothing. Enabling it again makes another token.",
		Danger: true, Form: f,
		Action: v.inApp("settings", "webhook", "disable"), Button: "Disable the webhook", Back: v.inApp("settings"),
	})
}

func disableWebhook(v *visit) error {
	if err := v.api.DisableWebhook(v.ctx, v.project, v.environment, v.app()); err != nil {
		f, ok := v.refused(err, nil)
		if !ok || f.Refusal.Status == http.StatusNotFound {
			return err
		}
		return askDisableWebhook(v, f)
	}
	return v.done(v.inApp("settings"), noticeWebhookDisabled)
}
