package cli

import (
	"net/http"
	"strings"
)

// What the fake server knows.
const (
	projectJSON     = `{"name":"shop","role":"owner","created_at":"2026-01-02T03:04:05Z"}`
	environmentJSON = `{"name":"prod","project":"shop","namespace":"shop-prod","created_at":"2026-01-02T03:04:05Z"}`
	planJSON        = `{"id":"plan-starter","name":"Starter","rate":0.5,"burst":5,"quota":1000,"quota_period":"day","quota_mode":"soft"}`
	hardPlanJSON    = `{"id":"plan-metered","name":"Metered","rate":20,"burst":40,"quota":1000000,"quota_period":"month","quota_mode":"hard"}`
	freePlanJSON    = `{"id":"plan-unlimited","name":"Unlimited","rate":100000,"burst":1000000,"quota":null,"quota_period":null,"quota_mode":null}`
	keyFields       = `"id":"key-ab12cd34","prefix":"ab12cd34","project":"shop","environment":"prod","plan":"plan-starter","name":"Checkout team",` +
		`"apps":["hello","site"],"status":"active","expires_at":"2026-03-20T00:00:00Z","created_at":"2026-01-02T03:04:05Z","created_by":"ada","previous_secret_expires_at":null,"last_seen":"2026-03-13"`
	keyJSON    = `{` + keyFields + `}`
	issuedJSON = `{` + keyFields + `,"key":"sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"}`
	oldKeyJSON = `{"id":"key-zz99yy88","prefix":"zz99yy88","project":"shop","environment":"prod","plan":"plan-unlimited","name":"",` +
		`"apps":[],"status":"revoked","expires_at":null,"created_at":"2026-01-02T03:04:05Z","created_by":"bob","previous_secret_expires_at":"2026-03-15T00:00:00Z"}`
	revokedJSON  = `{` + `"id":"key-ab12cd34","prefix":"ab12cd34","project":"shop","environment":"prod","plan":"plan-starter","name":"","apps":[],"status":"revoked","expires_at":null,"created_at":"2026-01-02T03:04:05Z","created_by":"ada","previous_secret_expires_at":null}`
	appStart     = `{"name":"hello","project":"shop","environment":"prod","host":"hello.shop-prod.example.com","url":"https://hello.shop-prod.example.com","port":8080,"kind":"image","image":"registry.example.com/shop/hello:v1","git_source":null,`
	appJSON      = appStart + `"require_api_key":false,"gate":{"state":"ungated","since":"2026-01-02T03:04:05Z","message":""},"revision":3}`
	pendingJSON  = appStart + `"require_api_key":true,"gate":{"state":"pending","since":"2026-03-14T15:09:00Z","message":"the probe was answered 200"},"revision":3}`
	engagedJSON  = appStart + `"require_api_key":true,"gate":{"state":"engaged","since":"2026-03-14T15:09:20Z","message":""},"revision":3}`
	gitAppJSON   = `{"name":"site","project":"shop","environment":"prod","host":"site.shop-prod.example.com","url":"https://site.shop-prod.example.com","port":8080,"kind":"git","image":"registry.example.com/shop/site@sha256:0000000000000000000000000000000000000000000000000000000000000001","git_source":{"repository":"https://git.example.com/shop/site","branch":"main","path":"web"},"require_api_key":true,"gate":{"state":"engaged","since":"2026-03-14T15:09:20Z","message":""},"revision":12}`
	revision4    = `{"revision":4,"image":"registry.example.com/shop/hello:v2","trigger":"manual","actor":"ada","status":"rolling_out","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	live4        = `{"revision":4,"image":"registry.example.com/shop/hello:v2","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000002","trigger":"manual","actor":"ada","status":"live","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	failed4      = `{"revision":4,"image":"registry.example.com/shop/hello:v2","trigger":"manual","actor":"ada","status":"failed","message":"not ready within 2m0s: ImagePullBackOff","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	revision3    = `{"revision":3,"image":"registry.example.com/shop/hello:v1","commit":"0123456789abcdef0123456789abcdef01234567","trigger":"webhook","actor":"webhook","status":"superseded","deployed_at":"2026-03-13T10:00:00Z","current":false}`
	rollback5    = `{"revision":5,"image":"registry.example.com/shop/hello:v1","trigger":"rollback","actor":"ada","source_revision":3,"status":"rolling_out","deployed_at":"2026-03-14T15:09:25Z","current":true}`
	hookJSON     = `{"enabled":true,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/hello","token":"dG9rZW4tb2YtdGhlLXdlYmhvb2s"}`
	gitHookJSON  = `{"enabled":true,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/site","token":"dG9rZW4tb2YtdGhlLXdlYmhvb2s"}`
	disabledJSON = `{"enabled":false,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/site","token":null}`
	buildJSON    = `{"build":7,"commit":"0123456789abcdef0123456789abcdef01234567","git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"webhook","status":"succeeded","image":"registry.example.com/shop/site:b7","revision":12,"requested_at":"2026-03-14T15:00:00Z","finished_at":"2026-03-14T15:05:00Z"}`
	runningJSON  = `{"build":8,"git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"ada","status":"running","requested_at":"2026-03-14T15:08:00Z","finished_at":null}`
	builtJSON    = `{"build":8,"commit":"0123456789abcdef0123456789abcdef01234567","git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"ada","status":"succeeded","image":"registry.example.com/shop/site:b8","revision":13,"requested_at":"2026-03-14T15:08:00Z","finished_at":"2026-03-14T15:09:00Z"}`
	usageJSON    = `{"key_id":"key-ab12cd34","from":"2026-03-11","to":"2026-03-14","retention_days":92,"totals":{"allowed":1501,"rate_denied":40,"quota_denied":1},"last_seen":"2026-03-14",` +
		`"days":[{"date":"2026-03-11","allowed":0,"rate_denied":0,"quota_denied":0},{"date":"2026-03-12","allowed":1000,"rate_denied":0,"quota_denied":0},` +
		`{"date":"2026-03-13","allowed":1,"rate_denied":0,"quota_denied":0},{"date":"2026-03-14","allowed":500,"rate_denied":40,"quota_denied":1}]}`
	auditPlan = `{"id":"a1","at":"2026-03-14T15:00:00Z","actor":{"kind":"user","name":"ada"},"client_address":"203.0.113.9","request_id":"7Q2ZL0","action":"plan.update","outcome":"succeeded",` +
		`"project":"shop","resource":"projects/shop/environments/prod/plans/plan-starter","old":{"rate":0.5,"quota":null},"new":{"rate":20,"quota":1000}}`
	auditHook = `{"id":"a2","at":"2026-03-14T14:00:00Z","actor":{"kind":"webhook","name":"webhook"},"client_address":"203.0.113.10","request_id":"r-2","action":"deployment.create","outcome":"succeeded",` +
		`"project":"shop","resource":"projects/shop/environments/prod/apps/hello/deployments/4","old":{"image":"registry.example.com/shop/hello:v1","revision":3},"new":{"image":"registry.example.com/shop/hello:v2","revision":4,"trigger":"webhook"}}`
	auditKey = `{"id":"a3","at":"2026-03-13T14:00:00Z","actor":{"kind":"user","name":"bob"},"client_address":"","request_id":"","action":"key.create","outcome":"succeeded",` +
		`"project":"shop","resource":"projects/shop/api-keys/key-ab12cd34","old":null,"new":{"apps":["hello"],"name":"Checkout team","expires_at":null}}`
	auditSignIn = `{"id":"a4","at":"2026-03-14T15:09:00Z","actor":{"kind":"anonymous","name":"ada"},"client_address":"203.0.113.9","request_id":"r-4","action":"session.sign_in","outcome":"failed",` +
		`"project":"","resource":"users/ada","old":null,"new":null}`
	sessionJSON = `{"token":"new-token","csrf_token":"c","expires_at":"2026-03-15T03:09:26Z","user":{"username":"ada","admin":true}}`
	whoJSON     = `{"csrf_token":"c","expires_at":"2026-03-15T03:09:26Z","user":{"username":"ada","admin":true}}`
)

// Whether a change is in force.
const (
	forceJSON   = `{"change":"7ff9ad4c","everywhere":true,"at":"2026-03-14T15:09:26.038Z","replicas":[{"replica":"checker-0","state":"applied","after_ms":21},{"replica":"checker-1","state":"applied","after_ms":38}]}`
	waitingJSON = `{"change":"7ff9ad4c","everywhere":false,"at":null,"replicas":[{"replica":"checker-0","state":"applied","after_ms":21},{"replica":"checker-1","state":"silent","denies_from":"2026-03-14T15:10:31Z"}]}`
)

// forced is an answer to a change that was waited for.
func forced(body, force string) string {
	return strings.TrimSuffix(body, "}") + `,"in_force":` + force + "}"
}

func list(items string) string { return `{"items":[` + items + `],"next_page_token":""}` }

func ok(bodies ...string) []answer {
	var all []answer
	for _, b := range bodies {
		all = append(all, answer{http.StatusOK, b})
	}
	return all
}

func none() []answer { return []answer{{http.StatusNoContent, ""}} }

// shop is what the fake server answers.
func shop() map[string][]answer {
	const env = "/projects/shop/environments/prod"
	return map[string][]answer{
		"POST /session":   ok(sessionJSON),
		"GET /session":    ok(whoJSON),
		"DELETE /session": none(),

		"GET /users":              ok(list(`{"username":"ada","admin":true},{"username":"bob","admin":false}`)),
		"POST /users":             ok(`{"username":"bob","admin":false}`),
		"PUT /users/bob/password": none(),
		"PUT /users/ada/password": none(),

		"GET /projects":                     {{http.StatusOK, `{"items":[` + projectJSON + `],"next_page_token":"more"}`}},
		"GET /projects?page_token=more":     ok(list(`{"name":"lab","role":"viewer","created_at":"2026-02-02T03:04:05Z"}`)),
		"POST /projects":                    ok(projectJSON),
		"GET /projects/shop":                ok(projectJSON),
		"DELETE /projects/shop":             none(),
		"GET /projects/shop/members":        ok(list(`{"username":"ada","role":"owner"},{"username":"bob","role":"viewer"}`)),
		"PUT /projects/shop/members":        ok(list(`{"username":"ada","role":"owner"},{"username":"bob","role":"developer"}`)),
		"DELETE /projects/shop/members/bob": none(),
		"GET /projects/shop/environments":   ok(list(environmentJSON)),
		"GET /projects/lab":                 ok(`{"name":"lab","role":"viewer","created_at":"2026-02-02T03:04:05Z"}`),
		"GET /projects/lab/environments":    ok(list(`{"name":"dev","project":"lab"},{"name":"prod","project":"lab"}`)),
		"GET /projects/no":                  {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"GET /projects/no/environments":     {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"POST /projects/shop/environments":  ok(environmentJSON),
		"DELETE " + env:                     none(),

		"GET " + env + "/plans":                 ok(list(planJSON + "," + hardPlanJSON + "," + freePlanJSON)),
		"POST " + env + "/plans":                ok(forced(planJSON, forceJSON)),
		"GET " + env + "/plans/plan-starter":    ok(planJSON),
		"GET " + env + "/plans/plan-metered":    ok(hardPlanJSON),
		"PATCH " + env + "/plans/plan-starter":  ok(forced(planJSON, forceJSON)),
		"PATCH " + env + "/plans/plan-metered":  ok(forced(hardPlanJSON, forceJSON)),
		"DELETE " + env + "/plans/plan-starter": none(),

		"GET /projects/shop/api-keys":                                                  ok(list(keyJSON + "," + oldKeyJSON)),
		"GET /projects/shop/api-keys?environment=prod":                                 ok(list(keyJSON + "," + oldKeyJSON)),
		"GET /projects/shop/api-keys/key-ab12cd34":                                     ok(keyJSON),
		"GET /projects/shop/api-keys/key-zz99yy88":                                     ok(oldKeyJSON),
		"POST /projects/shop/api-keys/key-zz99yy88/rotate":                             ok(forced(issuedJSON, forceJSON)),
		"PATCH /projects/shop/api-keys/key-ab12cd34":                                   ok(forced(keyJSON, forceJSON)),
		"POST /projects/shop/api-keys/key-ab12cd34/revoke":                             ok(forced(revokedJSON, forceJSON)),
		"POST /projects/shop/api-keys/key-ab12cd34/rotate":                             {{http.StatusAccepted, forced(issuedJSON, waitingJSON)}},
		"POST " + env + "/api-keys":                                                    ok(forced(issuedJSON, forceJSON)),
		"GET /projects/shop/changes/7ff9ad4c":                                          ok(forceJSON),
		"GET /projects/shop/changes/7ff9ad4d":                                          {{http.StatusAccepted, waitingJSON}},
		"GET /projects/shop/api-keys/key-ab12cd34/usage":                               ok(usageJSON),
		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2026-03-11&to=2026-03-14": ok(usageJSON),

		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2026-03-12": ok(usageJSON),
		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2025-12-13": ok(usageJSON),

		"GET /projects/shop/audit": ok(list(auditPlan + "," + auditHook + "," + auditKey)),
		"GET /projects/shop/audit?action=plan.update&actor=ada&from=2026-03-07T15%3A09%3A26Z&resource=projects%2Fshop&to=2026-03-14T23%3A59%3A59.999999Z": ok(list(auditPlan)),
		"GET /audit": ok(list(auditSignIn)),

		"GET " + env + "/apps":                    ok(list(engagedJSON + "," + gitAppJSON)),
		"POST " + env + "/apps":                   ok(appJSON),
		"GET " + env + "/apps/hello":              ok(pendingJSON, engagedJSON),
		"GET " + env + "/apps/site":               ok(gitAppJSON),
		"PATCH " + env + "/apps/hello":            ok(pendingJSON),
		"DELETE " + env + "/apps/hello":           none(),
		"PUT " + env + "/apps/site/git-source":    ok(gitAppJSON),
		"DELETE " + env + "/apps/site/git-source": none(),
		"GET " + env + "/apps/hello/webhook":      ok(hookJSON),
		"GET " + env + "/apps/site/webhook":       ok(disabledJSON),
		"POST " + env + "/apps/hello/webhook":     ok(hookJSON),
		"POST " + env + "/apps/site/webhook":      ok(gitHookJSON),
		"DELETE " + env + "/apps/hello/webhook":   none(),
		"GET " + env + "/apps/hello/deployments":  ok(list(revision4+","+revision3), list(live4+","+revision3)),
		"POST " + env + "/apps/hello/deployments": ok(revision4),
		"POST " + env + "/apps/hello/rollback":    ok(rollback5),
		"POST " + env + "/apps/hello/promote":     ok(revision4),
		"GET " + env + "/apps/site/builds":        ok(list(runningJSON + "," + buildJSON)),
		"POST " + env + "/apps/site/builds":       ok(runningJSON),
		"GET " + env + "/apps/site/builds/7":      ok(buildJSON),
		"GET " + env + "/apps/site/builds/8":      ok(builtJSON),
	}
}
