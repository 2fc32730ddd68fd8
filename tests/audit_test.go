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
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// change is one call that changes something, and the record that it leaves.
type change struct {
	route  string // as the metrics name it
	body   string // of the call; {name}s are filled in as in the route
	action string // of the record
	on     string // the resource, below the project unless it begins with "/"
}

const (
	ofProject     = "/api/v1/projects/{project}"
	ofEnvironment = ofProject + "/environments/{environment}"
	ofApp         = ofEnvironment + "/apps/{app}"
	ofKey         = ofProject + "/api-keys/{key_id}"
)

// changes are all state-changing calls of the API, in an order in which each works.
func changes() []change {
	return []change{
		{"POST /api/v1/users", `{"username":"{username}","password":"{secret}-first"}`, "user.create", "/users/{username}"},
		{"PUT /api/v1/users/{username}/password", `{"password":"{secret}-second"}`, "user.change_password", "/users/{username}"},
		{"POST /api/v1/session", `{"username":"{username}","password":"{secret}-second"}`, "session.sign_in", "/users/{username}"},
		{"DELETE /api/v1/session", "", "session.sign_out", "/users/{username}"},
		{"POST /api/v1/projects", `{"name":"{project}"}`, "project.create", "/projects/{project}"},
		{"PATCH " + ofProject, `{"leak_policy":"revoke"}`, "project.update", "settings"},
		{"PATCH " + ofProject, `{"leak_policy":"disable"}`, "project.update", "settings"},
		{"PUT " + ofProject + "/members", `{"members":[{"username":"admin","role":"owner"},{"username":"{username}","role":"viewer"}]}`, "project.set_members", "members"},
		{"DELETE " + ofProject + "/members/{username}", "", "project.set_members", "members"},
		{"POST " + ofProject + "/tokens", `{"name":"nightly","role":"developer"}`, "token.create", "tokens/{token_id}"},
		{"DELETE " + ofProject + "/tokens/{token_id}", "", "token.revoke", "tokens/{token_id}"},
		{"POST " + ofProject + "/environments", `{"name":"{environment}"}`, "environment.create", "environments/{environment}"},
		{"POST " + ofEnvironment + "/plans", `{"name":"audited","rate":1,"burst":1}`, "plan.create", "environments/{environment}/plans/plan-audited"},
		{"PATCH " + ofEnvironment + "/plans/{plan_id}", `{"rate":2}`, "plan.update", "environments/{environment}/plans/plan-audited"},
		{"POST " + ofEnvironment + "/api-keys", `{"plan":"plan-audited"}`, "key.create", "api-keys/{key_id}"},
		{"PATCH " + ofKey, `{"status":"disabled"}`, "key.update", "api-keys/{key_id}"},
		{"PATCH " + ofKey, `{"status":"active"}`, "key.update", "api-keys/{key_id}"},
		{"POST " + ofKey + "/rotate", `{"grace":"0s"}`, "key.rotate", "api-keys/{key_id}"},
		{"POST /api/v1/leaks", `[{"token":"{full_key}","type":"sluice_api_key","url":"https://git.example.com/x?key={full_key}","source":"commit"}]`, "key.leak", "api-keys/{key_id}"},
		{"POST " + ofKey + "/rotate", `{}`, "key.rotate", "api-keys/{key_id}"},
		{"POST /api/v1/leaks/report", `{"key":"{full_key}"}`, "key.leak", "api-keys/{key_id}"},
		{"POST " + ofKey + "/revoke", `{}`, "key.revoke", "api-keys/{key_id}"},
		{"DELETE " + ofEnvironment + "/plans/{plan_id}", "", "plan.delete", "environments/{environment}/plans/plan-audited"},
		{"POST " + ofEnvironment + "/apps", `{"name":"{app}","image":"registry.example/echo:v1"}`, "app.create", "environments/{environment}/apps/{app}"},
		{"PATCH " + ofApp, `{"require_api_key":true}`, "app.update", "environments/{environment}/apps/{app}"},
		{"PATCH " + ofApp, `{"preflight":"refuse"}`, "app.update", "environments/{environment}/apps/{app}"},
		{"POST " + ofApp + "/deployments", `{"image":"registry.example/echo:v2"}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/2"},
		{"POST " + ofApp + "/rollback", `{"revision":1}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/3"},
		{"POST " + ofProject + "/environments", `{"name":"next"}`, "environment.create", "environments/next"},
		{"POST " + ofProject + "/environments/next/apps", `{"name":"{app}","image":"registry.example/echo:v0"}`, "app.create", "environments/next/apps/{app}"},
		{"POST " + ofProject + "/environments/next/apps/{app}/promote", `{"from_environment":"{environment}"}`, "deployment.create", "environments/next/apps/{app}/deployments/2"},
		{"POST " + ofApp + "/webhook", "", "webhook.enable", "environments/{environment}/apps/{app}/webhook"},
		{"POST /api/v1/webhook/{namespace}/{app}", `{"image":"registry.example/echo:v4"}`, "deployment.create", "environments/{environment}/apps/{app}/deployments/4"},
		{"PUT " + ofApp + "/git-source", `{"repository":"https://git.example/once.git","branch":"main"}`, "app.update", "environments/{environment}/apps/{app}"},
		{"POST /api/v1/webhook/{namespace}/{app}", `{"commit":"abc1234"}`, "build.request", "environments/{environment}/apps/{app}/builds/1"},
		{"POST " + ofApp + "/builds", `{"commit":"abc1234"}`, "build.request", "environments/{environment}/apps/{app}/builds/2"},
		{"DELETE " + ofApp + "/git-source", "", "app.update", "environments/{environment}/apps/{app}"},
		{"POST " + ofApp + "/webhook/trusts", `{"issuer":"{issuer}","claims":{"repository":"org/repo"}}`, "webhook.trust", "environments/{environment}/apps/{app}/webhook/trusts/{trust_id}"},
		{"DELETE " + ofApp + "/webhook/trusts/{trust_id}", "", "webhook.distrust", "environments/{environment}/apps/{app}/webhook/trusts/{trust_id}"},
		{"DELETE " + ofApp + "/webhook", "", "webhook.disable", "environments/{environment}/apps/{app}/webhook"},
		{"DELETE " + ofApp, "", "app.delete", "environments/{environment}/apps/{app}"},
		{"DELETE /api/v1/host-reservations/{host}", "", "host.release", "/host-reservations/{host}"},
		{"DELETE " + ofProject + "/environments/next/apps/{app}", "", "app.delete", "environments/next/apps/{app}"},
		{"DELETE " + ofProject + "/environments/next", "", "environment.delete", "environments/next"},
		{"DELETE " + ofEnvironment, "", "environment.delete", "environments/{environment}"},
		{"DELETE " + ofProject, "", "project.delete", "/projects/{project}"},
	}
}

// auditor makes the changes and remembers what must not be recorded of them.
type auditor struct {
	*stacktest.Site
	names   map[string]string
	admin   string // token
	user    string // token
	hook    string // token
	secrets []string
}

// TestEveryChangeIsRecorded makes every call of the management API and of the webhook
// that changes something, as the running functions list them, and looks for its record:
// one each, made by whom it was, from where it was, under the id of the request.
func TestEveryChangeIsRecorded(t *testing.T) {
	stacktest.Insides(t, "it reads every function's metrics, also of those that a cluster has scaled to zero")
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
		if strings.HasSuffix(c.route, "/promote") { // takes only a revision that had a ready pod
			prod := *s
			prod.Project, prod.Env = a.names["project"], a.names["environment"]
			prod.Settled(a.names["app"], 3, "live")
		}
		made[strings.NewReplacer("environments/next", "environments/{environment}").Replace(c.route)] = true
		a.make(c)
	}
	for _, route := range stateChangingRoutes(t) {
		if !made[route] {
			t.Errorf("%s changes something, and no test knows its audit record: add it to changes", route)
		}
	}
	for name, text := range s.Documents() {
		for _, secret := range a.secrets {
			if strings.Contains(name, "/audit/") && strings.Contains(text, secret) {
				t.Errorf("a secret is in %s: %s", name, text)
			}
		}
	}
}

