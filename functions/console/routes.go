package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
)

type handler func(r *request) error

type route struct {
	path     string
	show, do handler
}

func routes() []route { //nolint:funlen // a table
	const (
		project     = "/projects/{project}"
		environment = project + "/environments/{environment}"
		plan        = environment + "/plans/{plan}"
		key         = environment + "/api-keys/{key}"
		app         = environment + "/apps/{app}"
		webhook     = app + "/settings/webhook"
	)
	return []route{
		{"", showHome, nil},
		{"/sign-out", nil, signOut},
		{"/account", empty(account), changePassword},
		{"/account/end-sessions", empty(askEndOwnSessions), endOwnSessions},
		{"/users", listUsers, createUser},
		{"/new-user", form(api.CreateUser.Row, newUser), nil},
		{"/users/{username}/password", form(api.UpdateUser.Row, askPassword), resetPassword},
		{"/users/{username}/{action}", form(api.UpdateUser.Row, askUserAction), changeUser},
		{"/hosts", listReservations, nil},
		{"/hosts/{host}/release", form(api.ReleaseHost.Row, askReleaseHost), releaseHost},
		{"/audit", showInstallationAudit, nil},

		{"/projects", listProjects, createProject},
		{"/new-project", form(api.CreateProject.Row, newProject), nil},
		{project, showProject, nil},
		{project + "/delete", form(api.DeleteProject.Row, askDeleteProject), deleteProject},
		{project + "/members", empty(listMembers), setMember},
		{project + "/members/{username}/remove", form(api.RemoveMember.Row, askRemoveMember), removeMember},
		{project + "/tokens", toMembers, createToken},
		{project + "/tokens/new", form(api.CreateToken.Row, newToken), nil},
		{project + "/tokens/{token}/revoke", form(api.RevokeToken.Row, askRevokeToken), revokeToken},
		{project + "/audit", showProjectAudit, nil},
		{project + "/api-keys", listKeys, nil},
		{project + "/api-keys/search", toKeys, searchKeys},
		{project + "/api-keys/report-leak", empty(askReportLeak), reportLeak},
		{project + "/settings", form(api.UpdateProject.Row, askProjectSettings), setProjectSettings},
		{project + "/changes/{change}", showChange, nil},
		{project + "/requests", only(api.ExplainRequest.Row, askRequest), findRequest},
		{project + "/new-environment", form(api.CreateEnvironment.Row, newEnvironment), nil},
		{project + "/environments", nil, createEnvironment},
		{environment, showOverview, nil},
		{environment + "/steps", showSteps, nil},
		{environment + "/activity", showActivity, nil},
		{environment + "/delete", form(api.DeleteEnvironment.Row, askDeleteEnvironment), deleteEnvironment},

		{environment + "/plans", listPlans, createPlan},
		{environment + "/plans/new", form(api.CreatePlan.Row, newPlan), nil},
		{plan, showPlan, nil},
		{plan + "/edit", only(api.UpdatePlan.Row, editPlan), changePlan},
		{plan + "/edit/preview", only(api.UpdatePlan.Row, editPlan), previewPlan},
		{plan + "/delete", form(api.DeletePlan.Row, askDeletePlan), deletePlan},

		{environment + "/api-keys", listKeys, createKey},
		{environment + "/api-keys/search", toKeys, searchKeys},
		{environment + "/api-keys/new", form(api.CreateKey.Row, newKey), nil},
		{environment + "/api-keys/bulk", toKeys, previewBulk},
		{environment + "/api-keys/bulk/apply", toKeys, applyBulk},
		{key, showKey, nil},
		{key + "/edit", only(api.UpdateKey.Row, editKey), changeKey},
		{key + "/disable", only(api.UpdateKey.Row, askDisableKey), disableKey},
		{key + "/enable", nil, enableKey},
		{key + "/revoke", only(api.RevokeKey.Row, askRevokeKey), revokeKey},
		{key + "/rotate", form(api.RotateKey.Row, askRotate), rotateKey},

		{environment + "/apps", listApps, createApp},
		{environment + "/new-app", form(api.CreateApp.Row, newApp), nil},
		{app, showApp, nil},
		{app + "/state", showAppState, nil},
		{app + "/callers", showCallers, nil},
		{app + "/delete", form(api.DeleteApp.Row, askDeleteApp), deleteApp},
		{app + "/deploys", listDeploys, deploy},
		{app + "/deploys/table", showDeploysTable, nil},
		{app + "/new-deploy", form(api.CreateDeployment.Row, newDeploy), nil},
		{app + "/deliveries", listDeliveries, nil},
		{app + "/deliveries/test", toDeliveries, testWebhook},
		{app + "/deploys/{revision}/rollback", form(api.RollBack.Row, askRollback), rollBack},
		{app + "/promote", only(api.Promote.Row, choosePromotion), nil},
		{app + "/promote/{from}", form(api.Promote.Row, askPromote), promote},
		{app + "/builds", listBuilds, requestBuild},
		{app + "/builds/table", showBuildsTable, nil},
		{app + "/new-build", form(api.RequestBuild.Row, newBuild), nil},

		{app + "/settings", showSettings, nil},
		{app + "/gate", form(api.UpdateApp.Row, askGate), switchGate},
		{app + "/settings/preflight", form(api.UpdateApp.Row, askPreflight), setPreflight},
		{app + "/settings/address", form(api.UpdateApp.Row, askAddress), setAddress},
		{app + "/settings/git", form(api.SetGitSource.Row, askGitSource), setGitSource},
		{app + "/settings/git/remove", form(api.RemoveGitSource.Row, askRemoveGitSource), removeGitSource},
		{webhook, toSettings, enableWebhook},
		{webhook + "/token", toSettings, showToken},
		{webhook + "/regenerate", form(api.EnableWebhook.Row, askRegenerate), regenerateWebhook},
		{webhook + "/disable", form(api.DisableWebhook.Row, askDisableWebhook), disableWebhook},
		{webhook + "/trusts", form(api.AddTrust.Row, newTrust), addTrust},
		{webhook + "/trusts/{trust}/remove", form(api.RemoveTrust.Row, askRemoveTrust), removeTrust},
	}
}

