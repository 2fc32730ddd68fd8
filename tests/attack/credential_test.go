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

// withoutCredential lists the state-changing routes that may accept service tokens. All others
// must reject them; a new route must do so or be added here.
var withoutCredential = []*api.Row{
	api.CreateKey.Row, api.RotateKey.Row, // service tokens exist to issue API keys
	api.UpdateProject.Row, api.DeleteProject.Row, api.CreateEnvironment.Row, api.DeleteEnvironment.Row,
	api.CreateApp.Row, api.UpdateApp.Row, api.DeleteApp.Row, api.SetGitSource.Row, api.RemoveGitSource.Row,
	api.DisableWebhook.Row, api.RemoveTrust.Row, api.TestWebhook.Row,
	api.CreatePlan.Row, api.UpdatePlan.Row, api.DeletePlan.Row, api.ForecastPlan.Row,
	api.FindKey.Row, api.UpdateKey.Row, api.BulkKeys.Row, api.RevokeKey.Row, api.ReportLeak.Row, api.ReleaseQuota.Row,
	api.CreateDeployment.Row, api.RollBack.Row, api.Promote.Row, api.RequestBuild.Row,
}

// credentialBodies returns valid bodies for the other changes.
func credentialBodies() map[*api.Row]string {
	return map[*api.Row]string{
		api.SignOut.Row:        "",
		api.EndOwnSessions.Row: "",
		api.UpdateUser.Row:     `{"admin":true}`,
		api.RemoveUser.Row:     "",
		api.EndSessions.Row:    "",
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

func TestCredentialsByServiceToken(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "an owner's service token on every route that creates or returns credentials, except API keys",
		"403; no response contains the webhook token")
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

func (p *project) unchanged(t *testing.T, token string) {
	t.Helper()
	app := "/api/v1/projects/{project}/environments/{environment}/apps/{app}"
	admin := p.signIn(t, p.roles[len(p.roles)-1])
	var hook wire.Webhook
	a := call(t, request{path: p.fill(app + "/webhook"), token: admin})
	if err := json.Unmarshal([]byte(a.Body), &hook); err != nil || hook.Token == nil || *hook.Token != token {
		t.Errorf("webhook: got %s, want token %s", a.Body, token)
	}
	var trusts wire.List[wire.Trust]
	a = call(t, request{path: p.fill(app + "/webhook/trusts"), token: admin})
	if err := json.Unmarshal([]byte(a.Body), &trusts); err != nil || len(trusts.Items) != 0 {
		t.Errorf("trusts: got %s, want none", a.Body)
	}
}
