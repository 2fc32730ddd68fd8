package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluicegate/sluice/shared/wire"
)

// Usage reads an API key's usage. from and to are UTC dates, YYYY-MM-DD, both
// within the window; "" leaves one to the server, which then takes the last 90
// days. Codes: invalid_date, invalid_window, window_expired.
func (c *Client) Usage(ctx context.Context, project, keyID, from, to string) (wire.Usage, error) {
	q := url.Values{}
	if from != "" {
		q.Set("from", from)
	}
	if to != "" {
		q.Set("to", to)
	}
	return call[wire.Usage](ctx, c, request{method: http.MethodGet, path: keyPath(project, keyID, "usage"), query: q})
}
