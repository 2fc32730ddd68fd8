package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestRecordValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, json string
		want       recordValue
	}{
		{"text", `"a, b"`, recordValue{Text: "a, b"}},
		{"empty text", `""`, recordValue{Text: "empty", None: true}},
		{"nothing", `null`, recordValue{Text: "none", None: true}},
		{"yes", `true`, recordValue{Text: "yes"}},
		{"no", `false`, recordValue{Text: "no"}},
		{"number", `0.01`, recordValue{Text: "0.01"}},
		{"list", `["a","b"]`, recordValue{Text: "a, b"}},
		{"empty list", `[]`, recordValue{Text: "empty list", None: true}},
		{"object", `{"repository":"https://git.example/a.git","branch":"main","path":""}`, recordValue{Text: "branch main, repository https://git.example/a.git"}},
		{"long", `"` + strings.Repeat("ü", maxValue+7) + `"`, recordValue{Text: strings.Repeat("ü", maxValue), Cut: 7}},
	}
	for _, tt := range tests {
		fields, err := fieldsOf(json.RawMessage(`{"v":` + tt.json + `}`))
		check.OK(t, err)
		check.Equal(t, tt.name, tt.want, valueOf(fields["v"]))
	}
}

func TestRecordText(t *testing.T) {
	t.Parallel()
	const shop, prod = "projects/shop/", "projects/shop/environments/prod/"
	tests := []struct {
		action, resource, before, after, name string
		want, path                            string
	}{
		{"key.revoke", shop + "api-keys/key-ab12cd34", `{"status":"active"}`, `{"status":"revoked"}`, "Old integration", "revoked key Old integration", "environments/prod/api-keys/key-ab12cd34"},
		{"key.revoke", shop + "api-keys/key-ab12cd34", `{"status":"active"}`, `{"status":"revoked"}`, "", "revoked key key-ab12cd34", "environments/prod/api-keys/key-ab12cd34"},
		{"key.create", shop + "api-keys/key-ab12cd34", `null`, `{"name":"ci"}`, "", "created key ci", "environments/prod/api-keys/key-ab12cd34"},
		{"key.update", shop + "api-keys/key-ab12cd34", `{"status":"active"}`, `{"status":"disabled"}`, "ci", "disabled ci", "environments/prod/api-keys/key-ab12cd34"},
		{"key.update", shop + "api-keys/key-ab12cd34", `{"status":"disabled"}`, `{"status":"active"}`, "ci", "enabled ci", "environments/prod/api-keys/key-ab12cd34"},
		{"app.update", prod + "apps/hello", `{"require_api_key":false}`, `{"require_api_key":true}`, "", "turned on Require API key for hello", "environments/prod/apps/hello"},
		{"app.update", prod + "apps/hello", `{"require_api_key":true}`, `{"require_api_key":false}`, "", "turned off Require API key for hello", "environments/prod/apps/hello"},
		{"app.update", prod + "apps/hello", `{"preflight":"app"}`, `{"preflight":"refuse"}`, "", "changed app hello", "environments/prod/apps/hello"},
		{"app.update", prod + "apps/hello", `{"port":80}`, `{"port":81}`, "", "changed app hello", "environments/prod/apps/hello"},
		{"app.delete", prod + "apps/hello", `{"port":80}`, `null`, "", "deleted app hello", ""},
		{"webhook.enable", prod + "apps/hello/webhook", `null`, `null`, "", "created a webhook token for hello", "environments/prod/apps/hello"},
		{"webhook.trust", prod + "apps/hello/webhook/trusts/trust-k3xq7m2pza", `null`, `{"provider":"github"}`, "", "added a trusted pipeline to hello", "environments/prod/apps/hello"},
		{"deployment.create", prod + "apps/hello/deployments/7", `null`, `{"trigger":"webhook"}`, "", "deployed revision 7 of hello", "environments/prod/apps/hello/deploys"},
		{"deployment.create", prod + "apps/hello/deployments/7", `null`, `{"trigger":"rollback","source_revision":5}`, "", "rolled back to revision 5, as revision 7 of hello", "environments/prod/apps/hello/deploys"},
		{"build.request", prod + "apps/hello/builds/4", `null`, `{}`, "", "requested build 4 of hello", "environments/prod/apps/hello/builds"},
		{"plan.delete", prod + "plans/plan-gold", `{"name":"Gold"}`, `null`, "", "deleted plan Gold", ""},
		{"project.set_members", shop + "members", `{}`, `{}`, "", "changed the members ", "members"},
		{"project.update", shop + "settings", `{"leak_policy":"disable"}`, `{"leak_policy":"revoke"}`, "", "changed the project settings ", "settings"},
		{"key.leak", shop + "api-keys/key-ab12cd34", `{"status":"active"}`, `{"status":"disabled","found_at":"https://git.example.com/x"}`, "ci", "reported the leak of key ci", "environments/prod/api-keys/key-ab12cd34"},
		{"token.create", shop + "tokens/token-ab12cd34ef56", `null`, `{"name":"nightly"}`, "", "created service token nightly", "members"},
		{"request.explain", shop + "requests/7Q2Z", `null`, `null`, "", "searched for denied request 7Q2Z", "requests?id=7Q2Z"},
		{"environment.create", "projects/shop/environments/prod", `null`, `{}`, "", "created environment prod", ""},
		{"user.create", "users/ada", `null`, `{}`, "", "created user ada", ""},
		{"user.update", "users/ada", `{"state":"active"}`, `{"state":"deactivated"}`, "", "deactivated user ada", ""},
		{"user.update", "users/ada", `{"state":"deactivated"}`, `{"state":"active"}`, "", "activated user ada", ""},
		{"user.update", "users/ada", `{"admin":false}`, `{"admin":true}`, "", "granted admin rights to ada", ""},
		{"user.update", "users/ada", `{"admin":true}`, `{"admin":false}`, "", "revoked the admin rights of ada", ""},
		{"user.end_sessions", "users/ada", `{}`, `{}`, "", "ended all sessions of ada", ""},
		{"user.remove", "users/ada", `{}`, `null`, "", "removed user ada", ""},
		{"session.sign_in", "users/ada", `null`, `null`, "", "signed in ", ""},
	}
	for _, tt := range tests {
		r := request{environment: "prod"}
		row, err := r.recordRow(wire.Activity{
			AuditRecord: wire.AuditRecord{Action: tt.action, Resource: tt.resource, Old: json.RawMessage(tt.before), New: json.RawMessage(tt.after)},
			KeyName:     wire.Text(tt.name),
		})
		check.OK(t, err)
		path := tt.path
		if path != "" {
			path = at("projects", "shop") + "/" + path
		}
		if got := row.Did + " " + row.Thing; got != tt.want || row.Path != path {
			t.Errorf("%s of %s: got %q at %s, want %q at %s", tt.action, tt.resource, got, row.Path, tt.want, path)
		}
	}
}

