package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// AuditQuery says which audit records are wanted. Zero fields do not matter.
type AuditQuery struct {
	From, To time.Time
	Actor    string // e.g. "ada", "webhook" or "build 7"
	Action   string // e.g. "key.revoke"
	Resource string // and all below it, e.g. "projects/shop/environments/prod/apps/hello"
}

// Audit lists a project's audit records, newest first. Codes: forbidden for who is no
// owner, invalid_window.
func (c *Client) Audit(ctx context.Context, project string, q AuditQuery) iter.Seq2[wire.AuditRecord, error] {
	return all[wire.AuditRecord](ctx, c, q.values(), "projects", project, "audit")
}

// AuditPage reads one page of [Client.Audit].
func (c *Client) AuditPage(ctx context.Context, project string, q AuditQuery, p Page) (wire.List[wire.AuditRecord], error) {
	return page[wire.AuditRecord](ctx, c, p, q.values(), "projects", project, "audit")
}

// InstallationAudit lists the audit records that belong to no project: users,
// sign-ins, projects made and deleted. For admins. Codes: forbidden, invalid_window.
func (c *Client) InstallationAudit(ctx context.Context, q AuditQuery) iter.Seq2[wire.AuditRecord, error] {
	return all[wire.AuditRecord](ctx, c, q.values(), "audit")
}

// InstallationAuditPage reads one page of [Client.InstallationAudit].
func (c *Client) InstallationAuditPage(ctx context.Context, q AuditQuery, p Page) (wire.List[wire.AuditRecord], error) {
	return page[wire.AuditRecord](ctx, c, p, q.values(), "audit")
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"actor": q.Actor, "action": q.Action, "resource": q.Resource} {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}