func empty(page ask) handler { return func(r *request) error { return page(r, view.Form{}) } }

// form returns the handler of an empty form for the API call row.
func form(row *api.Row, page ask) handler { return only(row, empty(page)) }

// only returns a handler that rejects users whose role does not allow the API call row. The API also
// rejects their changes; this check spares them a form that they cannot submit.
func only(row *api.Row, show handler) handler {
	return func(r *request) error {
		f, err := r.layout()
		if err != nil {
			return err
		}
		if !f.allows(row.Need) {
			return denied()
		}
		return show(r)
	}
}

// Handler returns the handler of all requests.
func (s *Service) Handler() http.Handler {
	m := httpapi.New(s.log)
	m.Handle("GET /{$}", func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, home, http.StatusSeeOther)
		return nil
	})
	m.Handle("GET "+home+"/assets/{name}", s.renderer.ServeAsset)
	m.Handle("GET "+signInPath, s.signInForm)
	m.Handle("POST "+signInPath, s.signIn)
	for _, one := range routes() {
		if one.show != nil {
			m.Handle("GET "+home+one.path, s.signedIn(one.show))
		}
		if one.do != nil {
			m.Handle("POST "+home+one.path, s.signedIn(withCSRF(one.do)))
		}
	}
	m.Handle(home+"/{rest...}", func(w http.ResponseWriter, r *http.Request) error {
		s.refuse(w, r, notFound())
		return nil
	})
	return &guard{Mux: m, s: s, origin: http.NewCrossOriginProtection()}
}

func withCSRF(do handler) handler {
	return func(r *request) error {
		if err := r.checkCSRF(); err != nil {
			return err
		}
		return do(r)
	}
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm is the maximum size of a form in bytes, like that of JSON in the API.
const maxForm = 64 << 10

// guard sets the security headers of every response, and rejects changes from other origins and
// URLs that contain a secret.
type guard struct {
	*httpapi.Mux

	s *Service

	origin *http.CrossOriginProtection // in addition to the CSRF value of forms
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if httpapi.SecretInURL(r.URL) {
		r = r.Clone(r.Context())
		r.URL = &url.URL{Path: home} // the page shows the URL
		g.s.refuse(w, r, httpError{
			Status: http.StatusBadRequest, Title: "API key in the URL",
			Text: "Browsers and proxies store URLs. Rotate the key. To find it, use the search field of the API keys page.",
		})
		return
	}
	if g.origin.Check(r) != nil {
		g.s.refuse(w, r, httpError{
			Status: http.StatusForbidden, Title: "Request from another site",
			Text: "No changes were made: the request came from another site.",
		})
		return
	}
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	if clean, ok := strings.CutSuffix(r.URL.Path, "/"); ok && r.Method == http.MethodGet && strings.HasPrefix(clean, home) && localPath(clean) != "" {
		http.Redirect(w, r, (&url.URL{Path: clean}).String(), http.StatusPermanentRedirect)
		return
	}
	g.Mux.ServeHTTP(w, r)
}
