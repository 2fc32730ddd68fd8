package client

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

// Apps lists an environment's apps.
func (c *Client) Apps(ctx context.Context, project, environment string) iter.Seq2[wire.App, error] {
	return all(ctx, c, api.ListApps, whole, project, environment)
}

// AppsPage reads one page.
func (c *Client) AppsPage(ctx context.Context, project, environment string, p Page) (wire.List[wire.App], error) {
	return call(ctx, c, api.ListApps, p, project, environment)
}

// CreateApp creates an app, or adopts the workload of that name.
func (c *Client) CreateApp(ctx context.Context, project, environment string, app wire.CreateApp) (wire.App, error) {
	return call(ctx, c, api.CreateApp, app, project, environment)
}

// App reads an app with the state of its gate.
func (c *Client) App(ctx context.Context, project, environment, app string) (wire.App, error) {
	return call(ctx, c, api.GetApp, api.None{}, project, environment, app)
}

// DeleteApp deletes an app with its workload and route. It returns the keys whose scope named it.
func (c *Client) DeleteApp(ctx context.Context, project, environment, app string) (wire.DeletedApp, error) {
	return call(ctx, c, api.DeleteApp, api.None{}, project, environment, app)
}

// SetGitSource turns an app into a git app, or changes its git source.
func (c *Client) SetGitSource(ctx context.Context, project, environment, app string, source wire.GitSource) (wire.App, error) {
	return call(ctx, c, api.SetGitSource, source, project, environment, app)
}

// RemoveGitSource turns a git app into an image app. It returns a not_found error if the app has no
// git source.
func (c *Client) RemoveGitSource(ctx context.Context, project, environment, app string) error {
	return do(ctx, c, api.RemoveGitSource, api.None{}, project, environment, app)
}

const gatePoll = 250 * time.Millisecond

// RequireAPIKey turns an app's gate on or off; see [Client.WaitGate].
func (c *Client) RequireAPIKey(ctx context.Context, project, environment, app string, on bool) (wire.App, error) {
	return call(ctx, c, api.UpdateApp, wire.UpdateApp{RequireAPIKey: &on}, project, environment, app)
}

// ForecastGate counts the keys that can access an app while its gate is on.
func (c *Client) ForecastGate(ctx context.Context, project, environment, app string) (wire.GateForecast, error) {
	return call(ctx, c, api.ForecastGate, api.None{}, project, environment, app)
}

// UpdateApp changes the settings of an app that are set in u.
func (c *Client) UpdateApp(ctx context.Context, project, environment, app string, u wire.UpdateApp) (wire.App, error) {
	return call(ctx, c, api.UpdateApp, u, project, environment, app)
}

// SetPreflight sets the handling of CORS preflights: "app" or "refuse".
func (c *Client) SetPreflight(ctx context.Context, project, environment, app, preflight string) (wire.App, error) {
	return call(ctx, c, api.UpdateApp, wire.UpdateApp{Preflight: &preflight}, project, environment, app)
}

// WaitGate waits until an app's gate is in a state, e.g. "engaged". If ctx ends first, the error
// contains the last state and its message.
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

// Deployments lists an app's deploy history, newest first.
func (c *Client) Deployments(ctx context.Context, project, environment, app string) iter.Seq2[wire.Deployment, error] {
	return all(ctx, c, api.ListDeployments, whole, project, environment, app)
}

// DeploymentsPage reads one page.
func (c *Client) DeploymentsPage(ctx context.Context, project, environment, app string, p Page) (wire.List[wire.Deployment], error) {
	return call(ctx, c, api.ListDeployments, p, project, environment, app)
}

// Deployment reads one deployment.
func (c *Client) Deployment(ctx context.Context, project, environment, app string, revision int64) (wire.Deployment, error) {
	return call(ctx, c, api.GetDeployment, api.None{}, project, environment, app, strconv.FormatInt(revision, 10))
}

// Deploy deploys an image.
func (c *Client) Deploy(ctx context.Context, project, environment, app, image string) (wire.Deployment, error) {
	return call(ctx, c, api.CreateDeployment, wire.CreateDeployment{Image: &image}, project, environment, app)
}

// Rollback deploys an earlier revision again. Revision 0 selects the default of package deploy.
func (c *Client) Rollback(ctx context.Context, project, environment, app string, revision int64) (wire.Deployment, error) {
	return call(ctx, c, api.RollBack, wire.Rollback{Revision: unless(revision, 0)}, project, environment, app)
}

// Promote deploys a revision of the app with the same name in environment from. Revision 0 selects
// the default of package deploy.
func (c *Client) Promote(ctx context.Context, project, environment, app, from string, revision int64) (wire.Deployment, error) {
	return call(ctx, c, api.Promote, wire.Promote{FromEnvironment: &from, Revision: unless(revision, 0)}, project, environment, app)
}

