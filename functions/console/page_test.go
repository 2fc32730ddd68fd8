package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const helloPath = "/console/projects/shop/environments/prod/apps/hello"

func (o *office) hello(gate string, message string) {
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello", 200, wire.App{
		Name: "hello", Project: "shop", Environment: "prod", Kind: "image", Image: "registry.example/hello:v1", URL: "http://hello.test",
		RequireAPIKey: gate != "ungated", Gate: wire.Gate{State: gate, Message: message}, Revision: 2,
	})
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/webhook", 200, wire.Webhook{})
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/webhook/trusts", 200, wire.List[wire.Trust]{})
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/deployments", 200, wire.List[wire.Deployment]{})
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/builds", 200, wire.List[wire.Build]{})
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.List[wire.Key]{})
}

func TestGateNotice(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("pending", "the probe got a 200")
	page := o.get(helloPath).Text()
	for _, want := range []string{`class="notice amber"`, "The gate is not in place yet.", "the probe got a 200", `hx-trigger="every 2s"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the pending page does not contain %q", want)
		}
	}
	_, rest, _ := strings.Cut(page, `hx-get="`)
	path, _, _ := strings.Cut(rest, `"`)
	if w := o.get(path); w.Status != http.StatusNoContent || len(w.Body) != 0 {
		t.Errorf("unchanged: got %d %s", w.Status, w.Body)
	}
	o.hello("pending", "the probe got a 404")
	o.get(path).Shows(http.StatusOK, "the probe got a 404")
	o.hello("engaged", "")
	w := o.get(path)
	if body := w.Text(); w.Status != 200 || strings.Contains(body, "amber") || strings.Contains(body, "hx-get") || !strings.Contains(body, "API key required") {
		t.Errorf("engaged: got %d %s", w.Status, body)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		role      string
		developer bool
	}{{"viewer", false}, {"developer", true}, {"owner", true}}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.hello("ungated", "")
			o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: tt.role})
			page := o.get(helloPath+"/settings").Text() + o.get(helloPath).Text()
			for _, button := range []string{"Enable webhook", `role="switch"`, "Delete app", "Connect a git source"} {
				if strings.Contains(page, button) != tt.developer {
					t.Errorf("%s: got %t, want %t", button, !tt.developer, tt.developer)
				}
			}
		})
	}
}

// TestFormsNeedTheirRole checks that users see no form that they cannot submit.
func TestFormsNeedTheirRole(t *testing.T) {
	t.Parallel()
	const project, prod = "/console/projects/shop", "/console/projects/shop/environments/prod"
	tests := map[string][]string{
		"developer": {
			project + "/requests", prod + "/plans/new", prod + "/plans/plan-gold/edit", prod + "/plans/plan-gold/edit/preview", prod + "/plans/plan-gold/delete",
			prod + "/api-keys/new", prod + "/api-keys/key-ab12cd34/edit", prod + "/api-keys/key-ab12cd34/disable", prod + "/api-keys/key-ab12cd34/revoke", prod + "/api-keys/key-ab12cd34/rotate",
			prod + "/new-app", helloPath + "/delete", helloPath + "/new-deploy", helloPath + "/new-build", helloPath + "/deploys/1/rollback", helloPath + "/promote", helloPath + "/promote/staging",
			helloPath + "/gate", helloPath + "/gate?require=on", helloPath + "/settings/git", helloPath + "/settings/git/remove", helloPath + "/settings/address", helloPath + "/settings/preflight",
			helloPath + "/settings/webhook/regenerate", helloPath + "/settings/webhook/disable", helloPath + "/settings/webhook/trusts", helloPath + "/settings/webhook/trusts/trust-aaaaaaaaaa/remove",
		},
		"owner": {
			project + "/delete", project + "/settings", project + "/tokens/new", project + "/tokens/token-000000000001/revoke", project + "/members/ada/remove",
			project + "/new-environment", prod + "/delete",
		},
		"admin": {"/console/new-user", "/console/users/bob/deactivate", "/console/users/bob/password", "/console/users/bob/remove", "/console/new-project", "/console/hosts/hello.example.com/release"},
	}
	roles := []string{"viewer", "developer", "owner", "admin"}
	for need, paths := range tests {
		for _, role := range roles {
			o := newOffice(t)
			o.hello("ungated", "")
			o.goldPlan("soft")
			o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada", Admin: role == "admin"}})
			o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: strings.Replace(role, "admin", "owner", 1)})
			for _, path := range paths {
				allowed := slices.Index(roles, role) >= slices.Index(roles, need)
				if w := o.get(path); (w.Status != http.StatusForbidden) != allowed {
					t.Errorf("%s as %s: got %d", path, role, w.Status)
				}
			}
		}
	}
}

