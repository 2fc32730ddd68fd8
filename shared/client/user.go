package client

import (
	"context"
	"iter"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

// Session is a new session.
type Session struct {
	Token     Token
	ExpiresAt time.Time
	User      wire.Caller
	Device    Token // for [Client.WithDevice] at the next sign-in
}

// SignIn starts a session; see [Client.WithToken]. It returns an invalid_credentials or
// rate_limited error if the server rejects it.
func (c *Client) SignIn(ctx context.Context, username, password string) (Session, error) {
	in := wire.SignIn{Username: &username, Password: &password, Device: unless(string(c.device), "")}
	s, err := call(ctx, c.WithToken(""), api.SignIn, in)
	return Session{Token: Token(s.Token), ExpiresAt: s.ExpiresAt, User: s.User, Device: Token(s.Device)}, err
}

// WhoAmI returns the current session with its user or service token.
func (c *Client) WhoAmI(ctx context.Context) (wire.Session, error) {
	return call(ctx, c, api.GetSession, api.None{})
}

// SignOut ends the session.
func (c *Client) SignOut(ctx context.Context) error { return do(ctx, c, api.SignOut, api.None{}) }

// EndOwnSessions ends all sessions of the caller, and returns the service tokens that the caller
// created.
func (c *Client) EndOwnSessions(ctx context.Context) (wire.RemainingTokens, error) {
	return call(ctx, c, api.EndOwnSessions, api.None{})
}

// Users lists all users.
func (c *Client) Users(ctx context.Context) iter.Seq2[wire.User, error] {
	return all(ctx, c, api.ListUsers, whole)
}

// User reads a user.
func (c *Client) User(ctx context.Context, username string) (wire.User, error) {
	return call(ctx, c, api.GetUser, api.None{}, username)
}

// UsersPage reads one page.
func (c *Client) UsersPage(ctx context.Context, p Page) (wire.List[wire.User], error) {
	return call(ctx, c, api.ListUsers, p)
}

// CreateUser creates a user.
func (c *Client) CreateUser(ctx context.Context, username, password string, admin bool) (wire.User, error) {
	return call(ctx, c, api.CreateUser, wire.CreateUser{Username: &username, Password: &password, Admin: admin})
}

// UpdateUser changes the given fields of a user, and returns the service tokens that the user
// created.
func (c *Client) UpdateUser(ctx context.Context, username string, change wire.UpdateUser) (wire.UpdatedUser, error) {
	return call(ctx, c, api.UpdateUser, change, username)
}

// RemoveUser removes a user from all projects and deletes the user. It returns the service tokens
// that the user created.
func (c *Client) RemoveUser(ctx context.Context, username string) (wire.RemainingTokens, error) {
	return call(ctx, c, api.RemoveUser, api.None{}, username)
}

// EndSessions ends all sessions of a user, and returns the service tokens that the user created.
func (c *Client) EndSessions(ctx context.Context, username string) (wire.RemainingTokens, error) {
	return call(ctx, c, api.EndSessions, api.None{}, username)
}

// ChangePassword sets the caller's password and ends the caller's sessions.
func (c *Client) ChangePassword(ctx context.Context, username, current, password string) error {
	return do(ctx, c, api.ChangePassword, wire.ChangePassword{CurrentPassword: &current, Password: &password}, username)
}

// ResetPassword sets another user's password and ends that user's sessions.
func (c *Client) ResetPassword(ctx context.Context, username, password string) error {
	return do(ctx, c, api.ChangePassword, wire.ChangePassword{Password: &password}, username)
}
