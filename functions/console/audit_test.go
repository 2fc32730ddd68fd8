package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	auditPath    = "/console/projects/shop/audit"
	shopRecords  = "GET /api/v1/projects/shop/audit"
	otherRecords = "GET /api/v1/audit"
)

func (o *office) records(call string, next string, items ...wire.AuditRecord) {
	o.answer(call, 200, wire.List[wire.AuditRecord]{Items: items, NextPageToken: next})
}

func planChange() wire.AuditRecord {
	return wire.AuditRecord{
		ID: "1", At: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Actor: wire.AuditActor{Kind: "user", Name: "ada"},
		ClientAddress: "203.0.113.7", RequestID: "req-1", Action: "plan.update", Outcome: "succeeded", Project: "shop",
		Resource: "projects/shop/environments/prod/plans/plan-gold",
		Old:      json.RawMessage(`{"name":"Gold","quota":null}`), New: json.RawMessage(`{"name":"<script>alert(1)</script>{{.}}","quota":1000000000000}`),
	}
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.records(shopRecords, "more", planChange())
	w := o.get(auditPath + "?actor=ada&action=plan.update&resource=environments/prod&from=2026-03-01&to=2026-03-14")
	page := w.Text()
	for _, want := range []string{
		`<h2 id="day-2026-03-14">14 March 2026</h2>`, `<bdi>ada</bdi></a> changed plan <a href="/console/projects/shop/environments/prod/plans/plan-gold"><bdi>&lt;script&gt;`,
		`<dd><time datetime="2026-03-14T15:09:26Z">14 Mar 2026, 15:09:26 UTC</time>`, `resource=environments%2Fprod%2Fplans%2Fplan-gold"><bdi>projects/<wbr>shop/<wbr>environments/<wbr>prod/<wbr>plans/<wbr>plan-gold</bdi>`, `<code>203.0.113.7</code>`, `<code>req-1</code>`,
		`<th scope="row">name</th><td class="full" data-label="Before"><bdi>Gold</bdi></td><td class="full" data-label="After"><bdi>&lt;script&gt;alert(1)&lt;/<wbr>script&gt;{{.}}</bdi></td>`,
		`<th scope="row">quota</th><td class="full" data-label="Before"><span class="muted">none</span></td><td class="full" data-label="After"><bdi>1000000000000</bdi></td>`,
		`<option value="plan.update" selected>Change plan</option>`, `value="2026-03-01"`, `<details class="card filters" open>`,
		`/audit" aria-current="page">`, `Next page</a>`, `page=more`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	if w.Status != http.StatusOK || strings.Contains(page, "<script>alert") {
		t.Errorf("response: got %d %s", w.Status, page)
	}
	want := url.Values{
		"actor": {"ada"}, "action": {"plan.update"}, "resource": {"projects/shop/environments/prod"}, "page_size": {"25"},
		"from": {"2026-03-01T00:00:00Z"}, "to": {"2026-03-14T23:59:59.999999Z"},
	}
	check.Equal(t, "query", want, o.queries[shopRecords])
}

func TestAuditOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   func(r *wire.AuditRecord)
		has, not []string
	}{
		{"succeeded", func(*wire.AuditRecord) {}, nil, []string{"badge bad", "badge amber", "Not signed in"}},
		{"failed", func(r *wire.AuditRecord) { r.Outcome = "failed" }, []string{`<span class="badge bad">Failed</span>`}, nil},
		{"requested", func(r *wire.AuditRecord) { r.Outcome = "requested" }, []string{`badge amber`, "its result is unknown"}, nil},
		{"no username", func(r *wire.AuditRecord) { r.Actor = wire.AuditActor{Kind: "anonymous"} }, []string{"Unknown user", "no username given"}, []string{"?actor="}},
		{"with a username", func(r *wire.AuditRecord) { r.Actor.Kind = "anonymous" }, []string{"Not signed in"}, nil},
		{"no client address", func(r *wire.AuditRecord) { r.ClientAddress = "" }, nil, []string{"<dt>Client address"}},
		{"created", func(r *wire.AuditRecord) { r.Old = nil }, []string{">After<"}, []string{">Before<"}},
		{"deleted", func(r *wire.AuditRecord) { r.New = json.RawMessage("null") }, []string{">Before<"}, []string{">After<"}},
		{"no values", func(r *wire.AuditRecord) { r.Old, r.New = nil, nil }, nil, []string{"<table"}},
		{"unknown action", func(r *wire.AuditRecord) { r.Action = "<b>.sell" }, []string{"&lt;b&gt;.sell"}, []string{"<b>"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			r := planChange()
			tt.change(&r)
			o.records(shopRecords, "", r)
			page := o.get(auditPath).Text()
			for _, want := range tt.has {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not contain %s", want)
				}
			}
			for _, no := range tt.not {
				if strings.Contains(page, no) {
					t.Errorf("the page contains %s", no)
				}
			}
		})
	}
}

func TestAuditFilterRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.records(shopRecords, "", planChange())
	for query, field := range map[string]string{"from=yesterday": "from", "to=2026-02-30": "to", "from=0001-01-01": "from"} {
		w := o.get(auditPath + "?actor=bob&" + query)
		body := w.Text()
		if w.Status != 422 || !strings.Contains(body, `id="e-`+field+`">Enter a date such as`) || !strings.Contains(body, `value="bob"`) || strings.Contains(body, "plan-gold") {
			t.Errorf("%s: got %d %s", query, w.Status, body)
		}
	}
	o.refuse(shopRecords, 422, "invalid_window")
	o.get(auditPath+"?from=2026-03-14&to=2026-03-01").Shows(422, `id="e-from">The API says invalid_window.`)
	o.refuse(shopRecords, 400, "invalid_parameter", "action")
	o.get(auditPath+"?action=key.sell").Shows(400, `role="alert"><svg`, "The API says invalid_parameter.")
	o.refuse(shopRecords, 400, "invalid_page")
	o.get(auditPath + "?page=x").Shows(404)
	o.refuse(shopRecords, 403, "forbidden")
	o.get(auditPath + "?from=yesterday").Shows(403)
}

func TestAuditEmpty(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.records(shopRecords, "")
	for query, want := range map[string]string{"": "No records", "?actor=&action=&resource=&from=&to=": "No records", "?actor=bob": "No matching records"} {
		if body := o.get(auditPath + query).Text(); !strings.Contains(body, want) {
			t.Errorf("%q: got %s", query, body)
		}
	}
}

func TestAuditRoles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		role          string
		admin         bool
		owner, admins bool
	}{{"viewer", false, false, false}, {"developer", false, false, false}, {"owner", false, true, false}, {"owner", true, true, true}}
	for _, tt := range tests {
		o := newOffice(t)
		o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: tt.role})
		o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada", Admin: tt.admin}})
		page := o.get("/console/projects/shop").Text()
		if got := strings.Contains(page, `href="`+auditPath+`"`); got != tt.owner {
			t.Errorf("%s: link to the log: got %t, want %t", tt.role, got, tt.owner)
		}
		if got := strings.Contains(page, `href="/console/audit"`); got != tt.admins {
			t.Errorf("%s, admin %t: link to the installation log: got %t, want %t", tt.role, tt.admin, got, tt.admins)
		}
	}
	o := newOffice(t)
	o.refuse(otherRecords, 403, "forbidden")
	o.get("/console/audit").Shows(403, "Access denied")
	o.records(otherRecords, "", wire.AuditRecord{ID: "2", Action: "session.sign_in", Outcome: "succeeded", Resource: "users/ada"})
	if w := o.get("/console/audit?resource=/users/ada"); !strings.Contains(w.Text(), " signed in ") || o.queries[otherRecords].Get("resource") != "users/ada" {
		t.Errorf("response: got %d %s, query %v", w.Status, w.Body, o.queries[otherRecords])
	}
}

func TestAuditActions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range audit.Actions() {
		text := wordsOf(a).name
		if text == string(a) || seen[text] || wordsOf(a).did == string(a) {
			t.Errorf("%s: got the text %q, want a unique one", a, text)
		}
		seen[text] = true
	}
	if n := len(actionsOf(true)) + len(actionsOf(false)); n != len(audit.Recorded()) {
		t.Errorf("got %d actions in the filters, want %d", n, len(audit.Recorded()))
	}
	asked := url.Values{"action": {"key.sell"}}
	f, q := recordLog{actions: actionsOf(false)}.filter(asked)
	if last := f.actions[len(f.actions)-1]; last.Value != "key.sell" || q != (client.AuditQuery{Action: "key.sell"}) {
		t.Errorf("unknown action: got %v %v", last, q)
	}
}