// Builds lists a git app's builds, newest first.
func (c *Client) Builds(ctx context.Context, project, environment, app string) iter.Seq2[wire.Build, error] {
	return all(ctx, c, api.ListBuilds, whole, project, environment, app)
}

// BuildsPage reads one page.
func (c *Client) BuildsPage(ctx context.Context, project, environment, app string, p Page) (wire.List[wire.Build], error) {
	return call(ctx, c, api.ListBuilds, p, project, environment, app)
}

// Build reads one build.
func (c *Client) Build(ctx context.Context, project, environment, app string, build int64) (wire.Build, error) {
	return call(ctx, c, api.GetBuild, api.None{}, project, environment, app, strconv.FormatInt(build, 10))
}

// RequestBuild builds a commit, given by its full or abbreviated hash. If commit is "", it builds
// the branch's head.
func (c *Client) RequestBuild(ctx context.Context, project, environment, app, commit string) (wire.Build, error) {
	return call(ctx, c, api.RequestBuild, wire.RequestBuild{Commit: unless(commit, "")}, project, environment, app)
}

func unless[T comparable](value, none T) *T {
	if value == none {
		return nil
	}
	return &value
}

// WebhookToken is the secret token of an app's webhook. It prints as "[redacted]";
// string(t) returns it.
type WebhookToken string

// LogValue redacts the token.
func (WebhookToken) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (WebhookToken) String() string { return "[redacted]" }

// GoString redacts the token.
func (WebhookToken) GoString() string { return "[redacted]" }

// Webhook is an app's deploy webhook.
type Webhook struct {
	Enabled bool
	URL     string
	Token   WebhookToken // "" while disabled, and for viewers and service tokens
	Issuers []string     // allowed issuers of trusts
}

// Webhook reads an app's webhook.
func (c *Client) Webhook(ctx context.Context, project, environment, app string) (Webhook, error) {
	return webhook(call(ctx, c, api.GetWebhook, api.None{}, project, environment, app))
}

// EnableWebhook enables an app's webhook with a new token.
func (c *Client) EnableWebhook(ctx context.Context, project, environment, app string) (Webhook, error) {
	return webhook(call(ctx, c, api.EnableWebhook, api.Empty{}, project, environment, app))
}

// DisableWebhook disables an app's webhook and deletes its token.
func (c *Client) DisableWebhook(ctx context.Context, project, environment, app string) error {
	return do(ctx, c, api.DisableWebhook, api.None{}, project, environment, app)
}

// Trusts lists the trusts of an app.
func (c *Client) Trusts(ctx context.Context, project, environment, app string) iter.Seq2[wire.Trust, error] {
	return func(yield func(wire.Trust, error) bool) {
		list, err := call(ctx, c, api.ListTrusts, api.None{}, project, environment, app)
		if err != nil {
			yield(wire.Trust{}, err)
			return
		}
		for _, t := range list.Items {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Trust reads a trust of an app.
func (c *Client) Trust(ctx context.Context, project, environment, app, trust string) (wire.Trust, error) {
	return call(ctx, c, api.GetTrust, api.None{}, project, environment, app, trust)
}

// AddTrust allows pipelines to deploy an app with their OpenID Connect tokens.
func (c *Client) AddTrust(ctx context.Context, project, environment, app string, t wire.AddTrust) (wire.Trust, error) {
	return call(ctx, c, api.AddTrust, t, project, environment, app)
}

// RemoveTrust removes a trust of an app.
func (c *Client) RemoveTrust(ctx context.Context, project, environment, app, trust string) error {
	return do(ctx, c, api.RemoveTrust, api.None{}, project, environment, app, trust)
}

// Deliveries lists the calls of an app's webhook, newest first.
func (c *Client) Deliveries(ctx context.Context, project, environment, app string) iter.Seq2[wire.WebhookDelivery, error] {
	return all(ctx, c, api.ListDeliveries, whole, project, environment, app)
}

// DeliveriesPage reads one page.
func (c *Client) DeliveriesPage(ctx context.Context, project, environment, app string, p Page) (wire.List[wire.WebhookDelivery], error) {
	return call(ctx, c, api.ListDeliveries, p, project, environment, app)
}

// TestWebhook sends a ping to an app's webhook. A missing pong is a result, not an error.
func (c *Client) TestWebhook(ctx context.Context, project, environment, app string) (wire.WebhookTest, error) {
	return call(ctx, c, api.TestWebhook, api.Empty{}, project, environment, app)
}

func webhook(w wire.Webhook, err error) (Webhook, error) {
	out := Webhook{Enabled: w.Enabled, URL: w.URL, Issuers: w.Issuers}
	if w.Token != nil {
		out.Token = WebhookToken(*w.Token)
	}
	return out, err
}
