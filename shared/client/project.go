package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Projects lists the projects that the caller has a role in; admins, all.
func (c *Client) Projects(ctx context.Context) iter.Seq2[wire.Project, error] {
	return all[wire.Project](ctx, c, nil, "projects")
}

// ProjectsPage reads one page of them.
func (c *Client) ProjectsPage(ctx context.Context, p Page) (wire.List[wire.Project], error) {
	return page[wire.Project](ctx, c, p, nil, "projects")
}

// CreateProject makes a project. Codes: invalid_name, already_exists.
func (c *Client) CreateProject(ctx context.Context, name string) (wire.Project, error) {
	return call[wire.Project](ctx, c, request{
		method: http.MethodPost, path: []string{"projects"}, body: wire.CreateProject{Name: &name},
	})
}

// Project reads a project.
func (c *Client) Project(ctx context.Context, project string) (wire.Project, error) {
	return call[wire.Project](ctx, c, request{method: http.MethodGet, path: []string{"projects", project}})
}

// DeleteProject deletes an empty project. Code: not_empty.
func (c *Client) DeleteProject(ctx context.Context, project string) error {
	return c.delete(ctx, "projects", project)
}