// stateChangingRoutes reads the routes from the metrics of the running functions: those
// whose method may change something, but for those that only look for a key or try a webhook.
func stateChangingRoutes(t *testing.T) []string {
	t.Helper()
	series := regexp.MustCompile(`sluice_http_request_duration_seconds_count\{route="((?:POST|PUT|PATCH|DELETE) /api/v1/[^"]*)"\}`)
	var routes []string
	for _, url := range world.Info().Metrics {
		for _, found := range series.FindAllStringSubmatch(stacktest.Get(t, url).Body, -1) {
			switch found[1] {
			case table.FindKey.Pattern(), table.TestWebhook.Pattern(): // change nothing
			case table.ReleaseQuota.Pattern(): // needs a lost checker; see TestReleaseLeases of package store
			default:
				routes = append(routes, found[1])
			}
		}
	}
	if len(routes) < 25 {
		t.Fatalf("only %d routes: %v", len(routes), routes)
	}
	return routes
}

func (a *auditor) fill(text string) string {
	for name, value := range a.names {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// make makes a change and checks its record.
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
		a.T.Fatalf("%s: %d %s, id %q, %v", c.route, res.StatusCode, body, res.Header.Get("X-Request-Id"), err)
	}
	a.learn(c, body)
	a.check(c, id, actor)
}