// TestOneBannerForAChange checks that a saved change has one banner, which contains its propagation.
func TestOneBannerForAChange(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.goldPlan("soft")
	const change = "/api/v1/projects/shop/changes/change-1"
	read := func() string {
		return o.get(plansPath+"/plan-gold?change=change-1", func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: noticeCookie, Value: strconv.Itoa(int(noticePlanChanged))})
		}).Text()
	}
	for _, want := range []string{"Every checker applies it.", "Not every checker has confirmed it yet."} {
		o.answer("GET "+change, 200, wire.InForce{Change: "change-1", Everywhere: strings.HasPrefix(want, "Every"), Replicas: []wire.ReplicaInForce{{Replica: "checker-0"}}})
		if page := read(); strings.Count(page, `class="notice`) != 1 || !strings.Contains(page, "<strong>Plan saved.</strong> "+want) {
			t.Errorf("%s: got the page %s", want, page)
		}
	}
	w := o.get("/console/projects/shop/changes/change-1")
	if w.Shows(200, "Change saved."); strings.Count(w.Text(), `class="notice`) != 1 {
		t.Errorf("the part has more than one banner: %s", w.Body)
	}
	o.refuse("GET "+change, 404, "not_found")
	if page := read(); strings.Count(page, `class="notice`) != 1 || !strings.Contains(page, "Plan saved.") {
		t.Errorf("unknown change: got the page %s", page)
	}
}

// TestMissingDigestIsShownOnce checks that only the current revision has a badge for a missing digest.
func TestMissingDigestIsShownOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	var all []wire.Deployment
	for n := int64(50); n > 0; n-- {
		all = append(all, wire.Deployment{Revision: n, Image: "registry.example/hello:v1", Status: "superseded", Current: n == 50, NoDigest: "The registry returned 404."})
	}
	o.answer("GET "+apiHello+"/deployments", 200, wire.List[wire.Deployment]{Items: all})
	page := o.get(helloPath + "/deploys").Text()
	if badges, reasons := strings.Count(page, ">No digest<"), strings.Count(page, "None: The registry returned 404."); badges != 1 || reasons != 50 {
		t.Errorf("got %d badges and %d reasons, want 1 and 50", badges, reasons)
	}
}

func TestErrorPages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		code   string
		want   int
		says   string
	}{
		{"not found", 404, "not_found", 404, "Page not found"},
		{"forbidden", 403, "forbidden", 403, "Access denied"},
		{"rate limited", 429, "rate_limited", 429, "Try again"},
		{"internal error", 500, "internal", 502, "Management API unavailable"},
		{"unavailable", 503, "unavailable", 502, "Management API unavailable"},
		{"error of a proxy", 502, "", 502, "Management API unavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.refuse("GET /api/v1/projects/shop/environments/prod/apps/hello", tt.status, tt.code)
			w := o.get(helloPath + "/new-deploy")
			w.Shows(tt.want, tt.says)
		})
	}
}

const plansPath = "/console/projects/shop/environments/prod/plans"

// goldPlan sets the responses about a plan. An empty mode means no quota.
func (o *office) goldPlan(mode string) {
	p := wire.Plan{ID: "plan-gold", Name: "Gold", Rate: 10, Burst: 20}
	if mode != "" {
		quota, period := int64(10_000), "day"
		p.Quota, p.QuotaPeriod, p.QuotaMode = &quota, &period, &mode
	}
	const plans = "/api/v1/projects/shop/environments/prod/plans"
	o.answer("GET "+plans, 200, wire.List[wire.Plan]{Items: []wire.Plan{p}})
	o.answer("GET "+plans+"/plan-gold", 200, p)
	o.answer("POST "+plans, 201, p)
	o.answer("PATCH "+plans+"/plan-gold", 200, p)
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.List[wire.Key]{Items: []wire.Key{}})
}

