package apps

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// audited returns a project's records as "actor action outcome", newest first.
func (o *office) audited(who, query string) []string {
	o.Helper()
	var got []string
	for _, r := range functest.Read[wire.List[wire.AuditRecord]](o.as(who).get(o.at("/audit"+query)), 200).Items {
		got = append(got, r.Actor.Name+" "+r.Action+" "+r.Outcome)
	}
	return got
}

func TestAudit(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":true}`).Is(200)
	o.as("vic").patch(o.apps("/hello"), `{"require_api_key":false}`).Refused(403, "forbidden") // not recorded
	all := []string{
		"dev app.update succeeded", "dev app.create succeeded", "ada environment.create succeeded", "root project.set_members succeeded",
	}
	hello := "projects/" + o.project + "/environments/prod/apps/hello"
	today := time.Now().UTC().Format(time.DateOnly)
	for query, want := range map[string][]string{
		"": all, "?actor=dev": all[:2], "?action=app.create": all[1:2], "?resource=" + hello: all[:2],
		"?resource=projects/" + o.project: all, "?actor=dev&action=environment.create": nil,
		"?from=" + today: all, "?to=" + today: all, "?to=2020-01-01": nil, "?from=2999-01-01T00:00:00Z": nil, "?page_size=1": all[:1],
	} {
		if diff := cmp.Diff(want, o.audited("ada", query)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for query, code := range map[string]string{
		"?from=yesterday": "invalid_date", "?to=2026-13-01": "invalid_date", "?from=0001-01-01T00:00:00Z": "invalid_date",
		"?from=2026-01-02&from=2026-01-03": "invalid_parameter", "?actor=" + strings.Repeat("a", 513): "invalid_parameter",
		"?action=key.sell": "invalid_parameter", "?action=webhook.call": "invalid_parameter", "?action=Key.Revoke": "invalid_parameter",
		"?a=%zz": "invalid_parameter", "?page_token=x": "invalid_page",
	} {
		o.as("ada").get(o.at("/audit"+query)).Refused(400, problem.Code(code))
	}
	o.as("ada").get(o.at("/audit?from=2026-01-02&to=2026-01-01")).Refused(422, "invalid_window")
	for _, who := range []string{"dev", "vic", "eve"} {
		o.as(who).get(o.at("/audit")).Refused(403, "forbidden")
	}
	o.as("").get(o.at("/audit")).Refused(401, "unauthenticated")
}

// TestActivity tests that all members see an environment's records, but only owners see addresses,
// and no one sees the records of an earlier environment.
func TestActivity(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":true}`).Is(200)
	path := o.at("/environments/prod/activity")
	of := func(who, query string) (got []string) {
		t.Helper()
		for _, a := range functest.Read[wire.List[wire.Activity]](o.as(who).get(path+query), 200).Items {
			if owner := who == "ada" || who == "root"; owner != (a.ClientAddress != "") {
				t.Errorf("%s sees the address of %s: %q", who, a.Action, a.ClientAddress)
			}
			got = append(got, a.Actor.Name+" "+a.Action)
		}
		return got
	}
	all := []string{"dev app.update", "dev app.create", "ada environment.create"}
	for _, who := range []string{"root", "ada", "dev", "vic"} {
		check.Equal(t, who, all, of(who, ""))
	}
	for query, want := range map[string][]string{
		"?kind=settings": all, "?kind=deployments": nil, "?actor=dev": all[:2], "?to=2020-01-01": nil, "?page_size=1": all[:1],
	} {
		if diff := cmp.Diff(want, of("vic", query)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for query, code := range map[string]string{
		"?kind=all": "invalid_parameter", "?from=yesterday": "invalid_date", "?page_token=x": "invalid_page", "?resource=x": "unknown_parameter",
	} {
		o.as("vic").get(path+query).Refused(400, problem.Code(code))
	}
	o.as("vic").get(path+"?from=2026-01-02&to=2026-01-01").Refused(422, "invalid_window")
	o.as("eve").get(path).Refused(403, "forbidden")
	o.as("").get(path).Refused(401, "unauthenticated")
	o.as("dev").delete(o.apps("/hello")).Is(200)
	o.as("ada").delete(o.at("/environments/prod")).Is(204)
	o.as("ada").post(o.at("/environments"), `{"name":"prod"}`).Is(201)
	if got := of("vic", ""); !cmp.Equal(got, all[2:]) {
		t.Errorf("records of the new environment: got %v", got)
	}
}

func TestInstallationAudit(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, who := range []string{"ada", "dev", "eve"} {
		o.as(who).get("/audit").Refused(403, "forbidden")
	}
	o.as("").get("/audit").Refused(401, "unauthenticated")
	o.as("root").get("/audit?action=user.promote").Refused(400, "invalid_parameter")
	list := functest.Read[wire.List[wire.AuditRecord]](o.as("root").get("/audit?action=project.create"), 200)
	if len(list.Items) != 1 || list.Items[0].Resource != "projects/"+o.project || string(list.Items[0].New) != `{"root":"owner"}` || string(list.Items[0].Old) != "null" {
		t.Errorf("records %+v", list.Items)
	}
}

func TestAuditOfAnEarlierProject(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.as("ada").delete(o.at("/environments/prod")).Is(204)
	o.as("ada").delete(o.at("")).Is(204)
	o.as("root").post("/projects", `{"name":"`+o.project+`"}`).Is(201)
	o.as("root").put(o.at("/members"), `{"members":[{"username":"eve","role":"owner"}]}`).Is(200)
	if got := o.audited("eve", "?from=2020-01-01"); !cmp.Equal(got, []string{"root project.set_members succeeded"}) {
		t.Errorf("new owner: got %v", got)
	}
	if got := o.audited("root", ""); len(got) != 4 {
		t.Errorf("admin: got %v", got)
	}
}

type brokenWebhooks struct {
	Cluster
	meanwhile func()
}

func (b brokenWebhooks) SetWebhookToken(context.Context, app.Ref, hook.Token) error {
	b.meanwhile()
	return problem.FromCode(problem.Unavailable)
}

// TestAuditOfTokens tests that the record is written before the change and completed afterwards.
func TestAuditOfTokens(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	query := "?resource=" + url.QueryEscape("projects/"+o.project+"/environments/prod/apps/hello/webhook")
	token := functest.Read[wire.Webhook](o.as("dev").post(o.apps("/hello/webhook"), ""), 200).Token
	o.as("dev").delete(o.apps("/hello/webhook")).Is(204)
	want := []string{"dev webhook.disable succeeded", "dev webhook.enable succeeded"}
	check.Equal(t, "records", want, o.audited("ada", query))
	o.service.cluster = brokenWebhooks{o.cluster, func() {
		if got := o.audited("ada", query+"&page_size=1"); !cmp.Equal(got, []string{"dev webhook.enable requested"}) {
			t.Errorf("during the change: got %v", got)
		}
	}}
	o.as("dev").post(o.apps("/hello/webhook"), "").Refused(503, "unavailable")
	if got := o.audited("ada", query+"&page_size=1"); !cmp.Equal(got, []string{"dev webhook.enable failed"}) {
		t.Errorf("after the change: got %v", got)
	}
	o.service.store = brokenRecords{o.store}
	o.service.cluster = brokenWebhooks{o.cluster, func() { t.Error("a token was changed without a record") }}
	o.as("dev").post(o.apps("/hello/webhook"), "").Refused(503, "unavailable")
	records := string(o.as("root").get(o.at("/audit")).Is(200).Body)
	if strings.Contains(records, *token) {
		t.Errorf("the records contain the token: %s", records)
	}
}

type brokenRecords struct{ *store.Store }

func (brokenRecords) Record(context.Context, audit.Change) (string, error) {
	return "", problem.FromCode(problem.Unavailable)
}
