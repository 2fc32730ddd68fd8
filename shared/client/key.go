package client

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

// Plans lists an environment's usage plans.
func (c *Client) Plans(ctx context.Context, project, environment string) iter.Seq2[wire.Plan, error] {
	return all(ctx, c, api.ListPlans, whole, project, environment)
}

// PlansPage reads one page of them.
func (c *Client) PlansPage(ctx context.Context, project, environment string, p Page) (wire.List[wire.Plan], error) {
	return call(ctx, c, api.ListPlans, p, project, environment)
}

// CreatePlan makes a usage plan.
func (c *Client) CreatePlan(ctx context.Context, project, environment string, plan wire.CreatePlan) (wire.Plan, error) {
	return call(ctx, c, api.CreatePlan, plan, project, environment)
}

// Plan reads a usage plan, e.g. "plan-gold".
func (c *Client) Plan(ctx context.Context, project, environment, planID string) (wire.Plan, error) {
	return call(ctx, c, api.GetPlan, api.None{}, project, environment, planID)
}

// UpdatePlan changes the given fields of a usage plan.
func (c *Client) UpdatePlan(ctx context.Context, project, environment, planID string, change wire.UpdatePlan) (wire.Plan, error) {
	return call(ctx, c, api.UpdatePlan, change, project, environment, planID)
}

// DeletePlan deletes a usage plan that no key uses.
func (c *Client) DeletePlan(ctx context.Context, project, environment, planID string) error {
	return do(ctx, c, api.DeletePlan, api.None{}, project, environment, planID)
}

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
	Status      string // one of [wire.KeyStatuses]
	App         string // that the keys open
	Search      string // the beginning of a word of the name, or of the ID
	Sort        string // one of [wire.KeySorts]; "" is by id
}

func (f KeyFilter) part(p Page) api.KeysIn {
	return api.KeysIn{
		KeysOf:      api.KeysOf{Page: p, Plan: f.Plan, Status: f.Status, App: f.App, Search: f.Search, Sort: f.Sort},
		Environment: f.Environment,
	}
}

// Keys lists those of a project's API keys that a filter leaves.
func (c *Client) Keys(ctx context.Context, project string, f KeyFilter) iter.Seq2[wire.Key, error] {
	return all(ctx, c, api.ListProjectKeys, f.part, project)
}

// KeysPage reads one page of those that a filter leaves.
func (c *Client) KeysPage(ctx context.Context, project string, f KeyFilter, p Page) (wire.List[wire.Key], error) {
	return call(ctx, c, api.ListProjectKeys, f.part(p), project)
}

// CreateKey makes an API key and gives the full key, this once; see
// [Client.Once] for a call that may be made again.
func (c *Client) CreateKey(ctx context.Context, project, environment string, key wire.CreateKey) (wire.Key, FullKey, error) {
	return issued(call(ctx, c, api.CreateKey, key, project, environment))
}

// Key reads an API key.
func (c *Client) Key(ctx context.Context, project, keyID string) (wire.Key, error) {
	return call(ctx, c, api.GetKey, api.None{}, project, keyID)
}

// FindKey finds the key that a full key belongs to, and says which of its secrets that is.
func (c *Client) FindKey(ctx context.Context, project string, full FullKey) (wire.FoundKey, error) {
	text := string(full)
	return call(ctx, c, api.FindKey, wire.FindKey{Key: &text}, project)
}

// UpdateKey changes the given fields of an API key.
func (c *Client) UpdateKey(ctx context.Context, project, keyID string, change wire.UpdateKey) (wire.Key, error) {
	return call(ctx, c, api.UpdateKey, change, project, keyID)
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
	return call(ctx, c, api.RevokeKey, api.Empty{}, project, keyID)
}

// RotateKey gives an API key a new secret, shown this once; the old one stays
// valid for grace, 0 to 30 days.
func (c *Client) RotateKey(ctx context.Context, project, keyID string, grace time.Duration) (wire.Key, FullKey, error) {
	g := grace.String()
	return issued(call(ctx, c, api.RotateKey, wire.RotateKey{Grace: &g}, project, keyID))
}

// ReleaseQuota returns what lost checkers hold of a key's hard quota.
func (c *Client) ReleaseQuota(ctx context.Context, project, keyID string) (wire.ReleasedQuota, error) {
	return call(ctx, c, api.ReleaseQuota, api.Empty{}, project, keyID)
}

// ReportLeak reports a full key that was found where strangers can read it, at url if that is
// known. It is not told whether there is such a key.
func (c *Client) ReportLeak(ctx context.Context, full FullKey, url string) (wire.LeaksReceived, error) {
	text := string(full)
	return call(ctx, c, api.ReportLeak, wire.ReportLeak{Key: &text, URL: url})
}

// Change reads whether a change of a key or a plan is in force at every checker.
func (c *Client) Change(ctx context.Context, project, change string) (wire.InForce, error) {
	return call(ctx, c, api.GetChange, api.None{}, project, change)
}

// ExplainRequest asks the checkers why the gate refused a request, by its X-Request-Id.
func (c *Client) ExplainRequest(ctx context.Context, project, requestID string) (wire.ExplainedRequest, error) {
	return call(ctx, c, api.ExplainRequest, api.None{}, project, requestID)
}

// issued parts a key and the full key.
func issued(k wire.IssuedKey, err error) (wire.Key, FullKey, error) {
	return k.Key, FullKey(k.FullKey), err
}

// Usage reads an API key's usage. from and to are UTC dates, YYYY-MM-DD, both
// within the window; "" leaves one to the server, which then takes the last 90
// days.
func (c *Client) Usage(ctx context.Context, project, keyID, from, to string) (wire.Usage, error) {
	return call(ctx, c, api.GetUsage, api.Window{From: unless(from, ""), To: unless(to, "")}, project, keyID)
}

// EnvironmentUsage reads the usage of all keys of an environment; from and to are as in
// [Client.Usage].
func (c *Client) EnvironmentUsage(ctx context.Context, project, environment, from, to string) (wire.EnvironmentUsage, error) {
	return call(ctx, c, api.GetEnvironmentUsage, api.Window{From: unless(from, ""), To: unless(to, "")}, project, environment)
}
