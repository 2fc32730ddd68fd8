package client

import (
	"context"
	"iter"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

const changeTries = 5

// Projects lists the projects that the caller can read.
func (c *Client) Projects(ctx context.Context) iter.Seq2[wire.Project, error] {
	return all(ctx, c, api.ListProjects, whole)
}

// ProjectsPage reads one page.
func (c *Client) ProjectsPage(ctx context.Context, p Page) (wire.List[wire.Project], error) {
	return call(ctx, c, api.ListProjects, p)
}

// CreateProject creates a project.
func (c *Client) CreateProject(ctx context.Context, name string) (wire.Project, error) {
	return call(ctx, c, api.CreateProject, wire.CreateProject{Name: &name})
}

// Project reads a project.
func (c *Client) Project(ctx context.Context, project string) (wire.Project, error) {
	return call(ctx, c, api.GetProject, api.None{}, project)
}

// UpdateProject changes the given settings of a project.
func (c *Client) UpdateProject(ctx context.Context, project string, change wire.UpdateProject) (wire.Project, error) {
	return call(ctx, c, api.UpdateProject, change, project)
}

// DeleteProject deletes an empty project.
func (c *Client) DeleteProject(ctx context.Context, project string) error {
	return do(ctx, c, api.DeleteProject, api.None{}, project)
}

// Members lists a project's members and their roles.
func (c *Client) Members(ctx context.Context, project string) iter.Seq2[wire.Member, error] {
	return all(ctx, c, api.ListMembers, whole, project)
}

// MembersPage reads one page.
func (c *Client) MembersPage(ctx context.Context, project string, p Page) (wire.List[wire.Member], error) {
	return call(ctx, c, api.ListMembers, p, project)
}

// Member reads a member of a project.
func (c *Client) Member(ctx context.Context, project, username string) (wire.Member, error) {
	return call(ctx, c, api.GetMember, api.None{}, project, username)
}

// SetMembers replaces a project's list of members.
func (c *Client) SetMembers(ctx context.Context, project string, members []wire.Member) error {
	return do(ctx, c, api.SetMembers, wire.SetMembers{Members: members}, project)
}

// ChangeMembers replaces a project's list of members with the result of change. If the list changes
// concurrently, it calls change again.
func (c *Client) ChangeMembers(ctx context.Context, project string, change func([]wire.Member) ([]wire.Member, error)) error {
	for try := 1; ; try++ {
		members, tag, err := c.taggedMembers(ctx, project)
		if err != nil {
			return err
		}
		if members, err = change(members); err != nil {
			return err
		}
		err = c.Matching(tag).SetMembers(ctx, project, members)
		if try == changeTries || !HasCode(err, string(problem.PreconditionFailed)) {
			return err
		}
	}
}

// taggedMembers reads all members, and the ETag of the first page. If the list changes between two
// pages, the ETag no longer matches.
func (c *Client) taggedMembers(ctx context.Context, project string) ([]wire.Member, string, error) {
	list, tag, err := tagged(ctx, c, api.ListMembers, Page{}, project)
	members := list.Items
	for err == nil && list.NextPageToken != "" {
		list, err = call(ctx, c, api.ListMembers, Page{Token: list.NextPageToken}, project)
		members = append(members, list.Items...)
	}
	return members, tag, err
}

// RemoveMember removes a member from a project.
func (c *Client) RemoveMember(ctx context.Context, project, username string) error {
	return do(ctx, c, api.RemoveMember, api.None{}, project, username)
}

// Tokens lists a project's service tokens.
func (c *Client) Tokens(ctx context.Context, project string) iter.Seq2[wire.Token, error] {
	return all(ctx, c, api.ListTokens, whole, project)
}

// ServiceToken reads a service token of a project.
func (c *Client) ServiceToken(ctx context.Context, project, id string) (wire.Token, error) {
	return call(ctx, c, api.GetToken, api.None{}, project, id)
}

// CreateToken creates a service token, and returns the only copy of the full token.
func (c *Client) CreateToken(ctx context.Context, project string, token wire.CreateToken) (wire.Token, Token, error) {
	t, err := call(ctx, c, api.CreateToken, token, project)
	return t.Token, Token(t.FullToken), err
}

// RevokeToken revokes a service token, and returns the API keys that it issued.
func (c *Client) RevokeToken(ctx context.Context, project, id string) (wire.RevokedToken, error) {
	return call(ctx, c, api.RevokeToken, api.None{}, project, id)
}

// Environments lists a project's environments.
func (c *Client) Environments(ctx context.Context, project string) iter.Seq2[wire.Environment, error] {
	return all(ctx, c, api.ListEnvironments, whole, project)
}

// EnvironmentsPage reads one page.
func (c *Client) EnvironmentsPage(ctx context.Context, project string, p Page) (wire.List[wire.Environment], error) {
	return call(ctx, c, api.ListEnvironments, p, project)
}

// Environment reads an environment of a project.
func (c *Client) Environment(ctx context.Context, project, environment string) (wire.Environment, error) {
	return call(ctx, c, api.GetEnvironment, api.None{}, project, environment)
}

// CreateEnvironment creates an environment.
func (c *Client) CreateEnvironment(ctx context.Context, project, name string) (wire.Environment, error) {
	return call(ctx, c, api.CreateEnvironment, wire.CreateEnvironment{Name: &name}, project)
}

// DeleteEnvironment deletes an empty environment.
func (c *Client) DeleteEnvironment(ctx context.Context, project, environment string) error {
	return do(ctx, c, api.DeleteEnvironment, api.None{}, project, environment)
}

// AuditQuery selects audit records. Zero fields select all.
type AuditQuery struct {
	From, To time.Time
	Actor    string // e.g. "ada", "webhook" or "build 7"
	Action   string // e.g. "key.revoke"
	Resource string // includes all resources below it, e.g. "projects/shop/environments/prod/apps/hello"
}

// Audit lists a project's audit records, newest first.
func (c *Client) Audit(ctx context.Context, project string, q AuditQuery) iter.Seq2[wire.AuditRecord, error] {
	return all(ctx, c, api.ListAudit, q.part, project)
}

// AuditPage reads one page.
func (c *Client) AuditPage(ctx context.Context, project string, q AuditQuery, p Page) (wire.List[wire.AuditRecord], error) {
	return call(ctx, c, api.ListAudit, q.part(p), project)
}

// InstallationAudit lists the audit records that belong to no project.
func (c *Client) InstallationAudit(ctx context.Context, q AuditQuery) iter.Seq2[wire.AuditRecord, error] {
	return all(ctx, c, api.ListInstallationAudit, q.part)
}

// InstallationAuditPage reads one page.
func (c *Client) InstallationAuditPage(ctx context.Context, q AuditQuery, p Page) (wire.List[wire.AuditRecord], error) {
	return call(ctx, c, api.ListInstallationAudit, q.part(p))
}

func (q AuditQuery) part(p Page) api.Audit {
	return api.Audit{Page: p, From: instant(q.From), To: instant(q.To), Actor: q.Actor, Action: q.Action, Resource: q.Resource}
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// ActivityQuery selects activity of an environment. Zero fields select all.
type ActivityQuery struct {
	Kind     string // e.g. "deployments"
	From, To time.Time
	Actor    string // e.g. "ada", "webhook" or "build 7"
}

// Activity lists what happened in an environment, newest first.
func (c *Client) Activity(ctx context.Context, project, environment string, q ActivityQuery) iter.Seq2[wire.Activity, error] {
	return all(ctx, c, api.ListActivity, q.part, project, environment)
}

// ActivityPage reads one page.
func (c *Client) ActivityPage(ctx context.Context, project, environment string, q ActivityQuery, p Page) (wire.List[wire.Activity], error) {
	return call(ctx, c, api.ListActivity, q.part(p), project, environment)
}

func (q ActivityQuery) part(p Page) api.Activity {
	return api.Activity{Page: p, Kind: q.Kind, From: instant(q.From), To: instant(q.To), Actor: q.Actor}
}
