package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Environments lists a project's environments.
func (c *Client) Environments(ctx context.Context, project string) iter.Seq2[wire.Environment, error] {
	return all[wire.Environment](ctx, c, nil, "projects", project, "environments")
}

// EnvironmentsPage reads one page of them.
func (c *Client) EnvironmentsPage(ctx context.Context, project string, p Page) (wire.List[wire.Environment], error) {
	return page[wire.Environment](ctx, c, p, nil, "projects", project, "environments")
}

// CreateEnvironment makes an environment. Codes: invalid_name, already_exists,
// namespace_taken.
func (c *Client) CreateEnvironment(ctx context.Context, project, name string) (wire.Environment, error) {
	return call[wire.Environment](ctx, c, request{
		method: http.MethodPost, path: []string{"projects", project, "environments"},
		body: wire.CreateEnvironment{Name: &name},
	})
}

// DeleteEnvironment deletes an empty environment. Code: not_empty.
func (c *Client) DeleteEnvironment(ctx context.Context, project, environment string) error {
	return c.delete(ctx, "projects", project, "environments", environment)
}

// in is the path of what lives in an environment.
func in(project, environment string, rest ...string) []string {
	return append([]string{"projects", project, "environments", environment}, rest...)
}
