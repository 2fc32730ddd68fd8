package tests

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	table "github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// change is a state-changing call and its audit record.
type change struct {
	route    string // pattern, as in the metrics
	body     string // with the {placeholders} of the route
	action   string
	resource string // below the project unless it begins with "/"
}

const (
	projectPath     = "/api/v1/projects/{project}"
	environmentPath = projectPath + "/environments/{environment}"
	appPath         = environmentPath + "/apps/{app}"
	keyPath         = projectPath + "/api-keys/{key_id}"
)

// changes returns every state-changing call, in an order in which each succeeds.
func changes() []change {
	return []change{
		{"POST /api/v1/users", `{"username":"{username}","password":"{secret}-first"}`, "user.create", "/users/{username}"},
		{"PUT /api/v1/users/{username}/password", `{"password":"{secret}-second"}`, "user.change_password", "/users/{username}"},
		{"POST /api/v1/session", `{"username":"{username}","password":"{secret}-second"}`, "session.sign_in", "/users/{username}"},
		{"DELETE /api/v1/session", "", "session.sign_out", "/users/{username}"},
		{"POST /api/v1/session", `{"username":"{username}","password":"{secret}-second"}`, "session.sign_in", "/users/{username}"},
		{"DELETE /api/v1/session/all", "", "user.end_sessions", "/users/{username}"},
		{"DELETE /api/v1/users/{username}/sessions", "", "user.end_sessions", "/users/{username}"},
		{"PATCH /api/v1/users/{username}", `{"admin":true}`, "user.update", "/users/{username}"},
		{"PATCH /api/v1/users/{username}", `{"admin":false,"state":"deactivated"}`, "user.update", "/users/{username}"},
		{"PATCH /api/v1/users/{username}", `{"state":"active"}`, "user.update", "/users/{username}"},
		{"POST /api/v1/projects", `{"name":"{project}"}`, "project.create", "/projects/{project}"},
		{"PATCH " + projectPath, `{"leak_policy":"revoke"}`, "project.update", "settings"},
		{"PATCH " + projectPath, `{"leak_policy":"disable"}`, "project.update", "settings"},
		{"PUT " + projectPath + "/members", `{"members":[{"username":"admin","role":"owner"},{"username":"{username}","role":"viewer"}]}`, "project.set_members", "members"},
		{"DELETE " + projectPath + "/members/{username}", "", "project.set_members", "members"},
		{"POST " + projectPath + "/tokens", `{"name":"nightly","role":"developer"}`, "token.create", "tokens/{token_id}"},
		{"DELETE " + projectPath + "/tokens/{token_id}", "", "token.revoke", "tokens/{token_id}"},
		{"POST " + projectPath + "/environments", `{"name":"{environment}"}`, "environment.create", "environments/{environment}"},
		{"POST " + environmentPath + "/plans", `{"name":"audited","rate":1,"burst":1}`, "plan.create", "environments/{environment}/plans/plan-audited"},
		{"PATCH " + environmentPath + "/plans/{plan_id}", `{"rate":2}`, "plan.update", "environments/{environment}/plans/plan-audited"},
		{"POST " + environmentPath + "/api-keys", `{"plan":"plan-audited"}`, "key.create", "api-keys/{key_id}"},
		{"PATCH " + keyPath, `{"status":"disabled"}`, "key.update", "api-keys/{key_id}"},
		{"PATCH " + keyPath, `{"status":"active"}`, "key.update", "api-keys/{key_id}"},
		{"POST " + environmentPath + "/api-keys/bulk", `{"keys":["{key_id}"],"change":{"add_tags":["audited"]}}`, "key.update", "api-keys/{key_id}"},
		{"POST " + keyPath + "/rotate", `{"grace":"0s"}`, "key.rotate", "api-keys/{key_id}"},
		{"POST /api/v1/leaks", `[{"token":"{full_key}","type":"sluice_api_key","url":"https://git.example.com/x?key={full_key}","source":"commit"}]`, "key.leak", "api-keys/{key_id}"},
		{"POST " + keyPath + "/rotate", `{}`, "key.rotate", "api-keys/{key_id}"},
		{"POST /api/v1/leaks/report", `{"key":"{full_key}"}`, "key.leak", "api-keys/{key_id}"},
		{"POST " + keyPath + "/revoke", `{}`, "key.revoke", "api-keys/{key_id}"},
		{"DELETE " + environmentPath + "/plans/{plan_id}", "", "plan.delete", "environments/{environment}/plans/plan-audited"},
		{"POST " + environmentPath + "/apps", `{"name":"{app}","image":"registry.example/echo:v1"}`, "app.create", "environments/{environment}/apps/{app}"},
		{"PATCH " + appPath, `{"require_api_key":true}`, "app.update", "environments/{environment}/apps/{app}"},
		{"PATCH " + appPath, `{"preflight":"refuse"}`, "app.update", "environments/{environment}/apps/{app}"},
		{"POST " + appPath + "/deployments", `{"image":"registry.example/echo:v2"}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/2"},
		{"POST " + appPath + "/rollback", `{"revision":1}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/3"},
		{"POST " + projectPath + "/environments", `{"name":"next"}`, "environment.create", "environments/next"},
		{"POST " + projectPath + "/environments/next/apps", `{"name":"{app}","image":"registry.example/echo:v0"}`, "app.create", "environments/next/apps/{app}"},
		{"POST " + projectPath + "/environments/next/apps/{app}/promote", `{"from_environment":"{environment}"}`, "deployment.create", "environments/next/apps/{app}/deployments/2"},
		{"POST " + appPath + "/webhook", "", "webhook.enable", "environments/{environment}/apps/{app}/webhook"},
		{"POST /api/v1/webhook/{namespace}/{app}", `{"image":"registry.example/echo:v4"}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/4"},
		{"PUT " + appPath + "/git-source", `{"repository":"https://git.example/once.git","branch":"main"}`, "app.update", "environments/{environment}/apps/{app}"},
		{"POST /api/v1/webhook/{namespace}/{app}", `{"commit":"abc1234"}`, "build.request", "environments/{environment}/apps/{app}/builds/1"},
		{"POST " + appPath + "/builds", `{"commit":"abc1234"}`, "build.request", "environments/{environment}/apps/{app}/builds/2"},
		{"DELETE " + appPath + "/git-source", "", "app.update", "environments/{environment}/apps/{app}"},
		{"POST " + appPath + "/webhook/trusts", `{"issuer":"{issuer}","claims":{"repository":"org/repo"}}`, "webhook.trust", "environments/{environment}/apps/{app}/webhook/trusts/{trust_id}"},
		{"DELETE " + appPath + "/webhook/trusts/{trust_id}", "", "webhook.distrust", "environments/{environment}/apps/{app}/webhook/trusts/{trust_id}"},
		{"DELETE " + appPath + "/webhook", "", "webhook.disable", "environments/{environment}/apps/{app}/webhook"},
		{"DELETE " + appPath, "", "app.delete", "environments/{environment}/apps/{app}"},
		{"DELETE /api/v1/host-reservations/{host}", "", "host.release", "/host-reservations/{host}"},
		{"DELETE " + projectPath + "/environments/next/apps/{app}", "", "app.delete", "environments/next/apps/{app}"},
		{"DELETE " + projectPath + "/environments/next", "", "environment.delete", "environments/next"},
		{"DELETE " + environmentPath, "", "environment.delete", "environments/{environment}"},
		{"DELETE " + projectPath, "", "project.delete", "/projects/{project}"},
		{"DELETE /api/v1/users/{username}", "", "user.remove", "/users/{username}"},
	}
}

// auditor makes the changes. No record may contain its secrets.
type auditor struct {
	*stacktest.Site
	names   map[string]string
	secrets []string

	admin, user, hook string // tokens
}

// TestEveryChangeIsRecorded makes every state-changing call that the metrics of the functions
// list.
func TestEveryChangeIsRecorded(t *testing.T) {
	stacktest.Insides(t, "it reads the metrics of every function, including those that a cluster has scaled to zero")
	t.Parallel()
	s := stacktest.New(t, world)
	suffix := strings.ToLower(rand.Text()[:8])
	a := &auditor{Site: s, names: map[string]string{
		"project": "audit" + suffix, "environment": "prod", "namespace": "audit" + suffix + "-prod", "app": "hello", "host": "hello.audit" + suffix + "-prod.localhost",
		"plan_id": "plan-audited", "issuer": world.Info().IssuerURL, "username": "u" + suffix, "secret": "pass-" + rand.Text(),
	}}
	a.secrets = append(a.secrets, a.names["secret"])
	session, err := client.New(world.Info().BaseURL).SignIn(t.Context(), world.Info().Admin.Username, world.Info().Admin.Password)
	check.OK(t, err)
	a.admin = string(session.Token)
	made := map[string]bool{}
	for _, c := range changes() {
		if strings.HasSuffix(c.route, "/promote") { // promotes only a revision that had a ready pod
			prod := *s
			prod.Project, prod.Env = a.names["project"], a.names["environment"]
			prod.Settled(a.names["app"], 3, "live")
		}
		made[strings.NewReplacer("environments/next", "environments/{environment}").Replace(c.route)] = true
		a.make(c)
	}
	for _, route := range stateChangingRoutes(t) {
		if !made[route] {
			t.Errorf("changes() lacks the state-changing route %s", route)
		}
	}
	for name, text := range s.Documents() {
		for _, secret := range a.secrets {
			if strings.Contains(name, "/audit/") && strings.Contains(text, secret) {
				t.Errorf("%s contains a secret: %s", name, text)
			}
		}
	}
}

// stateChangingRoutes reads the routes from the metrics.
func stateChangingRoutes(t *testing.T) []string {
	t.Helper()
	series := regexp.MustCompile(`sluice_http_request_duration_seconds_count\{route="((?:POST|PUT|PATCH|DELETE) /api/v1/[^"]*)"\}`)
	var routes []string
	for _, url := range world.Info().Metrics {
		for _, found := range series.FindAllStringSubmatch(stacktest.Get(t, url).Body, -1) {
			switch found[1] {
			case table.FindKey.Pattern(), table.TestWebhook.Pattern(), table.ForecastPlan.Pattern(): // change no state
			case table.ReleaseQuota.Pattern(): // needs a lost checker; see TestReleaseLeases of package store
			default:
				routes = append(routes, found[1])
			}
		}
	}
	if len(routes) < 25 {
		t.Fatalf("routes: got %d, want at least 25: %v", len(routes), routes)
	}
	return routes
}

func (a *auditor) fill(text string) string {
	for name, value := range a.names {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (a *auditor) make(c change) {
	a.T.Helper()
	id := "audit-" + rand.Text()
	method, path, _ := strings.Cut(c.route, " ")
	req, err := http.NewRequestWithContext(a.T.Context(), method, world.Info().BaseURL+a.fill(path), strings.NewReader(a.fill(c.body)))
	check.OK(a.T, err)
	actor := a.sign(req, c)
	req.Header.Set("X-Request-Id", id)
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	check.OK(a.T, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 || res.Header.Get("X-Request-Id") != id {
		a.T.Fatalf("%s: got %d %s, request ID %q, %v; want success, request ID %q", c.route, res.StatusCode, body, res.Header.Get("X-Request-Id"), err, id)
	}
	a.saveResponse(c, body)
	a.check(c, id, actor)
}

// sign adds credentials to the request of a change and returns their owner.
func (a *auditor) sign(req *http.Request, c change) wire.AuditActor {
	user := wire.AuditActor{Kind: "user", Name: a.names["username"]}
	switch {
	case c.route == "POST /api/v1/session":
		return user
	case c.route == "DELETE /api/v1/session", c.route == "DELETE /api/v1/session/all":
		req.Header.Set("Authorization", "Bearer "+a.user)
		return user
	case c.route == table.ReportLeaks.Pattern():
		head := scanner.Sign(a.T, scannersKey, a.fill(c.body))
		maps.Copy(req.Header, head)
		return wire.AuditActor{Kind: "program", Name: "program:" + scanner.Name}
	case strings.Contains(c.route, "/webhook/{namespace}"):
		req.Header.Set("X-Service-Token", a.hook)
		return wire.AuditActor{Kind: "webhook", Name: "webhook"}
	}
	req.Header.Set("Authorization", "Bearer "+a.admin)
	return wire.AuditActor{Kind: "user", Name: world.Info().Admin.Username}
}

func (a *auditor) saveResponse(c change, body []byte) {
	a.T.Helper()
	var response struct{ ID, Key, Token string }
	if len(bytes.TrimSpace(body)) == 0 {
		return
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return // a list
	}
	const marker = len("sluice_12345678_")
	switch {
	case response.Key != "":
		a.names["key_id"], a.names["full_key"] = response.ID, response.Key
		a.secrets = append(a.secrets, response.Key[marker:])
	case c.action == "session.sign_in":
		a.user = response.Token
		a.secrets = append(a.secrets, response.Token[len(response.Token)-40:])
	case c.action == "token.create":
		a.names["token_id"] = response.ID
		a.secrets = append(a.secrets, response.Token[len("sluice_st_123456789012_"):])
	case c.action == "webhook.trust":
		a.names["trust_id"] = response.ID
	case c.action == "webhook.enable":
		a.hook = response.Token
		a.secrets = append(a.secrets, response.Token)
	}
}

func (a *auditor) check(c change, id string, actor wire.AuditActor) {
	a.T.Helper()
	resource, of := a.fill(c.resource), a.names["project"]
	list := a.Client.Audit
	if rest, ok := strings.CutPrefix(resource, "/"); ok {
		resource, of = rest, ""
	} else {
		resource = "projects/" + of + "/" + resource
	}
	q := client.AuditQuery{Action: c.action, Resource: resource}
	var records []wire.AuditRecord
	var err error
	if of == "" {
		records, err = client.Collect(a.Client.InstallationAudit(a.T.Context(), q))
	} else {
		records, err = client.Collect(list(a.T.Context(), of, q))
	}
	check.OK(a.T, err)
	records = slices.DeleteFunc(records, func(r wire.AuditRecord) bool { return r.RequestID != id })
	if len(records) != 1 {
		a.T.Errorf("%s: got %d records, want 1", c.route, len(records))
		return
	}
	r := records[0]
	local := r.ClientAddress == "127.0.0.1" || r.ClientAddress == "::1"
	if r.Actor != actor || !local || r.Outcome != "succeeded" || r.Project != of || r.Resource != resource || r.At.IsZero() {
		a.T.Errorf("%s: got the record %+v, want actor %+v, resource %s", c.route, r, actor, resource)
	}
}

func TestAuditLogAccess(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	password := "pass-" + rand.Text()
	as := map[string]*client.Client{}
	members := []wire.Member{{Username: world.Info().Admin.Username, Role: "owner"}}
	for _, role := range []string{"owner", "developer", "viewer", "outsider"} {
		name := strings.ToLower(role[:3] + rand.Text()[:8])
		if _, err := s.Client.CreateUser(t.Context(), name, password, false); err != nil {
			t.Fatal(err)
		}
		if role != "outsider" {
			members = append(members, wire.Member{Username: name, Role: role})
		}
		as[role] = stacktest.SignIn(t, world, name, password)
	}
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, members))
	for role, c := range as {
		records, err := client.Collect(c.Audit(t.Context(), s.Project, client.AuditQuery{}))
		if role == "owner" {
			if err != nil || len(records) != 2 { // the environment and the members
				t.Errorf("owner: got %d records, %v, want 2", len(records), err)
			}
		} else if !client.HasCode(err, "forbidden") {
			t.Errorf("%s: got %v, want forbidden", role, err)
		}
		if _, err := client.Collect(c.InstallationAudit(t.Context(), client.AuditQuery{})); !client.HasCode(err, "forbidden") {
			t.Errorf("%s, records of the installation: got %v, want forbidden", role, err)
		}
	}
	if _, err := client.New(world.Info().BaseURL).SignIn(t.Context(), members[1].Username, password+"x"); !client.HasCode(err, "invalid_credentials") {
		t.Fatal(err)
	}
	failed, err := client.Collect(s.Client.InstallationAudit(t.Context(), client.AuditQuery{Actor: members[1].Username, Action: "session.sign_in"}))
	if err != nil || len(failed) != 2 || failed[0].Outcome != "failed" || failed[1].Outcome != "succeeded" {
		t.Errorf("sign-ins of the owner: got %+v, %v, want a failed and a successful one", failed, err)
	}
}

// TestConsoleRecordsClientAddress makes changes in the console and, with a forged header of the
// console, through the API. The records must have the client's address.
func TestConsoleRecordsClientAddress(t *testing.T) {
	stacktest.Insides(t, "it connects from two addresses of this machine")
	t.Parallel()
	const browser = "127.0.0.77"
	s := stacktest.New(t, world)
	info := world.Info()
	session, err := client.New(info.BaseURL).SignIn(t.Context(), info.Admin.Username, info.Admin.Password)
	check.OK(t, err)
	who, err := client.New(info.BaseURL).WithToken(session.Token).WhoAmI(t.Context())
	check.OK(t, err)
	from := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(browser)}}).DialContext},
	}
	send := func(address, contentType, body string, head ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		check.OK(t, err)
		req.Header.Set("Content-Type", contentType)
		for i := 0; i < len(head); i += 2 {
			req.Header.Set(head[i], head[i+1])
		}
		res, err := from.Do(req)
		check.OK(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusSeeOther && res.StatusCode != http.StatusCreated {
			t.Fatalf("%s: got %d, want 303 or 201", address, res.StatusCode)
		}
	}
	form := url.Values{"csrf": {who.CSRFToken}, "name": {"clicked"}}
	base := strings.Replace(info.BaseURL, "localhost", "127.0.0.1", 1)
	send(base+"/console/projects/"+s.Project+"/environments", "application/x-www-form-urlencoded", form.Encode(),
		"Cookie", "__Host-sluice_session="+string(session.Token))
	send(base+"/api/v1/projects/"+s.Project+"/environments", "application/json", `{"name":"called"}`,
		"Authorization", "Bearer "+string(session.Token), reqctx.ClientHeader, fmt.Sprint(time.Now().Unix(), " 203.0.113.9 ", strings.Repeat("0", 64)), "X-Forwarded-For", "203.0.113.9")
	for _, name := range []string{"clicked", "called"} {
		records, err := client.Collect(s.Client.Audit(t.Context(), s.Project, client.AuditQuery{Resource: "projects/" + s.Project + "/environments/" + name}))
		if err != nil || len(records) != 1 || records[0].ClientAddress != browser {
			t.Errorf("%s: got %+v, %v, want the address %s", name, records, err, browser)
		}
	}
}
