package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Members lists a project's members and their roles.
func (c *Client) Members(ctx context.Context, project string) iter.Seq2[wire.Member, error] {
	return all[wire.Member](ctx, c, nil, "projects", project, "members")
}

// MembersPage reads one page of them.
func (c *Client) MembersPage(ctx context.Context, project string, p Page) (wire.List[wire.Member], error) {
	return page[wire.Member](ctx, c, p, nil, "projects", project, "members")
}

// SetMembers replaces a project's whole list of members. Codes: invalid_role,
// unknown_user, last_owner.
func (c *Client) SetMembers(ctx context.Context, project string, members []wire.Member) error {
	_, err := c.send(ctx, request{
		method: http.MethodPut, path: []string{"projects", project, "members"},
		body: wire.SetMembers{Members: members},
	})
	return err
}

// RemoveMember takes a user out of a project. Code: last_owner.
func (c *Client) RemoveMember(ctx context.Context, project, username string) error {
	return c.delete(ctx, "projects", project, "members", username)
}
