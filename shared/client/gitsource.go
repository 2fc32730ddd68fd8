package client

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// SetGitSource makes an app a git app, or changes what it is built from. Code:
// invalid_git_source.
func (c *Client) SetGitSource(ctx context.Context, project, environment, app string, source wire.GitSource) (wire.App, error) {
	return call[wire.App](ctx, c, request{
		method: http.MethodPut, path: in(project, environment, "apps", app, "git-source"), body: source,
	})
}

// RemoveGitSource makes a git app an image app, which keeps running its image. Code:
// not_found when it is one already.
func (c *Client) RemoveGitSource(ctx context.Context, project, environment, app string) error {
	return c.delete(ctx, in(project, environment, "apps", app, "git-source")...)
}
