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

// PlansPage reads one page.
func (c *Client) PlansPage(ctx context.Context, project, environment string, p Page) (wire.List[wire.Plan], error) {
	return call(ctx, c, api.ListPlans, p, project, environment)
}

// CreatePlan creates a usage plan.
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

// ForecastPlan compares the usage of a plan's keys with the limits that a change would set. It
// ignores a new name.
func (c *Client) ForecastPlan(ctx context.Context, project, environment, planID string, change wire.UpdatePlan) (wire.PlanForecast, error) {
	return call(ctx, c, api.ForecastPlan, change.Forecast(), project, environment, planID)
}

// DeletePlan deletes a usage plan that no key uses.
func (c *Client) DeletePlan(ctx context.Context, project, environment, planID string) error {
	return do(ctx, c, api.DeletePlan, api.None{}, project, environment, planID)
}

// FullKey is a full API key. It prints as "[redacted]"; string(k) returns it.
type FullKey string

// LogValue redacts the key.
func (FullKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (FullKey) String() string { return "[redacted]" }

// GoString redacts the key.
func (FullKey) GoString() string { return "[redacted]" }

// KeyFilter selects keys of a project. Empty fields select all.
type KeyFilter struct {
	Environment string
	Plan        string // ID of a plan
	Status      string // one of [wire.KeyStatuses]
	App         string // keys valid for this app
	Tag         string
	Unused      string // duration without requests, such as "720h"
	Search      string // beginning of the ID or of a word in the name
	Sort        string // one of [wire.KeySorts]; "" sorts by ID
}

func (f KeyFilter) part(p Page) api.KeysIn {
	return api.KeysIn{
		KeysOf:      api.KeysOf{Page: p, Plan: f.Plan, Status: f.Status, App: f.App, Tag: f.Tag, Unused: f.Unused, Search: f.Search, Sort: f.Sort},
		Environment: f.Environment,
	}
}

// Keys lists the API keys of a project that match a filter.
func (c *Client) Keys(ctx context.Context, project string, f KeyFilter) iter.Seq2[wire.Key, error] {
	return all(ctx, c, api.ListProjectKeys, f.part, project)
}

// KeysPage reads one page.
func (c *Client) KeysPage(ctx context.Context, project string, f KeyFilter, p Page) (wire.KeyList, error) {
	return call(ctx, c, api.ListProjectKeys, f.part(p), project)
}

// CreateKey creates an API key, and returns the only copy of its full key.
func (c *Client) CreateKey(ctx context.Context, project, environment string, key wire.CreateKey) (wire.Key, FullKey, error) {
	return issued(call(ctx, c, api.CreateKey, key, project, environment))
}

// Key reads an API key.
func (c *Client) Key(ctx context.Context, project, keyID string) (wire.Key, error) {
	return call(ctx, c, api.GetKey, api.None{}, project, keyID)
}

// FindKey finds a key by its full key.
func (c *Client) FindKey(ctx context.Context, project string, full FullKey) (wire.FoundKey, error) {
	text := string(full)
	return call(ctx, c, api.FindKey, wire.FindKey{Key: &text}, project)
}

// UpdateKey changes the given fields of an API key.
func (c *Client) UpdateKey(ctx context.Context, project, keyID string, change wire.UpdateKey) (wire.Key, error) {
	return call(ctx, c, api.UpdateKey, change, project, keyID)
}

// DisableKey disables an API key; see [Client.EnableKey].
func (c *Client) DisableKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return c.UpdateKey(ctx, project, keyID, wire.UpdateKey{Status: wire.Some("disabled")})
}

// EnableKey enables a disabled API key.
func (c *Client) EnableKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return c.UpdateKey(ctx, project, keyID, wire.UpdateKey{Status: wire.Some("active")})
}

// RevokeKey revokes an API key permanently.
func (c *Client) RevokeKey(ctx context.Context, project, keyID string) (wire.Key, error) {
	return call(ctx, c, api.RevokeKey, api.Empty{}, project, keyID)
}

// bulkTimeout exceeds the time of a bulk change at the server, which starts no change after 6 s. A
// client that gives up earlier loses the results of changes.
const bulkTimeout = 30 * time.Second

// BulkKeys makes one change to up to [wire.MaxBulk] keys of an environment. A dry run only reports
// the results. A shorter timeout of the client has no effect.
func (c *Client) BulkKeys(ctx context.Context, project, environment string, keys []string, change wire.KeyChange, dryRun bool) (wire.BulkResult, error) {
	patient := *c
	patient.timeout = max(c.timeout, bulkTimeout)
	return call(ctx, &patient, api.BulkKeys, wire.BulkKeys{Keys: &keys, Change: &change, DryRun: dryRun}, project, environment)
}

// RotateKey replaces the secret of an API key, and returns the only copy of the new full key. The
// previous secret stays valid for grace, 0 to 30 days.
func (c *Client) RotateKey(ctx context.Context, project, keyID string, grace time.Duration) (wire.Key, FullKey, error) {
	g := grace.String()
	return issued(call(ctx, c, api.RotateKey, wire.RotateKey{Grace: &g}, project, keyID))
}

// ReleaseQuota releases the part of a key's hard quota that lost checkers hold.
func (c *Client) ReleaseQuota(ctx context.Context, project, keyID string) (wire.ReleasedQuota, error) {
	return call(ctx, c, api.ReleaseQuota, api.Empty{}, project, keyID)
}

// ReportLeak reports a leaked full key or service token. url is the place of the leak, or "".
func (c *Client) ReportLeak(ctx context.Context, full FullKey, url string) (wire.LeaksReceived, error) {
	text := string(full)
	return call(ctx, c, api.ReportLeak, wire.ReportLeak{Key: &text, URL: url})
}

// Change reads the state of a change at every checker.
func (c *Client) Change(ctx context.Context, project, change string) (wire.InForce, error) {
	return call(ctx, c, api.GetChange, api.None{}, project, change)
}

// ExplainRequest returns the reason for the denial with an X-Request-Id.
func (c *Client) ExplainRequest(ctx context.Context, project, requestID string) (wire.ExplainedRequest, error) {
	return call(ctx, c, api.ExplainRequest, api.None{}, project, requestID)
}

func issued(k wire.IssuedKey, err error) (wire.Key, FullKey, error) {
	return k.Key, FullKey(k.FullKey), err
}

// Usage reads an API key's usage from one UTC day (YYYY-MM-DD) to another, inclusive. The default is
// the last 90 days.
func (c *Client) Usage(ctx context.Context, project, keyID, from, to string) (wire.Usage, error) {
	return call(ctx, c, api.GetUsage, api.Window{From: unless(from, ""), To: unless(to, "")}, project, keyID)
}

// EnvironmentUsage reads the usage of all keys of an environment, like [Client.Usage].
func (c *Client) EnvironmentUsage(ctx context.Context, project, environment, from, to string) (wire.EnvironmentUsage, error) {
	return call(ctx, c, api.GetEnvironmentUsage, api.Window{From: unless(from, ""), To: unless(to, "")}, project, environment)
}
