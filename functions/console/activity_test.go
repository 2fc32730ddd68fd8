package console

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	activityPath = "/console/projects/shop/environments/prod/activity"
	prodActivity = "GET /api/v1/projects/shop/environments/prod/activity"
	prodUsage    = "GET /api/v1/projects/shop/environments/prod/usage"
)

func TestActivityPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer(prodActivity, 200, wire.List[wire.Activity]{Items: []wire.Activity{{
		AuditRecord: wire.AuditRecord{
			ID: "1", At: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Actor: wire.AuditActor{Kind: "webhook", Name: "webhook"},
			Action: "deployment.create", Outcome: "succeeded", Resource: "projects/shop/environments/prod/apps/hello/deployments/7",
			New: json.RawMessage(`{"revision":7,"trigger":"webhook","image":"<b>hello:v7"}`),
		},
		Status: "failed", Message: "The <image> cannot be pulled.",
	}}})
	o.answer(prodUsage, 200, wire.EnvironmentUsage{UsageReport: wire.UsageReport{Days: []wire.UsageDay{
		{Date: "2026-03-14", UsageTotals: wire.UsageTotals{Allowed: 1000, RateDenied: 200, QuotaDenied: 34}},
	}}})
	page := o.get(activityPath).Text()
	for _, want := range []string{
		`<bdi>webhook</bdi></a> deployed <a href="/console/projects/shop/environments/prod/apps/hello/deploys"><bdi>revision 7 of hello</bdi></a>`,
		`<span class="badge dot bad">Failed</span>`, `The &lt;image&gt; cannot be pulled.`, `&lt;b&gt;hello:<wbr>v7`,
		`234 of 1,234 requests were denied: 200 rate-denied, 34 quota-denied.`,
		`/activity" aria-current="page">`, `aria-current="true">All</a>`, `?actor=webhook"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	for _, no := range []string{"<b>hello", "<dt>Client address", "resource=", `name="action"`} {
		if strings.Contains(page, no) {
			t.Errorf("the page contains %s", no)
		}
	}
	page = o.get(activityPath + "?kind=deployments&actor=ada&to=2026-03-14&action=key.revoke&resource=x").Text()
	want := url.Values{"kind": {"deployments"}, "actor": {"ada"}, "to": {"2026-03-14T23:59:59.999999Z"}, "page_size": {"25"}}
	check.Equal(t, "query", want, o.queries[prodActivity])
	if strings.Contains(page, "were denied:") || !strings.Contains(page, `aria-current="true">Deployments</a>`) || !strings.Contains(page, `name="kind" value="deployments"`) {
		t.Errorf("page of one kind: got %s", page)
	}
}
