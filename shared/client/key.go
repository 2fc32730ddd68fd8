package client

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// FullKey is a whole API key, shown once. It prints as "[redacted]".
type FullKey string

// LogValue keeps the key out of logs.
func (FullKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the key out of anything printed. Use string(k) to show or send it.
func (FullKey) String() string { return "[redacted]" }

// GoString keeps the key out of %#v.
func (FullKey) GoString() string { return "[redacted]" }

// KeyFilter narrows a list of keys; "" does not.
type KeyFilter struct {
	Environment string
	Plan        string // a plan's id
}

func (f KeyFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"environment": f.Environment, "plan": f.Plan} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// Keys lists a project's API keys, of one environment or, with "", of all.
func (c *Client) Keys(ctx context.Context, project, environment string) iter.Seq2[wire.Key, error] {
	return all[wire.Key](ctx, c, KeyFilter{Environment: environment}.query(), "projects", project, "api-keys")
}

// KeysPage reads one page of those that a filter leaves.
func (c *Client) KeysPage(ctx context.Context, project string, f KeyFilter, p Page) (wire.List[wire.Key], error) {
	return page[wire.Key](ctx, c, p, f.query(), "projects", project, "api-keys")
}

// CreateKey makes an API key and gives the full key, this once; see
// [Client.Once] for a call that may be made again. Codes: unknown_plan,
// invalid_scope, invalid_name, invalid_expiry, expiry_in_past, already_issued,
// too_many_keys.
func (c *Client) CreateKey(ctx context.Context, project, environment string, key wire.CreateKey) (wire.Key, FullKey, error) {
	return c.issue(ctx, request{
		method: http.MethodPost, path: in(project, environment, "api-keys"), body: key,
	})
}

// Key reads an API key, e.g. "key-ab12cd34".
func (c *Client) Key(ctx context.Context, project, keyID string) (wire.Key, error) {
	return call[wire.Key](ctx, c, request{method: http.MethodGet, path: keyPath(project, keyID)})
}

// UpdateKey changes the given fields of an API key. Code: key_revoked.
func (c *Client) UpdateKey(ctx context.Context, project, keyID string, change wire.UpdateKey) (wire.Key, error) {
	return call[wire.Key](ctx, c, request{method: http.MethodPatch, path: keyPath(project, keyID), body: change})
}

// DisableKey switches an API key off; [Client.EnableKey] switches it on again.
func (c *Client) DisableKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return c.UpdateKey(ctx, project, keyID, wire.UpdateKey{Status: wire.Some("disabled")})
}

// EnableKey switches a disabled API key on.
func (c *Client) EnableKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return c.UpdateKey(ctx, project, keyID, wire.UpdateKey{Status: wire.Some("active")})
}

// RevokeKey ends an API key for good.
func (c *Client) RevokeKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return call[wire.Key](ctx, c, request{method: http.MethodPost, path: keyPath(project, keyID, "revoke")})
}

// RotateKey gives an API key a new secret, shown this once; the old one stays
// valid for grace, 0 to 30 days. Codes: invalid_grace, key_revoked, key_expired,
// already_issued.
func (c *Client) RotateKey(ctx context.Context, project, keyID string, grace time.Duration) (wire.Key, FullKey, error) {
	g := grace.String()
	return c.issue(ctx, request{
		method: http.MethodPost, path: keyPath(project, keyID, "rotate"), body: wire.RotateKey{Grace: &g},
	})
}

// issue sends a call whose answer holds a full key, and parts the two.
func (c *Client) issue(ctx context.Context, q request) (wire.Key, FullKey, error) {
	issued, err := call[wire.IssuedKey](ctx, c, q)
	return issued.Key, FullKey(issued.FullKey), err
}

func keyPath(project, keyID string, rest ...string) []string {
	return append([]string{"projects", project, "api-keys", keyID}, rest...)
}
