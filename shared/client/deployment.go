package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Deployments lists an app's deploy history, newest first.
func (c *Client) Deployments(ctx context.Context, project, environment, app string) iter.Seq2[wire.Deployment, error] {
	return all[wire.Deployment](ctx, c, nil, in(project, environment, "apps", app, "deployments")...)
}

// DeploymentsPage reads one page of it.
func (c *Client) DeploymentsPage(ctx context.Context, project, environment, app string, p Page) (wire.List[wire.Deployment], error) {
	return page[wire.Deployment](ctx, c, p, nil, in(project, environment, "apps", app, "deployments")...)
}

// Deploy deploys an image. Codes: missing_field, invalid_image, git_source_attached.
func (c *Client) Deploy(ctx context.Context, project, environment, app, image string) (wire.Deployment, error) {
	return call[wire.Deployment](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "apps", app, "deployments"),
		body: wire.CreateDeployment{Image: &image},
	})
}

// Rollback deploys an earlier revision again; revision 0 is the last one before the
// current that was once live. Codes: no_previous_revision, not_found.
func (c *Client) Rollback(ctx context.Context, project, environment, app string, revision int64) (wire.Deployment, error) {
	var body wire.Rollback
	if revision != 0 {
		body.Revision = &revision
	}
	return call[wire.Deployment](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "apps", app, "rollback"), body: body,
	})
}

// Promote deploys what the app of the same name runs in another environment, or a
// given revision of it unless that is 0. Codes: no_previous_revision, not_found.
func (c *Client) Promote(ctx context.Context, project, environment, app, from string, revision int64) (wire.Deployment, error) {
	body := wire.Promote{FromEnvironment: &from}
	if revision != 0 {
		body.Revision = &revision
	}
	return call[wire.Deployment](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "apps", app, "promote"), body: body,
	})
}
