package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Apps lists an environment's apps.
func (c *Client) Apps(ctx context.Context, project, environment string) iter.Seq2[wire.App, error] {
	return all[wire.App](ctx, c, nil, in(project, environment, "apps")...)
}

// AppsPage reads one page of them.
func (c *Client) AppsPage(ctx context.Context, project, environment string, p Page) (wire.List[wire.App], error) {
	return page[wire.App](ctx, c, p, nil, in(project, environment, "apps")...)
}

// CreateApp makes an app, or adopts the workload of that name. Codes: invalid_name,
// invalid_image, invalid_host, invalid_port, already_exists, host_taken.
func (c *Client) CreateApp(ctx context.Context, project, environment string, app wire.CreateApp) (wire.App, error) {
	return call[wire.App](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "apps"), body: app,
	})
}

// App reads an app with the state of its gate.
func (c *Client) App(ctx context.Context, project, environment, app string) (wire.App, error) {
	return call[wire.App](ctx, c, request{method: http.MethodGet, path: in(project, environment, "apps", app)})
}

// DeleteApp deletes an app with its workload and route.
func (c *Client) DeleteApp(ctx context.Context, project, environment, app string) error {
	return c.delete(ctx, in(project, environment, "apps", app)...)
}
