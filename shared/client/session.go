package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// Session is a session that was just opened.
type Session struct {
	Token     Token
	ExpiresAt time.Time
	User      wire.User
	Device    Token // for [Client.WithDevice], the next time
}

// SignIn opens a session; go on with [Client.WithToken]. Codes:
// invalid_credentials, rate_limited.
func (c *Client) SignIn(ctx context.Context, username, password string) (Session, error) {
	in := wire.SignIn{Username: &username, Password: &password}
	if device := string(c.device); device != "" {
		in.Device = &device
	}
	s, err := call[wire.Session](ctx, c.WithToken(""), request{method: http.MethodPost, path: []string{"session"}, body: in})
	return Session{Token: Token(s.Token), ExpiresAt: s.ExpiresAt, User: s.User, Device: Token(s.Device)}, err
}

// WhoAmI tells whom the session belongs to. Code: unauthenticated.
func (c *Client) WhoAmI(ctx context.Context) (wire.Session, error) {
	return call[wire.Session](ctx, c, request{method: http.MethodGet, path: []string{"session"}})
}

// SignOut ends the session at once.
func (c *Client) SignOut(ctx context.Context) error {
	return c.delete(ctx, "session")
}

// delete sends a DELETE, whose answer has no body.
func (c *Client) delete(ctx context.Context, path ...string) error {
	_, err := c.send(ctx, request{method: http.MethodDelete, path: path})
	return err
}
