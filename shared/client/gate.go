package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// gatePoll is how often WaitGate looks.
const gatePoll = 250 * time.Millisecond

// RequireAPIKey switches an app's gate on or off. The gate is in place only once
// its state says engaged; see [Client.WaitGate].
func (c *Client) RequireAPIKey(ctx context.Context, project, environment, app string, on bool) (wire.App, error) {
	return call[wire.App](ctx, c, request{
		method: http.MethodPatch, path: in(project, environment, "apps", app), body: wire.UpdateApp{RequireAPIKey: &on},
	})
}

// WaitGate waits until an app's gate is in a state, e.g. "engaged", or ctx ends;
// the error then says how far the gate has come and why not further.
func (c *Client) WaitGate(ctx context.Context, project, environment, app, state string) (wire.App, error) {
	tick := time.NewTicker(gatePoll)
	defer tick.Stop()
	var last wire.Gate
	for {
		a, err := c.App(ctx, project, environment, app)
		if err == nil && a.Gate.State == state {
			return a, nil
		}
		if ctx.Err() != nil {
			return a, fmt.Errorf("the gate of %s is %q (%s), not %q: %w", app, last.State, last.Message, state, ctx.Err())
		}
		if err != nil {
			return a, err
		}
		last = a.Gate
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
