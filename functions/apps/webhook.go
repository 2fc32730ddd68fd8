package apps

import (
	"context"
	"crypto/rand"
	"net/url"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// getWebhook returns an app's webhook. Only developers see its token. Service tokens do not,
// because the webhook's token would remain valid after their revocation.
func (s *Service) getWebhook(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Webhook, error) {
	token, err := s.cluster.WebhookToken(ctx, in.App.Ref())
	if err != nil && !problem.Is(err, problem.NotFound) {
		return wire.Webhook{}, err
	}
	out := s.wireWebhook(in, token, err == nil)
	if !in.Role.Allows(app.Developer) || in.Caller.Service() {
		out.Token = nil
	}
	return out, nil
}

func (s *Service) wireWebhook(in httpapi.Scope, token hook.Token, enabled bool) wire.Webhook {
	out := wire.Webhook{Enabled: enabled, URL: s.webhookURL(in), Issuers: append([]string{}, s.cfg.Issuers...)}
	if enabled {
		plain := string(token)
		out.Token = &plain
	}
	return out
}

// enableWebhook sets a new token, which replaces the previous one. It returns a conflict problem
// if another call did the same concurrently.
func (s *Service) enableWebhook(ctx context.Context, in httpapi.Scope, _ api.Empty) (wire.Webhook, error) {
	token, err := hook.NewToken(rand.Reader)
	if err != nil {
		return wire.Webhook{}, err
	}
	ctx = context.WithoutCancel(ctx)
	err = s.recorded(ctx, tokenChange(in.App, audit.EnableWebhook), func() error { return s.setToken(ctx, in.App.Ref(), token) })
	return s.wireWebhook(in, token, true), err
}

// setToken writes a token, and deletes it if the app was deleted in the meantime: a later app with
// the same name must not have it.
func (s *Service) setToken(ctx context.Context, ref app.Ref, token hook.Token) error {
	if err := s.cluster.SetWebhookToken(ctx, ref, token); err != nil {
		return err
	}
	_, gone := s.store.App(ctx, ref.Namespace, ref.Name)
	if !problem.Is(gone, problem.NotFound) {
		return gone
	}
	if err := s.cluster.DeleteWebhookToken(ctx, ref); err != nil {
		return err
	}
	return gone
}

func (s *Service) disableWebhook(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	ctx = context.WithoutCancel(ctx)
	return api.None{}, s.recorded(ctx, tokenChange(in.App, audit.DisableWebhook), func() error {
		return s.cluster.DeleteWebhookToken(ctx, in.App.Ref())
	})
}

func tokenChange(a app.App, action audit.Action) audit.Change {
	return audit.Change{
		Action: action, Project: a.Project,
		Resource: audit.Path("projects", a.Project, "environments", a.Environment, "apps", a.Name, "webhook"),
	}
}

func (s *Service) webhookURL(in httpapi.Scope) string {
	return in.BaseURL(s.cfg.BaseURL) + api.CallWebhook.URL(url.PathEscape, in.App.Namespace, in.App.Name)
}
