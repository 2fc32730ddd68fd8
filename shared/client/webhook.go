package client

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// WebhookToken is the secret token of an app's webhook. It prints as "[redacted]".
type WebhookToken string

// LogValue keeps the token out of logs.
func (WebhookToken) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the token out of anything printed. Use string(t) to show or send it.
func (WebhookToken) String() string { return "[redacted]" }

// GoString keeps the token out of %#v.
func (WebhookToken) GoString() string { return "[redacted]" }

// Webhook is an app's deploy webhook.
type Webhook struct {
	Enabled bool
	URL     string
	Token   WebhookToken // "" while disabled, and for who may not deploy
}

// Webhook reads an app's webhook.
func (c *Client) Webhook(ctx context.Context, project, environment, app string) (Webhook, error) {
	return webhook(call[wire.Webhook](ctx, c, request{method: http.MethodGet, path: in(project, environment, "apps", app, "webhook")}))
}

// EnableWebhook enables an app's webhook. Done again it makes another token, and
// the one before is worth nothing any more.
func (c *Client) EnableWebhook(ctx context.Context, project, environment, app string) (Webhook, error) {
	return webhook(call[wire.Webhook](ctx, c, request{method: http.MethodPost, path: in(project, environment, "apps", app, "webhook")}))
}

// DisableWebhook disables an app's webhook; its token is worth nothing any more.
func (c *Client) DisableWebhook(ctx context.Context, project, environment, app string) error {
	return c.delete(ctx, in(project, environment, "apps", app, "webhook")...)
}

func webhook(w wire.Webhook, err error) (Webhook, error) {
	out := Webhook{Enabled: w.Enabled, URL: w.URL}
	if w.Token != nil {
		out.Token = WebhookToken(*w.Token)
	}
	return out, err
}
