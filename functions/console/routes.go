package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
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
		{"/new-user", empty(newUser), nil},
		{"/users/{username}/password", empty(askPassword), resetPassword},
		{"/users/{username}/{action}", empty(askUserAction), changeUser},
		{"/hosts", listReservations, nil},
		{"/hosts/{host}/release", empty(askReleaseHost), releaseHost},
		{"/audit", showInstallationAudit, nil},

		{"/projects", listProjects, createProject},
		{"/new-project", empty(newProject), nil},
		{project, showProject, nil},
		{project + "/delete", empty(askDeleteProject), deleteProject},
		{project + "/members", empty(listMembers), setMember},
		{project + "/members/{username}/remove", empty(askRemoveMember), removeMember},
		{project + "/tokens", toMembers, createToken},
		{project + "/tokens/new", empty(newToken), nil},
		{project + "/tokens/{token}/revoke", empty(askRevokeToken), revokeToken},
		{project + "/audit", showProjectAudit, nil},
		{project + "/api-keys", listKeys, nil},
		{project + "/api-keys/search", toKeys, searchKeys},
		{project + "/api-keys/report-leak", empty(askReportLeak), reportLeak},
		{project + "/settings", empty(askProjectSettings), setProjectSettings},
		{project + "/changes/{change}", showChange, nil},
		{project + "/requests", askRequest, findRequest},
		{project + "/new-environment", empty(newEnvironment), nil},
		{project + "/environments", nil, createEnvironment},
		{environment, showOverview, nil},
		{environment + "/steps", showSteps, nil},
		{environment + "/activity", showActivity, nil},
		{environment + "/delete", empty(askDeleteEnvironment), deleteEnvironment},

		{environment + "/plans", listPlans, createPlan},
		{environment + "/plans/new", empty(newPlan), nil},
		{plan, showPlan, nil},
		{plan + "/edit", editPlan, changePlan},
		{plan + "/edit/preview", editPlan, previewPlan},
		{plan + "/delete", empty(askDeletePlan), deletePlan},

		{environment + "/api-keys", listKeys, createKey},
		{environment + "/api-keys/search", toKeys, searchKeys},
		{environment + "/api-keys/new", empty(newKey), nil},
		{environment + "/api-keys/bulk", toKeys, previewBulk},
		{environment + "/api-keys/bulk/apply", toKeys, applyBulk},
		{key, showKey, nil},
		{key + "/edit", editKey, changeKey},
		{key + "/disable", askDisableKey, disableKey},
		{key + "/enable", nil, enableKey},
		{key + "/revoke", askRevokeKey, revokeKey},
		{key + "/rotate", empty(askRotate), rotateKey},

		{environment + "/apps", listApps, createApp},
		{environment + "/new-app", empty(newApp), nil},
		{app, showApp, nil},
		{app + "/state", showAppState, nil},
		{app + "/callers", showCallers, nil},
		{app + "/delete", empty(askDeleteApp), deleteApp},
		{app + "/deploys", listDeploys, deploy},
		{app + "/deploys/table", showDeploysTable, nil},
		{app + "/new-deploy", empty(newDeploy), nil},
		{app + "/deliveries", listDeliveries, nil},
		{app + "/deliveries/test", toDeliveries, testWebhook},
		{app + "/deploys/{revision}/rollback", empty(askRollback), rollBack},
		{app + "/promote", choosePromotion, nil},
		{app + "/promote/{from}", empty(askPromote), promote},
		{app + "/builds", listBuilds, requestBuild},
		{app + "/builds/table", showBuildsTable, nil},
		{app + "/new-build", empty(newBuild), nil},

		{app + "/settings", showSettings, nil},
		{app + "/gate", empty(askGate), switchGate},
		{app + "/settings/preflight", empty(askPreflight), setPreflight},
		{app + "/settings/address", empty(askAddress), setAddress},
		{app + "/settings/git", empty(askGitSource), setGitSource},
		{app + "/settings/git/remove", empty(askRemoveGitSource), removeGitSource},
		{webhook, toSettings, enableWebhook},
		{webhook + "/token", toSettings, showToken},
		{webhook + "/regenerate", empty(askRegenerate), regenerateWebhook},
		{webhook + "/disable", empty(askDisableWebhook), disableWebhook},
		{webhook + "/trusts", empty(newTrust), addTrust},
		{webhook + "/trusts/{trust}/remove", empty(askRemoveTrust), removeTrust},
	}
}

func empty(page ask) handler { return func(r *request) error { return page(r, view.Form{}) } }

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