// sign gives a call its credentials and says whose they are.
func (a *auditor) sign(req *http.Request, c change) wire.AuditActor {
	user := wire.AuditActor{Kind: "user", Name: a.names["username"]}
	switch {
	case c.route == "POST /api/v1/session":
		return user
	case c.route == "DELETE /api/v1/session":
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

// learn takes from an answer what later calls need, and what no record may hold.
func (a *auditor) learn(c change, body []byte) {
	a.T.Helper()
	var answer struct{ ID, Key, Token string }
	if len(bytes.TrimSpace(body)) == 0 {
		return
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return // a list
	}
	const marker = len("sluice_12345678_")
	switch {
	case answer.Key != "":
		a.names["key_id"], a.names["full_key"] = answer.ID, answer.Key
		a.secrets = append(a.secrets, answer.Key[marker:])
	case c.action == "session.sign_in":
		a.user = answer.Token
		a.secrets = append(a.secrets, answer.Token[len(answer.Token)-40:])
	case c.action == "token.create":
		a.names["token_id"] = answer.ID
		a.secrets = append(a.secrets, answer.Token[len("sluice_st_123456789012_"):])
	case c.action == "webhook.trust":
		a.names["trust_id"] = answer.ID
	case c.action == "webhook.enable":
		a.hook = answer.Token
		a.secrets = append(a.secrets, answer.Token)
	}
}

// check looks for the record of a request: in the project's list, or the
// installation's.
func (a *auditor) check(c change, id string, actor wire.AuditActor) {
	a.T.Helper()
	resource, of := a.fill(c.on), a.names["project"]
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
		a.T.Errorf("%s has left %d records", c.route, len(records))
		return
	}
	r := records[0]
	local := r.ClientAddress == "127.0.0.1" || r.ClientAddress == "::1"
	if r.Actor != actor || !local || r.Outcome != "succeeded" || r.Project != of || r.Resource != resource || r.At.IsZero() {
		a.T.Errorf("%s has left the record %+v", c.route, r)
	}
}

// TestWhoReadsTheAuditLog: owners their project's, admins the installation's.
func TestWhoReadsTheAuditLog(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	password := "pass-" + rand.Text()
	as := map[string]*client.Client{}
	members := []wire.Member{{Username: world.Info().Admin.Username, Role: "owner"}}
	for _, role := range []string{"owner", "developer", "viewer", "stranger"} {
		name := strings.ToLower(role[:3] + rand.Text()[:8])
		if _, err := s.Client.CreateUser(t.Context(), name, password, false); err != nil {
			t.Fatal(err)
		}
		if role != "stranger" {
			members = append(members, wire.Member{Username: name, Role: role})
		}
		as[role] = stacktest.SignIn(t, world, name, password)
	}
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, members))
	for role, c := range as {
		records, err := client.Collect(c.Audit(t.Context(), s.Project, client.AuditQuery{}))
		if role == "owner" {
			if err != nil || len(records) != 2 { // the environment and the members
				t.Errorf("an owner reads %d records, %v", len(records), err)
			}
		} else if !client.HasCode(err, "forbidden") {
			t.Errorf("a %s gets %v", role, err)
		}
		if _, err := client.Collect(c.InstallationAudit(t.Context(), client.AuditQuery{})); !client.HasCode(err, "forbidden") {
			t.Errorf("a %s reads the installation's records: %v", role, err)
		}
	}
	if _, err := client.New(world.Info().BaseURL).SignIn(t.Context(), members[1].Username, password+"x"); !client.HasCode(err, "invalid_credentials") {
		t.Fatal(err)
	}
	failed, err := client.Collect(s.Client.InstallationAudit(t.Context(), client.AuditQuery{Actor: members[1].Username, Action: "session.sign_in"}))
	if err != nil || len(failed) != 2 || failed[0].Outcome != "failed" || failed[1].Outcome != "succeeded" {
		t.Errorf("sign-ins of the owner: %+v, %v", failed, err)
	}
}

// TestConsoleRecordsClientAddress checks that a change through the console is recorded with the
// address of the browser, also if another client claims an address in the console's header.
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
		_ = res.Body.Close() // the status is enough
		if res.StatusCode != http.StatusSeeOther && res.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %d", address, res.StatusCode)
		}
	}
	form := url.Values{"csrf": {who.CSRFToken}, "name": {"clicked"}}
	base := strings.Replace(info.BaseURL, "localhost", "127.0.0.1", 1)
	send(base+"/console/projects/"+s.Project+"/environments", "application/x-www-form-urlencoded", form.Encode(),
		"Cookie", "__Host-sluice_session="+string(session.Token))
	send(base+"/api/v1/projects/"+s.Project+"/environments", "application/json", `{"name":"called"}`,
		"Authorization", "Bearer "+string(session.Token), trace.ClientHeader, fmt.Sprint(time.Now().Unix(), " 203.0.113.9 ", strings.Repeat("0", 64)), "X-Forwarded-For", "203.0.113.9")
	for _, name := range []string{"clicked", "called"} {
		records, err := client.Collect(s.Client.Audit(t.Context(), s.Project, client.AuditQuery{Resource: "projects/" + s.Project + "/environments/" + name}))
		if err != nil || len(records) != 1 || records[0].ClientAddress != browser {
			t.Errorf("%s: got %+v, %v, want the address %s", name, records, err, browser)
		}
	}
}