func TestCallRecordText(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]wire.Activity{
		"A call to the webhook of hello":                            {Status: "ignored", Calls: 1},
		"A call without a valid token to the webhook of hello":      {Status: "unproven", Calls: 1},
		"1,234 calls without a valid token to the webhook of hello": {Status: "unproven", Calls: 1234},
	} {
		a.Action, a.Outcome, a.Resource = "webhook.call", "failed", "projects/shop/environments/prod/apps/hello/webhook"
		row, err := (&request{}).recordRow(a)
		if got := row.Who + " " + row.Did + " " + row.Thing; err != nil || got != want || row.Outcome.Text != "" {
			t.Errorf("got %q, %v, %v, want %q", got, row.Outcome, err, want)
		}
	}
}

func TestWithDenied(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	day := func(date string, denied uint64) wire.UsageDay {
		return wire.UsageDay{Date: date, UsageTotals: wire.UsageTotals{Allowed: 1, RateDenied: denied}}
	}
	week := []wire.UsageDay{day("2026-03-10", 1), day("2026-03-11", 2), day("2026-03-12", 3), day("2026-03-13", 0), day("2026-03-14", 5)}
	tests := []struct {
		name string
		days []string
		at   view.Paging
		want string
	}{
		{"complete list", []string{"2026-03-13", "2026-03-12"}, view.Paging{}, "Today 5, Yesterday 0, 12 March 2026 3, 11 March 2026 2, 10 March 2026 1"},
		{"no records", nil, view.Paging{}, "Today 5, 12 March 2026 3, 11 March 2026 2, 10 March 2026 1"},
		{"first page", []string{"2026-03-13", "2026-03-12"}, view.Paging{Next: "more"}, "Today 5, Yesterday 0, 12 March 2026 3"},
		{"middle page", []string{"2026-03-12", "2026-03-11"}, view.Paging{First: "f", Next: "more"}, "12 March 2026 0, 11 March 2026 2"},
		{"last page", []string{"2026-03-12", "2026-03-11"}, view.Paging{First: "f"}, "12 March 2026 0, 11 March 2026 2, 10 March 2026 1"},
	}
	for _, tt := range tests {
		var days []recordDay
		for _, date := range tt.days {
			days = append(days, recordDay{Title: view.RelativeDay(date, now), Date: date})
		}
		var got []string
		for _, d := range withDenied(days, week, tt.at, now) {
			got = append(got, d.Title+" "+view.Comma(d.Refused()))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, text, tt.want)
		}
	}
}
