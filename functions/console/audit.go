package console

import (
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) audits() {
	m.page("/audit", showInstallationAudit)
	m.page("/projects/{project}/audit", showProjectAudit)
}

// auditRows is how many records a page shows: fewer than rows of other lists, since
// each has a table of what was there before and after.
const auditRows = 25

// auditLog is what a page of records is about: a project, or the installation.
type auditLog struct {
	Title, Lead string
	Path        string // of the page, nothing filtered
	Example     string // of a resource

	tab     string
	within  string // what the names of its resources begin with; pages leave it out
	actions []audit.Action
	read    func(client.AuditQuery, client.Page) (wire.List[wire.AuditRecord], error)
}

func showProjectAudit(v *visit) error {
	return v.showAudit(auditLog{
		Title: "Audit log", tab: tabAudit, Path: v.inProject("audit"),
		Lead:    "Every change in this project, the newest first. Records are kept for a year, and none holds a secret.",
		Example: "environments/prod/apps/hello",
		within:  audit.Path("projects", v.project) + "/", actions: actionsOf(false),
		read: func(q client.AuditQuery, p client.Page) (wire.List[wire.AuditRecord], error) {
			return v.api.AuditPage(v.ctx, v.project, q, p)
		},
	})
}

func showInstallationAudit(v *visit) error {
	return v.showAudit(auditLog{
		Title: "Installation audit log", Path: at("audit"),
		Lead:    "What belongs to no project, the newest first: sign-ins, users, projects created and deleted. Records are kept for a year, and none holds a secret.",
		Example: "users/ada", actions: actionsOf(true),
		read: func(q client.AuditQuery, p client.Page) (wire.List[wire.AuditRecord], error) {
			return v.api.InstallationAuditPage(v.ctx, q, p)
		},
	})
}

type auditPage struct {
	auditLog

	Filter   auditFilter
	Filtered bool // there is one
	Records  []auditRow
	Paging   paging
}

// showAudit shows a log. A filter that cannot be read shows no records at all, not
// those of a part of it; the API is asked all the same, so that who may not see the
// log is told so first.
func (v *visit) showAudit(l auditLog) error {
	f, q := l.filter(v.r.URL.Query())
	list, err := l.read(q, client.Page{Size: auditRows, Token: v.asked().Token})
	if client.HasCode(err, "invalid_window") || client.HasCode(err, "invalid_parameter") {
		f.Form, _ = v.refused(err, map[string]string{"invalid_window": "from"})
		f.Form.Typed, err = v.r.URL.Query(), nil
	}
	if err != nil {
		return err
	}
	p := auditPage{auditLog: l, Filter: f, Filtered: q != client.AuditQuery{} || f.Form.Refusal != nil}
	if f.Form.Refusal == nil {
		p.Paging = v.paging(list.NextPageToken)
		for _, r := range list.Items {
			row, err := l.row(r)
			if err != nil {
				return err
			}
			p.Records = append(p.Records, row)
		}
	}
	return v.show("audit", sheet{Status: f.Form.Status(), Title: l.Title, Tab: l.tab}, p)
}

// narrowed is the address of the log's records with one value of a filter.
func (l auditLog) narrowed(name, value string) string {
	return l.Path + "?" + url.Values{name: {value}}.Encode()
}

// short is a resource's name as the log's pages show it, e.g. "api-keys/key-ab12cd34"
// in a project's; full is the other way round, and leaves full ones alone.
func (l auditLog) short(resource string) string { return strings.TrimPrefix(resource, l.within) }

func (l auditLog) full(resource string) string {
	resource = strings.Trim(strings.TrimSpace(resource), "/")
	if resource == "" || strings.HasPrefix(resource, "projects/") {
		return resource
	}
	return l.within + resource
}
