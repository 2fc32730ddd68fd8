package apps

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// Webhooks keeps the tokens of apps' webhooks; *cluster.Cluster implements it. An
// app has a token as long as its webhook is enabled.
type Webhooks interface {
	WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error)
	SetWebhookToken(ctx context.Context, ref app.Ref, token hook.Token) error
	DeleteWebhookToken(ctx context.Context, ref app.Ref) error
}

// getWebhook shows an app's webhook: to developers with the token, because it lets
// them do what they may do anyway; to viewers without, because it would let them
// deploy.
func (s *Service) getWebhook(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.existing(r, app.Viewer)
	if err != nil {
		return err
	}
	out := wire.Webhook{URL: s.webhookURL(r, ref)}
	token, err := s.webhooks.WebhookToken(r.Context(), ref)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	if out.Enabled = err == nil; out.Enabled {
		_, err := s.guard.Require(r, r.PathValue("project"), app.Developer)
		if err != nil && !problem.Is(err, problem.Forbidden) {
			return err
		}
		if err == nil {
			out.Token = plain(token)
		}
	}
	return httpapi.JSON(w, http.StatusOK, out)
}

// enableWebhook gives an app's webhook a token; the one before, if any, is worth
// nothing from then on. The body is empty or {}. Problem: conflict when somebody
// else does the same meanwhile.
func (s *Service) enableWebhook(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.existing(r, app.Developer)
	if err != nil {
		return err
	}
	change := tokenChange(r, audit.EnableWebhook)
	if _, err := httpapi.DecodeOptional[struct{}](w, r); err != nil {
		return err
	}
	token, err := hook.NewToken(rand.Reader)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	if err := s.recorded(ctx, change, func() error { return s.setToken(ctx, ref, token) }); err != nil {
		return fmt.Errorf("enable webhook of %s: %w", ref, err)
	}
	s.log.InfoContext(r.Context(), "webhook enabled", "app", ref.String())
	return httpapi.JSON(w, http.StatusOK, wire.Webhook{Enabled: true, URL: s.webhookURL(r, ref), Token: plain(token)})
}

// setToken writes a token, and takes it away again if the app has been deleted
// meanwhile: an app of that name that comes later must not have it. Problems:
// not_found when it was; conflict.
func (s *Service) setToken(ctx context.Context, ref app.Ref, token hook.Token) error {
	if err := s.webhooks.SetWebhookToken(ctx, ref, token); err != nil {
		return err
	}
	_, gone := s.apps.App(ctx, ref.Namespace, ref.Name)
	if !problem.Is(gone, problem.NotFound) {
		return gone
	}
	if err := s.webhooks.DeleteWebhookToken(ctx, ref); err != nil {
		return err
	}
	return gone
}

// disableWebhook takes the token away; again is no error.
func (s *Service) disableWebhook(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.existing(r, app.Developer)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	err = s.recorded(ctx, tokenChange(r, audit.DisableWebhook), func() error { return s.webhooks.DeleteWebhookToken(ctx, ref) })
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "webhook disabled", "app", ref.String())
	return httpapi.NoContent(w)
}

// tokenChange is a change of the token of the request's app.
func tokenChange(r *http.Request, action audit.Action) audit.Change {
	project := r.PathValue("project")
	return audit.Change{
		Action: action, Project: project,
		Resource: audit.Path("projects", project, "environments", r.PathValue("environment"), "apps", r.PathValue("app"), "webhook"),
	}
}

// existing is ref for an app that is there. Problem: not_found.
func (s *Service) existing(r *http.Request, need app.Role) (app.Ref, error) {
	ref, err := s.ref(r, need)
	if err != nil {
		return app.Ref{}, err
	}
	_, err = s.apps.App(r.Context(), ref.Namespace, ref.Name)
	return ref, err
}

// webhookURL is where a pipeline calls an app's webhook.
func (s *Service) webhookURL(r *http.Request, ref app.Ref) string {
	return httpapi.BaseURL(r, s.cfg.BaseURL) + "/api/v1/webhook/" + ref.Namespace + "/" + ref.Name
}

// plain is a token on its way to who may see it.
func plain(t hook.Token) *string {
	s := string(t)
	return &s
}
