package console

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

const hiddenToken = "••••••••" //nolint:gosec // not a token

type webhookCard struct {
	Enabled  bool
	URL      string
	Token    string // "" unless requested
	Snippets []webhookSnippet
}

type webhookSnippet struct{ ID, Title, Text string }

func cardOf(a wire.App, w client.Webhook, asked bool) webhookCard {
	c, hook := webhookCard{Enabled: w.Enabled, URL: w.URL}, snippetOf(a, w)
	if asked && w.Token != "" {
		c.Token, hook.Token = string(w.Token), string(w.Token)
	}
	if w.Enabled {
		for _, ci := range snippet.All() {
			c.Snippets = append(c.Snippets, webhookSnippet{ID: "snippet-" + string(ci), Title: hook.Title(ci), Text: hook.For(ci)})
		}
	}
	return c
}

func snippetOf(a wire.App, w client.Webhook) snippet.Hook {
	hook := snippet.Hook{App: a.Name, URL: w.URL, Token: hiddenToken, Git: a.GitSource != nil, Image: a.Image}
	if a.GitSource != nil {
		hook.Branch = a.GitSource.Branch
	}
	return hook
}

// tokenMark returns a hash that identifies a token. It reveals nothing, because tokens have 256
// random bits.
func tokenMark(t client.WebhookToken) string {
	sum := sha256.Sum256([]byte(t))
	return hex.EncodeToString(sum[:6])
}

func (r *request) readWebhook() (client.Webhook, error) {
	return r.api.Webhook(r.Context(), r.project, r.environment, r.app())
}

// enableWebhook enables the webhook unless it is already enabled: the API would replace the token,
// and pipelines with the previous token would fail.
func enableWebhook(r *request) error {
	w, err := r.readWebhook()
	if err != nil {
		return err
	}
	if w.Enabled {
		return webhookNotChanged(r, r.invalid("", "No changes were made: the webhook was enabled in the meantime."))
	}
	if _, err := r.api.EnableWebhook(r.Context(), r.project, r.environment, r.app()); err != nil {
		return r.again(err, webhookNotChanged)
	}
	return r.done(r.inApp("settings"), noticeWebhookEnabled)
}

func webhookNotChanged(r *request, f view.Form) error {
	return showSettingsWith(r, settingsForms{Webhook: f})
}

func askRegenerate(r *request, f view.Form) error {
	w, err := r.readWebhook()
	if err != nil {
		return err
	}
	if !w.Enabled {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	return r.confirm(tabApps, view.Confirmation{
		Title:  "Replace the webhook token of " + r.app() + "?",
		Lead:   "The current token stops working immediately. Pipelines fail until you give them the new one.",
		Hidden: []view.HiddenInput{{Name: "token", Value: tokenMark(w.Token)}},
		Danger: true, Form: f,
		Action: r.inApp("settings", "webhook", "regenerate"), Button: "Replace token", Back: r.inApp("settings"),
	})
}

func regenerateWebhook(r *request) error {
	w, err := r.readWebhook()
	if err != nil {
		return err
	}
	if !w.Enabled || tokenMark(w.Token) != r.PostForm.Get("token") {
		return webhookNotChanged(r, r.invalid("", "No changes were made: another user disabled the webhook or replaced its token in the meantime."))
	}
	if _, err := r.api.EnableWebhook(r.Context(), r.project, r.environment, r.app()); err != nil {
		return r.again(err, askRegenerate)
	}
	return r.done(r.inApp("settings"), noticeWebhookRegenerated)
}

func askDisableWebhook(r *request, f view.Form) error {
	w, err := r.readWebhook()
	if err != nil {
		return err
	}
	if !w.Enabled {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	return r.confirm(tabApps, view.Confirmation{
		Title:  "Disable the webhook of " + r.app() + "?",
		Lead:   "Its token stops working immediately, and pipelines and pushes no longer deploy the app. If you enable the webhook again, it gets a new token.",
		Danger: true, Form: f,
		Action: r.inApp("settings", "webhook", "disable"), Button: "Disable webhook", Back: r.inApp("settings"),
	})
}

func disableWebhook(r *request) error {
	err := r.api.DisableWebhook(r.Context(), r.project, r.environment, r.app())
	switch {
	case isNotFound(err):
		return err
	case err != nil:
		return r.again(err, askDisableWebhook)
	}
	return r.done(r.inApp("settings"), noticeWebhookDisabled)
}
