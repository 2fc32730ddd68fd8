package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/sluicegate/sluice/shared/wire"
)

// Users lists everyone who can sign in; for admins.
func (c *Client) Users(ctx context.Context) iter.Seq2[wire.User, error] {
	return all[wire.User](ctx, c, nil, "users")
}

// UsersPage reads one page of them.
func (c *Client) UsersPage(ctx context.Context, p Page) (wire.List[wire.User], error) {
	return page[wire.User](ctx, c, p, nil, "users")
}

// CreateUser makes a user; for admins. Codes: invalid_name, invalid_password,
// already_exists.
func (c *Client) CreateUser(ctx context.Context, username, password string, admin bool) (wire.User, error) {
	return call[wire.User](ctx, c, request{
		method: http.MethodPost, path: []string{"users"},
		body: wire.CreateUser{Username: &username, Password: &password, Admin: admin},
	})
}

// ChangePassword sets the caller's own password, which ends all of their sessions.
// Codes: invalid_credentials, invalid_password.
func (c *Client) ChangePassword(ctx context.Context, username, current, password string) error {
	return c.setPassword(ctx, username, wire.ChangePassword{CurrentPassword: &current, Password: &password})
}

// ResetPassword sets somebody else's password, which ends all of their sessions;
// for admins.
func (c *Client) ResetPassword(ctx context.Context, username, password string) error {
	return c.setPassword(ctx, username, wire.ChangePassword{Password: &password})
}

func (c *Client) setPassword(ctx context.Context, username string, body wire.ChangePassword) error {
	_, err := c.send(ctx, request{method: http.MethodPut, path: []string{"users", username, "password"}, body: body})
	return err
}
