package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/wire"
)

// Builds lists a git app's builds, newest first.
func (c *Client) Builds(ctx context.Context, project, environment, app string) iter.Seq2[wire.Build, error] {
	return all[wire.Build](ctx, c, nil, in(project, environment, "apps", app, "builds")...)
}

// BuildsPage reads one page of them.
func (c *Client) BuildsPage(ctx context.Context, project, environment, app string, p Page) (wire.List[wire.Build], error) {
	return page[wire.Build](ctx, c, p, nil, in(project, environment, "apps", app, "builds")...)
}

// Build reads one build, e.g. the one that a webhook call has started.
func (c *Client) Build(ctx context.Context, project, environment, app string, build int64) (wire.Build, error) {
	return call[wire.Build](ctx, c, request{
		method: http.MethodGet, path: in(project, environment, "apps", app, "builds", strconv.FormatInt(build, 10)),
	})
}

// RequestBuild asks for a build of a commit, or its first digits, or with "" of the
// branch's head. Codes: invalid_commit, no_git_source.
func (c *Client) RequestBuild(ctx context.Context, project, environment, app, commit string) (wire.Build, error) {
	var body wire.RequestBuild
	if commit != "" {
		body.Commit = &commit
	}
	return call[wire.Build](ctx, c, request{
		method: http.MethodPost, path: in(project, environment, "apps", app, "builds"), body: body,
	})
}