func TestQuotaMode(t *testing.T) {
	t.Parallel()
	for mode, quota := range map[string]string{"hard": ">10,000 per day, hard<", "soft": ">10,000 per day<", "": ">None<"} {
		o := newOffice(t)
		o.goldPlan(mode)
		for _, path := range []string{plansPath, plansPath + "/plan-gold"} {
			o.get(path).Shows(200, quota)
		}
		chosen := `<option value="soft" selected>`
		if mode == "hard" {
			chosen = `<option value="hard" selected>`
		}
		if w := o.get(plansPath + "/plan-gold/edit"); !strings.Contains(w.Text(), chosen) {
			t.Errorf("mode %q: the form does not contain %s: %d %s", mode, chosen, w.Status, w.Body)
		}
	}
}

func TestQuotaModeIsSent(t *testing.T) {
	t.Parallel()
	const create, edit = "", "/plan-gold/edit"
	tests := []struct {
		name, path, stored  string // stored: previous mode of the plan
		quota, period, mode string
		want                string // body; "" means no call
	}{
		{"new, hard", create, "", "5", "day", "hard", `{"name":"Gold","rate":10,"burst":20,"quota":5,"quota_period":"day","quota_mode":"hard"}`},
		{"new, without a quota", create, "", "", "", "hard", `{"name":"Gold","rate":10,"burst":20}`},
		{"soft to hard", edit, "soft", "10000", "day", "hard", `{"quota_mode":"hard"}`},
		{"hard to soft", edit, "hard", "10000", "day", "soft", `{"quota_mode":"soft"}`},
		{"another quota", edit, "hard", "5", "day", "hard", `{"quota":5,"quota_period":"day"}`},
		{"quota removed", edit, "hard", "", "", "hard", `{"quota":null,"quota_period":null}`},
		{"quota removed, other mode", edit, "hard", "", "", "soft", `{"quota":null,"quota_period":null}`},
		{"hard quota added", edit, "", "5", "day", "hard", `{"quota":5,"quota_period":"day","quota_mode":"hard"}`},
		{"soft quota added", edit, "", "5", "day", "soft", `{"quota":5,"quota_period":"day"}`},
		{"mode without a quota", edit, "", "", "", "hard", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.goldPlan(tt.stored)
			was := url.Values{"was_name": {"Gold"}, "was_rate": {"10"}, "was_burst": {"20"}, "was_quota_mode": {"soft"}}
			if tt.stored != "" {
				was["was_quota"], was["was_quota_period"], was["was_quota_mode"] = []string{"10000"}, []string{"day"}, []string{tt.stored}
			}
			for name, value := range map[string]string{"name": "Gold", "rate": "10", "burst": "20", "quota": tt.quota, "quota_period": tt.period, "quota_mode": tt.mode} {
				was.Set(name, value)
			}
			w := o.post(plansPath+tt.path, was)
			var got string
			if made := o.changes(); len(made) > 0 {
				got = made[0][strings.Index(made[0], "{"):]
			}
			if w.Status != http.StatusSeeOther || got != tt.want {
				t.Errorf("got %d, body %s, want %s", w.Status, got, tt.want)
			}
		})
	}
}

