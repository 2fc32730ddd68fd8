package apps

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

// deleteApp deletes an app: its objects first, the route before all, so that it
// never answers without its gate, then its document. Whichever part fails, the
// call can be repeated.
func (s *Service) deleteApp(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ref(r, app.Developer)
	if err != nil {
		return err
	}
	if _, err := s.apps.App(r.Context(), ref.Namespace, ref.Name); err != nil {
		return err
	}
	if err := s.remove(context.WithoutCancel(r.Context()), ref); err != nil {
		return err
	}
	return httpapi.NoContent(w)
}

func (s *Service) remove(ctx context.Context, ref app.Ref) error {
	if err := s.cluster.Delete(ctx, ref); err != nil {
		return err
	}
	// An app of that name that comes later must not have this one's token.
	if err := s.webhooks.DeleteWebhookToken(ctx, ref); err != nil {
		return err
	}
	// Somebody else may have been quicker; the outcome is the same.
	if err := s.apps.DeleteApp(ctx, ref); err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	// Wiring may have put something back before the document was gone, or somebody
	// may have enabled the webhook again.
	if err := s.sweep(ctx, ref); err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	return s.webhooks.DeleteWebhookToken(ctx, ref)
}
