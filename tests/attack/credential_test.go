package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// withoutCredential lists the changes that a service token may make. None of them creates or
// returns a credential, except the two that issue API keys: those are the purpose of service
// tokens. A new route is refused to service tokens or is added here.
var withoutCredential = []*api.Row{
	api.CreateKey.Row, api.RotateKey.Row, // issue API keys
	api.UpdateProject.Row, api.DeleteProject.Row, api.CreateEnvironment.Row, api.DeleteEnvironment.Row,
	api.CreateApp.Row, api.UpdateApp.Row, api.DeleteApp.Row, api.SetGitSource.Row, api.RemoveGitSource.Row,
	api.DisableWebhook.Row, api.RemoveTrust.Row, api.TestWebhook.Row,
	api.CreatePlan.Row, api.UpdatePlan.Row, api.DeletePlan.Row,
	api.FindKey.Row, api.UpdateKey.Row, api.RevokeKey.Row, api.ReportLeak.Row, api.ReleaseQuota.Row,
	api.CreateDeployment.Row, api.RollBack.Row, api.Promote.Row, api.RequestBuild.Row,
}

// credentialBodies are valid bodies of the changes that a service token may not make.
func credentialBodies() map[*api.Row]string {
	return map[*api.Row]string{
		api.SignOut.Row:        "",
		api.ReleaseHost.Row:    "",
		api.CreateUser.Row:     `{"username":"user-{project}","password":"a long enough password"}`,
		api.ChangePassword.Row: `{"password":"a long enough password"}`,
		api.CreateProject.Row:  `{"name":"more-{project}"}`,
		api.SetMembers.Row:     `{members}`,
		api.RemoveMember.Row:   "",
		api.CreateToken.Row:    `{"name":"more","role":"viewer"}`,
		api.RevokeToken.Row:    "",
		api.EnableWebhook.Row:  "",
		api.AddTrust.Row:       `{"provider":"github","claims":{"repository":"org/repo"}}`,
	}
}

// TestCredentialsByServiceToken checks that a thief of an owner's service token gets no
// credential that outlives it. It tries every route of the table.
func TestCredentialsByServiceToken(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "an owner's service token on every route that creates or shows a credential: users, passwords, members, service tokens, webhook tokens, trusts",
		"403, and no response has the webhook's token; API keys are the exception")
	p := newProject(t)
	owner := p.tokens[2].token
	hook, err := p.site.Client.EnableWebhook(t.Context(), p.site.Project, p.site.Env, "hello")
	check.OK(t, err)
	bodies, tried := credentialBodies(), 0
	for _, r := range api.Table() {
		if !r.Need.Session() || slices.Contains(withoutCredential, r) {
			continue
		}
		a := call(t, request{method: r.Method, path: p.fill(r.Path), body: p.fill(bodies[r]), token: owner})
		tried++
		if strings.Contains(a.Body, string(hook.Token)) {
			t.Errorf("%s returns the webhook's token: %s", r.Pattern(), a.Body)
		}
		if _, known := bodies[r]; r.Method != http.MethodGet && (!known || a.Status != http.StatusForbidden) {
			t.Errorf("%s: %d %s, want 403 and a body in credentialBodies", r.Pattern(), a.Status, a.Body)
		}
	}
	p.unchanged(t, string(hook.Token))
	row.Measured(fmt.Sprintf("%d routes", tried))
}

// unchanged checks that the app still has this webhook token, and no trust.
func (p *project) unchanged(t *testing.T, token string) {
	t.Helper()
	app := "/api/v1/projects/{project}/environments/{environment}/apps/{app}"
	admin := p.signIn(t, p.roles[len(p.roles)-1])
	var hook wire.Webhook
	a := call(t, request{path: p.fill(app + "/webhook"), token: admin})
	if err := json.Unmarshal([]byte(a.Body), &hook); err != nil || hook.Token == nil || *hook.Token != token {
		t.Errorf("the webhook is %s", a.Body)
	}
	var trusts wire.List[wire.Trust]
	a = call(t, request{path: p.fill(app + "/webhook/trusts"), token: admin})
	if err := json.Unmarshal([]byte(a.Body), &trusts); err != nil || len(trusts.Items) != 0 {
		t.Errorf("the trusts are %s", a.Body)
	}
}