func TestRejectedForm(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.refuse("POST /api/v1/projects/shop/environments/prod/apps", 422, "invalid_image")
	w := o.post("/console/projects/shop/environments/prod/apps", url.Values{"name": {"<hello>"}, "image": {"a b"}})
	body := w.Text()
	for _, want := range []string{
		`value="&lt;hello&gt;"`, `value="a b"`, `<p class="error" id="e-image">The API says invalid_image.</p>`, `aria-invalid="true"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the form does not contain %s", want)
		}
	}
	w.Shows(422)
	o.refuse("POST /api/v1/projects/shop/environments/prod/apps", 500, "")
	w = o.post("/console/projects/shop/environments/prod/apps", url.Values{"name": {"hello"}, "image": {"a:b"}})
	if !strings.Contains(w.Text(), "the result is unknown") || !strings.Contains(w.Text(), `value="hello"`) {
		t.Errorf("lost response: got %d %s", w.Status, w.Body)
	}
}

func TestDeletionNeedsName(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	o.answer("DELETE /api/v1/projects/shop/environments/prod/apps/hello", 204, nil)
	o.post(helloPath+"/delete", url.Values{"name": {"Hello"}})
	o.post(helloPath+"/delete", nil)
	if got := o.changes(); len(got) != 0 {
		t.Errorf("without the name: got the calls %q", got)
	}
	w := o.post(helloPath+"/delete", url.Values{"name": {"hello"}})
	if diff := cmp.Diff([]string{"DELETE /api/v1/projects/shop/environments/prod/apps/hello "}, o.changes()); diff != "" || w.Status != 303 {
		t.Errorf("got %d; calls (-want +got):\n%s", w.Status, diff)
	}
}

func TestDeletedAppWithKeys(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("DELETE /api/v1/projects/shop/environments/prod/apps/hello", 200, wire.DeletedApp{KeyCount: 3, Keys: []wire.NarrowedKey{
		{KeyID: "key-ab12cd34", Name: "Checkout", Scope: "none"}, {KeyID: "key-zz99yy88", Apps: []string{"other"}, Scope: "apps"},
	}})
	body := o.post(helloPath+"/delete", url.Values{"name": {"hello"}}).Text()
	for _, want := range []string{`api-keys/key-ab12cd34">Checkout</a> <span class="muted">No apps`, `api-keys/key-zz99yy88">key-zz99yy88</a> <span class="muted">other`, "Keys that are not listed here: 1."} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q: %s", want, body)
		}
	}
}

func TestKeyWithoutApps(t *testing.T) {
	t.Parallel()
	const api, page = "/api/v1/projects/shop/api-keys/key-ab12cd34", "/console/projects/shop/environments/prod/api-keys/key-ab12cd34/edit"
	o := newOffice(t)
	key := wire.Key{ID: "key-ab12cd34", Prefix: "ab12cd34", Project: "shop", Environment: "prod", Plan: "plan-gold", Name: "ci", Scope: "none", Status: "active"}
	o.goldPlan("soft")
	o.answer("GET "+api, 200, key)
	o.answer("PATCH "+api, 200, key)
	o.answer("GET /api/v1/projects/shop/environments/prod/plans", 200, wire.List[wire.Plan]{Items: []wire.Plan{{ID: "plan-gold", Name: "Gold"}}})
	o.answer("GET /api/v1/projects/shop/environments/prod/apps", 200, wire.List[wire.App]{})
	if body := o.get(page).Text(); !strings.Contains(body, `value="none" checked`) {
		t.Errorf("the form does not show that the key covers no app: %s", body)
	}
	typed := url.Values{"name": {"new"}, "plan": {"plan-gold"}, "scope": {"none"}, "was_name": {"ci"}, "was_plan": {"plan-gold"}, "was_apps": {"-"}, "was_expires_at": {""}}
	w := o.post(page, typed)
	if diff := cmp.Diff([]string{"PATCH " + api + ` {"name":"new"}`}, o.changes()); diff != "" || w.Status != 303 {
		t.Errorf("got %d; calls (-want +got):\n%s", w.Status, diff)
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	for n := noticeNone + 1; n <= noticeNothingChanged; n++ {
		if n.text() == "" {
			t.Errorf("notice %d has no text", n)
		}
	}
	o := newOffice(t)
	o.answer("GET /api/v1/projects", 200, map[string]any{"items": []any{}})
	for value, want := range map[string]bool{"1": true, "0": false, "9999": false, "-1": false, "<b>": false} {
		w := o.get("/console/projects", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: noticeCookie, Value: value}) })
		if got := strings.Contains(w.Text(), `class="notice good"`); got != want {
			t.Errorf("notice %q is shown: got %t, want %t", value, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  Config
		ok   bool
	}{
		{"valid", Config{APIURL: "https://sluice.example.com", Timeout: time.Second}, true},
		{"no URL", Config{Timeout: time.Second}, false},
		{"with the API's path", Config{APIURL: "https://sluice.example.com/api/v1", Timeout: time.Second}, false},
		{"with a password", Config{APIURL: "https://a:b@sluice.example.com", Timeout: time.Second}, false},
		{"another scheme", Config{APIURL: "file:///x", Timeout: time.Second}, false},
		{"no timeout", Config{APIURL: "http://api"}, false},
	}
	for _, tt := range tests {
		if err := tt.cfg.check(); (err == nil) != tt.ok {
			t.Errorf("%s: got the error %v", tt.name, err)
		}
	}
}

func TestRollbackWithoutADigest(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"No registry was asked.", "The registry answered 404.", ""} {
		o := newOffice(t)
		o.hello("ungated", "")
		then := wire.Deployment{Revision: 1, Image: "registry.example/hello:v1", Status: "superseded", NoDigest: wire.Text(reason)}
		o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/deployments", 200,
			wire.List[wire.Deployment]{Items: []wire.Deployment{{Revision: 2, Image: "registry.example/hello:v2", Status: "live", Current: true}, then}})
		o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/deployments/1", 200, then)
		page := o.get(helloPath + "/deploys/1/rollback").Text()
		if !strings.Contains(page, "Roll hello back to revision 1?") || !strings.Contains(page, reason) {
			t.Errorf("the page does not contain %q: %s", reason, page)
		}
		if strings.Contains(page, "could not be asked") || strings.Contains(page, "refers to now") != (reason != "") {
			t.Errorf("reason %q: got the page %s", reason, page)
		}
	}
}

// TestPromotion checks that the list, the confirmation and the call name one revision: the newest
// that was ready when the list was shown.
func TestPromotion(t *testing.T) {
	t.Parallel()
	const prod, staging, idle = "/api/v1/projects/shop/environments/prod/apps/hello", "/api/v1/projects/shop/environments/staging/apps/hello", "/api/v1/projects/shop/environments/idle/apps/hello"
	o := newOffice(t)
	o.hello("ungated", "")
	ready := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	revision := func(n int64, at *time.Time) wire.Deployment {
		return wire.Deployment{Revision: n, Image: fmt.Sprintf("registry.example/hello:v%d", n), ReadyAt: at, Current: n == 3}
	}
	o.answer("GET /api/v1/projects/shop/environments", 200, wire.List[wire.Environment]{Items: []wire.Environment{{Name: "prod"}, {Name: "staging"}, {Name: "idle"}, {Name: "empty"}}})
	o.answer("GET "+prod+"/deployments", 200, wire.List[wire.Deployment]{Items: []wire.Deployment{revision(3, nil)}})
	o.answer("GET "+staging+"/deployments", 200, wire.List[wire.Deployment]{Items: []wire.Deployment{revision(3, nil), revision(2, &ready), revision(1, &ready)}})
	o.answer("GET "+staging+"/deployments/2", 200, revision(2, &ready))
	o.answer("GET "+staging+"/deployments/3", 200, revision(3, nil))
	o.answer("GET "+idle+"/deployments", 200, wire.List[wire.Deployment]{Items: []wire.Deployment{revision(1, nil)}})

	list := o.get(helloPath + "/promote").Text()
	const link = helloPath + "/promote/staging?revision=2"
	if !strings.Contains(list, `href="`+link+`"`) || !strings.Contains(list, "revision 2") || strings.Contains(list, "hello:v3</code>") || strings.Contains(list, "promote/idle") || strings.Contains(list, "promote/empty") {
		t.Errorf("list: got %s", list)
	}
	// A newer revision becomes ready after the list was shown.
	o.answer("GET "+staging+"/deployments", 200, wire.List[wire.Deployment]{Items: []wire.Deployment{revision(4, &ready), revision(3, nil), revision(2, &ready)}})
	o.get(link).Shows(200, "with the image of revision 2 in staging.")
	o.get(helloPath+"/promote/staging").Shows(200, "with the image of revision 4 in staging.")
	for _, revision := range []string{"3", "9", "0", "x"} {
		o.get(helloPath + "/promote/staging?revision=" + revision).Shows(404)
	}

	fields := url.Values{"current": {"3"}, "revision": {"2"}, "once": {strings.Repeat("A", 26)}}
	o.refuse("POST "+prod+"/promote", 409, "revision_not_live")
	o.post(helloPath+"/promote/staging", fields).Shows(409, "with the image of revision 2 in staging.")
	o.post(helloPath+"/promote/staging", url.Values{"current": {"3"}, "once": fields["once"]}).Shows(404)
	want := []string{"POST " + prod + `/promote {"from_environment":"staging","revision":2}`}
	check.Equal(t, "calls", want, o.changes())
}
