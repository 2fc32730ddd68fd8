package cli

import (
	"maps"
	"net/http"
	"strings"
)

const (
	projectJSON     = `{"name":"shop","role":"owner","created_at":"2026-01-02T03:04:05Z","leak_policy":"disable"}`
	environmentJSON = `{"name":"prod","project":"shop","namespace":"shop-prod","created_at":"2026-01-02T03:04:05Z"}`
	planJSON        = `{"id":"plan-starter","name":"Starter","rate":0.5,"burst":5,"quota":1000,"quota_period":"day","quota_mode":"soft"}`
	hardPlanJSON    = `{"id":"plan-metered","name":"Metered","rate":20,"burst":40,"quota":1000000,"quota_period":"month","quota_mode":"hard"}`
	freePlanJSON    = `{"id":"plan-unlimited","name":"Unlimited","rate":100000,"burst":1000000,"quota":null,"quota_period":null,"quota_mode":null}`
	keyFields       = `"id":"key-ab12cd34","prefix":"ab12cd34","project":"shop","environment":"prod","plan":"plan-starter","name":"Checkout team",` +
		`"apps":["hello","site"],"tags":["batch","eu"],"status":"active","expires_at":"2026-03-20T00:00:00Z","created_at":"2026-01-02T03:04:05Z","created_by":"ada","previous_secret_expires_at":null,"last_seen":"2026-03-13",` +
		`"usage":{"week":[],"quota":` + quotaJSON + `}`
	quotaJSON  = `{"quota":1000,"period":"day","used":500,"resets_at":"2026-03-15T00:00:00Z"}`
	keyJSON    = `{` + keyFields + `}`
	issuedJSON = `{` + keyFields + `,"key":"sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"}`
	oldKeyJSON = `{"id":"key-zz99yy88","prefix":"zz99yy88","project":"shop","environment":"prod","plan":"plan-unlimited","name":"",` +
		`"apps":[],"status":"revoked","expires_at":null,"created_at":"2026-01-02T03:04:05Z","created_by":"bob","previous_secret_expires_at":"2026-03-15T00:00:00Z"}`
	revokedJSON    = `{` + `"id":"key-ab12cd34","prefix":"ab12cd34","project":"shop","environment":"prod","plan":"plan-starter","name":"","apps":[],"status":"revoked","expires_at":null,"created_at":"2026-01-02T03:04:05Z","created_by":"ada","previous_secret_expires_at":null}`
	leakedJSON     = `{"id":"key-le4k3d00","prefix":"le4k3d00","project":"shop","environment":"prod","plan":"plan-starter","name":"","apps":[],"status":"disabled","expires_at":null,"created_at":"2026-01-02T03:04:05Z","created_by":"ada","previous_secret_expires_at":null,"leak":{"at":"2026-03-14T12:00:00Z","by":"program:github","found_at":"https://git.example.com/x","found_in":"commit","secret":"current"}}`
	tokenFields    = `"id":"token-ab12cd34ef56","project":"shop","name":"nightly","role":"developer","status":"active","expires_at":"2026-06-12T15:09:26Z","created_at":"2026-03-14T15:09:26Z","created_by":"ada",`
	remainingJSON  = `"token_count":2,"tokens":[{"id":"token-ab12cd34ef56","name":"nightly","project":"shop","role":"developer","expires_at":"2026-06-12T15:09:26Z"}]`
	tokenJSON      = `{` + tokenFields + `"last_used_at":"2026-03-14T15:05:00Z"}`
	oldTokenJSON   = `{"id":"token-zz99yy88xx77","project":"shop","name":"infrastructure","role":"owner","status":"expired","expires_at":"2026-03-14T00:00:00Z","created_at":"2026-01-02T03:04:05Z","created_by":"bob","last_used_at":null}`
	bearerJSON     = `{` + tokenFields + `"last_used_at":null,"token":"sluice_st_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123456789"}`
	serviceJSON    = `{"csrf_token":"","expires_at":"2026-06-12T15:09:26Z","user":{"username":"token:nightly","admin":false},"service_token":{"id":"token-ab12cd34ef56","name":"nightly","project":"shop","role":"developer"}}`
	appStart       = `{"name":"hello","project":"shop","environment":"prod","host":"hello.shop-prod.example.com","url":"https://hello.shop-prod.example.com","port":8080,"kind":"image","image":"registry.example.com/shop/hello:v1","git_source":null,`
	appJSON        = appStart + `"require_api_key":false,"preflight":"app","gate":{"state":"ungated","since":"2026-01-02T03:04:05Z","message":""},"revision":3}`
	pendingJSON    = appStart + `"require_api_key":true,"preflight":"refuse","gate":{"state":"pending","since":"2026-03-14T15:09:00Z","message":"the probe was answered 200"},"revision":3}`
	engagedJSON    = appStart + `"require_api_key":true,"preflight":"app","gate":{"state":"engaged","since":"2026-03-14T15:09:20Z","message":""},"revision":3}`
	gitAppJSON     = `{"name":"site","project":"shop","environment":"prod","host":"site.shop-prod.example.com","url":"https://site.shop-prod.example.com","port":8080,"kind":"git","image":"registry.example.com/shop/site@sha256:0000000000000000000000000000000000000000000000000000000000000001","git_source":{"repository":"https://git.example.com/shop/site","branch":"main","path":"web"},"require_api_key":true,"preflight":"app","gate":{"state":"engaged","since":"2026-03-14T15:09:20Z","message":""},"revision":12}`
	revision4      = `{"revision":4,"image":"registry.example.com/shop/hello:v2","trigger":"manual","actor":"ada","status":"rolling_out","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	live4          = `{"revision":4,"image":"registry.example.com/shop/hello:v2","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000002","trigger":"manual","actor":"ada","status":"live","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	failed4        = `{"revision":4,"image":"registry.example.com/shop/hello:v2","trigger":"manual","actor":"ada","status":"failed","message":"not ready within 2m0s: ImagePullBackOff","deployed_at":"2026-03-14T15:09:20Z","current":true}`
	revision3      = `{"revision":3,"image":"registry.example.com/shop/hello:v1","commit":"0123456789abcdef0123456789abcdef01234567","trigger":"webhook","actor":"webhook","status":"superseded","deployed_at":"2026-03-13T10:00:00Z","current":false}`
	rollback5      = `{"revision":5,"image":"registry.example.com/shop/hello:v1","trigger":"rollback","actor":"ada","source_revision":3,"status":"rolling_out","deployed_at":"2026-03-14T15:09:25Z","current":true}`
	hookJSON       = `{"enabled":true,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/hello","token":"dG9rZW4tb2YtdGhlLXdlYmhvb2s","issuers":["https://token.actions.githubusercontent.com"]}`
	gitHookJSON    = `{"enabled":true,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/site","token":"dG9rZW4tb2YtdGhlLXdlYmhvb2s","issuers":["https://token.actions.githubusercontent.com"]}`
	disabledJSON   = `{"enabled":false,"url":"https://sluice.example.com/api/v1/webhook/shop-prod/site","token":null,"issuers":["https://token.actions.githubusercontent.com"]}`
	trustJSON      = `{"id":"trust-k3xq7m2pza","provider":"github","issuer":"https://token.actions.githubusercontent.com","audience":"https://sluice.example.com/api/v1/webhook/shop-prod/hello","claims":{"ref":"refs/heads/main","repository":"shop/hello","workflow":"deploy"},"open":false,"created_at":"2026-03-14T15:09:00Z","created_by":"ada"}`
	openTrustJSON  = `{"id":"trust-openopen22","provider":"github","issuer":"https://token.actions.githubusercontent.com","audience":"https://sluice.example.com/api/v1/webhook/shop-prod/hello","claims":{"repository":"shop/hello"},"open":true,"created_at":"2026-03-14T15:09:00Z","created_by":"ada"}`
	deliveryStart  = `"at":"2026-03-14T15:09:00Z","last_at":"2026-03-14T15:09:00Z","count":1,`
	deliveriesJSON = `{"id":"d6",` + deliveryStart + `"result":"deployed","code":null,"reason":null,"event":null,"revision":4,"build":null,"commit":"0123456789abcdef0123456789abcdef01234567","request_id":"r-6","delivery":null},` +
		`{"id":"d5",` + deliveryStart + `"result":"building","code":null,"reason":null,"event":"push","revision":null,"build":7,"commit":null,"request_id":"r-5","delivery":"72d3162e-cc78-11e3-81ab-4c9367dc0958"},` +
		`{"id":"d4",` + deliveryStart + `"result":"replayed","code":null,"reason":null,"event":"push","revision":null,"build":7,"commit":null,"request_id":"r-4","delivery":"72d3162e-cc78-11e3-81ab-4c9367dc0958"},` +
		`{"id":"d3",` + deliveryStart + `"result":"ignored","code":null,"reason":"Only push events trigger a deployment.","event":"issues","revision":null,"build":null,"commit":null,"request_id":"r-3","delivery":null},` +
		`{"id":"d2",` + deliveryStart + `"result":"refused","code":"image_required","reason":null,"event":null,"revision":null,"build":null,"commit":null,"request_id":"r-2","delivery":null},` +
		`{"id":"d1","at":"2026-03-14T10:31:00Z","last_at":"2026-03-14T10:52:00Z","count":12,"result":"unproven","code":"invalid_token","reason":null,"event":null,"revision":null,"build":null,"commit":null,"request_id":"r-1","delivery":null}`
	pongJSON    = `{"result":"pong","status":200,"message":"The webhook responded to the ping.","request_id":"r-7","duration_ms":12}`
	noPongJSON  = `{"result":"unreachable","status":null,"message":"The webhook's address cannot be reached from Sluice itself: its name was not found.","request_id":"r-8","duration_ms":3}`
	buildJSON   = `{"build":7,"commit":"0123456789abcdef0123456789abcdef01234567","git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"webhook","status":"succeeded","image":"registry.example.com/shop/site:b7","revision":12,"requested_at":"2026-03-14T15:00:00Z","finished_at":"2026-03-14T15:05:00Z"}`
	runningJSON = `{"build":8,"git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"ada","status":"running","requested_at":"2026-03-14T15:08:00Z","finished_at":null}`
	builtJSON   = `{"build":8,"commit":"0123456789abcdef0123456789abcdef01234567","git_source":{"repository":"https://git.example.com/shop/site","branch":"main"},"actor":"ada","status":"succeeded","image":"registry.example.com/shop/site:b8","revision":13,"requested_at":"2026-03-14T15:08:00Z","finished_at":"2026-03-14T15:09:00Z"}`
	deletedJSON = `{"key_count":101,"keys":[{"key_id":"key-ab12cd34","name":"Checkout team","apps":["hello"],"scope":"apps"},{"key_id":"key-zz99yy88","name":"","apps":[],"scope":"none"}]}`
	foundJSON   = `{"key":{` + keyFields + `},"secret":"current"}`
	wholeJSON   = `{"environment":"prod","from":"2026-03-08","to":"2026-03-14","retention_days":92,"totals":{"allowed":1501,"rate_denied":40,"quota_denied":1},` +
		`"days":[{"date":"2026-03-12","allowed":1000,"rate_denied":0,"quota_denied":0},{"date":"2026-03-13","allowed":1,"rate_denied":0,"quota_denied":0},{"date":"2026-03-14","allowed":500,"rate_denied":40,"quota_denied":1}],` +
		`"keys":{"active":4,"disabled":1,"expired":1,"revoked":0},"busiest":[],"checkers":{"proving":2,"denying":1},"as_of":"2026-03-14T15:09:00Z",` +
		`"leaked_tokens":[{"token_id":"token-ab12cd34ef56","name":"nightly","at":"2026-03-13T09:00:00Z","by":"program:github","found_at":"https://git.example.com/x","found_in":"commit"}],"attention":[` +
		`{"key_id":"key-ab12cd34","prefix":"ab12cd34","name":"Checkout team","reason":"quota_used_up","at":"2026-03-15T00:00:00Z","share":1},` +
		`{"key_id":"key-zz99yy88","prefix":"zz99yy88","name":"","reason":"expired","at":"2026-03-13T00:00:00Z","share":null},` +
		`{"key_id":"key-cc11dd22","prefix":"cc11dd22","name":"Reports","reason":"quota_high","at":"2026-04-01T00:00:00Z","share":0.92},` +
		`{"key_id":"key-dd11dd22","prefix":"dd11dd22","name":"Old partner","reason":"expires_soon","at":"2026-03-20T00:00:00Z","share":null},` +
		`{"key_id":"key-ee11dd22","prefix":"ee11dd22","name":"Crawler","reason":"rate_exceeded","at":"2026-03-15T00:00:00Z","share":0.4}]}`
	usageJSON = `{"key_id":"key-ab12cd34","from":"2026-03-11","to":"2026-03-14","retention_days":92,"totals":{"allowed":1501,"rate_denied":40,"quota_denied":1},"incomplete":[],"last_seen":"2026-03-14","as_of":"2026-03-14T15:09:20Z",` +
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
	sessionJSON = `{"token":"new-token","csrf_token":"c","expires_at":"2026-03-15T03:09:26Z","user":{"username":"ada","admin":true},"service_token":null}`
	whoJSON     = `{"csrf_token":"c","expires_at":"2026-03-15T03:09:26Z","user":{"username":"ada","admin":true},"service_token":null}`
)

const (
	planForecastJSON = `{"quota":500,"quota_period":"day","from":"2025-12-13","keys":3,"exceeding":2,"would_exceed":[` +
		`{"key_id":"key-ab12cd34","prefix":"ab12cd34","name":"Checkout team","period_start":"2026-03-12","used":1000,"quota":500,"periods":7},` +
		`{"key_id":"key-zz99yy88","prefix":"zz99yy88","name":"","period_start":"2026-01-01","used":501,"quota":500,"periods":1}],` +
		`"rate":"unknown","incomplete":["2026-01-07"],"as_of":"2026-03-14T15:09:20Z","age_seconds":6}`
	noExcessJSON     = `{"quota":500,"quota_period":"month","from":"2025-12-13","keys":1,"exceeding":0,"would_exceed":[],"rate":"unknown","incomplete":[],"as_of":"2026-03-14T15:09:20Z","age_seconds":6}`
	gateForecastJSON = `{"keys":{"usable":12,"disabled":1,"expired":2,"never_seen":3},"observed":{"state":"none","message":"The number is unknown."},"as_of":"2026-03-14T15:09:20Z","age_seconds":6}`

	explainedJSON = `{"request_id":"7Q2ZLOKXH3BD","denials":[{"at":"2026-03-14T15:09:26.038Z","code":"invalid_key","reason":"expired","explanation":"The key has expired. Change its expiry, or create another key.","environment":"prod","app":"hello","key_id":"key-ab12cd34","key_prefix":"ab12cd34","key_name":"Checkout team","method":"GET","replica":"checker-0"},{"at":"2026-03-14T15:09:20.001Z","code":"invalid_key","reason":"unknown","explanation":"The key does not exist in this project.","environment":"prod","app":"hello","key_id":null,"key_prefix":null,"key_name":null,"method":"\u001b[31mGET","replica":"checker-0"}],"asked":2,"answered":1}`
	forceJSON     = `{"change":"7ff9ad4c","everywhere":true,"at":"2026-03-14T15:09:26.038Z","replicas":[{"replica":"checker-0","state":"applied","after_ms":21},{"replica":"checker-1","state":"applied","after_ms":38}]}`
	bulkFields    = `"changed":1,"unchanged":1,"failed":1,"results":[{"key_id":"key-ab12cd34","name":"Checkout team","outcome":"changed","code":null,"message":null,"before":{"plan":"plan-starter","status":"active","expires_at":"2026-03-20T00:00:00Z","tags":["batch"]},"after":{"plan":"plan-unlimited","status":"disabled","expires_at":null,"tags":[]}},` +
		`{"key_id":"key-dd11dd22","name":"","outcome":"unchanged","code":null,"message":null,"before":{"plan":"plan-starter","status":"disabled","expires_at":null,"tags":[]},"after":{"plan":"plan-starter","status":"disabled","expires_at":null,"tags":[]}},` +
		`{"key_id":"key-zz99yy88","name":"","outcome":"failed","code":"key_revoked","message":"The key is revoked.","before":{"plan":"plan-starter","status":"revoked","expires_at":null,"tags":[]},"after":null}]`
	waitingJSON = `{"change":"7ff9ad4c","everywhere":false,"at":null,"replicas":[{"replica":"checker-0","state":"applied","after_ms":21},{"replica":"checker-1","state":"silent","denies_from":"2026-03-14T15:10:31Z"}]}`
)

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

func shopWith(replaced map[string][]answer) map[string][]answer {
	answers := shop()
	maps.Copy(answers, replaced)
	return answers
}

func shop() map[string][]answer {
	const env = "/projects/shop/environments/prod"
	return map[string][]answer{
		"GET /projects/shop/api-keys?environment=prod&unused_for=2160h": ok(list(keyJSON + "," + oldKeyJSON)),
		"GET /projects/shop/api-keys?environment=prod&tag=batch":        ok(list(keyJSON)),
		"POST " + env + "/api-keys/bulk":                                ok("{" + bulkFields + `,"in_force":` + forceJSON + "}"),
		"GET " + env + "/usage.csv?from=2026-03-01&per=day":             ok("key_id,name\r\nkey-ab12cd34,Checkout team\r\n"),

		"POST /session":   ok(sessionJSON),
		"GET /session":    ok(whoJSON),
		"DELETE /session": none(),

		"GET /users":                 ok(list(`{"username":"ada","admin":true,"state":"active","last_sign_in":"2026-03-14T15:05:00Z"},{"username":"bob","admin":false,"state":"deactivated","last_sign_in":null}`)),
		"POST /users":                ok(`{"username":"bob","admin":false,"state":"active","last_sign_in":null}`),
		"PUT /users/bob/password":    none(),
		"PATCH /users/bob":           ok(`{"username":"bob","admin":false,"state":"deactivated","last_sign_in":"2026-03-14T15:05:00Z",` + remainingJSON + `}`),
		"DELETE /users/bob":          ok(`{` + remainingJSON + `}`),
		"DELETE /users/bob/sessions": ok(`{"token_count":null,"tokens":[]}`),

		"GET /host-reservations":                    ok(list(`{"host":"www.example.com","app":"shop-prod.hello","project":"shop","until":"2026-04-13T15:09:26Z"}`)),
		"DELETE /host-reservations/www.example.com": none(),

		"PUT /users/ada/password": none(),

		"GET /projects":                     {{http.StatusOK, `{"items":[` + projectJSON + `],"next_page_token":"more"}`}},
		"GET /projects?page_token=more":     ok(list(`{"name":"lab","role":"viewer","created_at":"2026-02-02T03:04:05Z"}`)),
		"POST /projects":                    ok(projectJSON),
		"GET /projects/shop":                ok(projectJSON),
		"DELETE /projects/shop":             none(),
		"GET /projects/shop/members":        ok(list(`{"username":"ada","role":"owner"},{"username":"bob","role":"viewer"}`)),
		"PUT /projects/shop/members":        ok(list(`{"username":"ada","role":"owner"},{"username":"bob","role":"developer"}`)),
		"DELETE /projects/shop/members/bob": none(),
		"GET /projects/shop/tokens":         ok(list(tokenJSON + "," + oldTokenJSON)),
		"POST /projects/shop/tokens":        ok(bearerJSON),
		"GET " + env:                        ok(environmentJSON),

		"GET /projects/shop/tokens/token-ab12cd34ef56": ok(tokenJSON),
		"GET /projects/shop/tokens/token-zz99yy88xx77": ok(oldTokenJSON),
		"GET /projects/shop/environments/dev":          {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"GET /projects/lab/environments/prod":          ok(`{"name":"prod","project":"lab"}`),
		"GET /projects/lab/environments/dev":           ok(`{"name":"dev","project":"lab"}`),
		"GET /projects/no/environments/prod":           {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"GET /projects/shop/environments":              ok(list(environmentJSON)),
		"GET /projects/lab":                            ok(`{"name":"lab","role":"viewer","created_at":"2026-02-02T03:04:05Z"}`),
		"GET /projects/lab/environments":               ok(list(`{"name":"dev","project":"lab"},{"name":"prod","project":"lab"}`)),
		"GET /projects/no":                             {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"GET /projects/no/environments":                {{http.StatusNotFound, `{"code":"not_found","message":"M."}`}},
		"POST /projects/shop/environments":             ok(environmentJSON),
		"DELETE " + env:                                none(),

		"DELETE /projects/shop/tokens/token-ab12cd34ef56": ok(`{"key_count":2,"keys":[{"key_id":"key-ab12cd34","prefix":"ab12cd34","name":"Checkout team","environment":"prod"}]}`),
		"DELETE /projects/shop/tokens/token-zz99yy88xx77": ok(`{"key_count":0,"keys":[]}`),

		"GET " + env + "/plans":                 ok(list(planJSON + "," + hardPlanJSON + "," + freePlanJSON)),
		"POST " + env + "/plans":                ok(forced(planJSON, forceJSON)),
		"GET " + env + "/plans/plan-starter":    ok(planJSON),
		"GET " + env + "/plans/plan-metered":    ok(hardPlanJSON),
		"PATCH " + env + "/plans/plan-starter":  ok(forced(planJSON, forceJSON)),
		"PATCH " + env + "/plans/plan-metered":  ok(forced(hardPlanJSON, forceJSON)),
		"DELETE " + env + "/plans/plan-starter": none(),

		"POST " + env + "/plans/plan-starter/forecast": ok(planForecastJSON),
		"POST " + env + "/plans/plan-metered/forecast": ok(noExcessJSON),
		"GET " + env + "/apps/hello/gate/forecast":     ok(gateForecastJSON),

		"GET /projects/shop/api-keys?search=Checkout_team":                                       ok(list(strings.Replace(keyJSON, "Checkout team", "Checkout_team", 1))),
		"GET /projects/shop/api-keys?app=hello&environment=prod&plan=plan-starter&status=active": ok(list(keyJSON)),
		"GET /projects/shop/api-keys":                                                            ok(list(keyJSON + "," + oldKeyJSON)),
		"GET /projects/shop/api-keys?environment=prod":                                           ok(list(keyJSON + "," + oldKeyJSON)),
		"GET /projects/shop/api-keys/key-ab12cd34":                                               ok(keyJSON),
		"GET /projects/shop/api-keys/key-zz99yy88":                                               ok(oldKeyJSON),
		"POST /projects/shop/api-keys/key-ab12cd34/quota/release":                                ok(`{"released":520,"held":1310}`),
		"POST /projects/shop/api-keys/key-zz99yy88/rotate":                                       ok(forced(issuedJSON, forceJSON)),
		"PATCH /projects/shop/api-keys/key-ab12cd34":                                             ok(forced(keyJSON, forceJSON)),
		"POST /projects/shop/api-keys/key-ab12cd34/revoke":                                       ok(forced(revokedJSON, forceJSON)),
		"POST /projects/shop/api-keys/key-ab12cd34/rotate":                                       {{http.StatusAccepted, forced(issuedJSON, waitingJSON)}},
		"POST " + env + "/api-keys":                                                              ok(forced(issuedJSON, forceJSON)),
		"GET /projects/shop/changes/7ff9ad4c":                                                    ok(forceJSON),
		"GET /projects/shop/changes/7ff9ad4d":                                                    {{http.StatusAccepted, waitingJSON}},
		"GET /projects/shop/requests/7Q2ZLOKXH3BD":                                               ok(explainedJSON),
		"GET /projects/shop/requests/nobodys":                                                    ok(`{"request_id":"nobodys","denials":[],"asked":2,"answered":2}`),
		"GET /projects/shop/api-keys/key-ab12cd34/usage":                                         ok(usageJSON),
		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2026-03-11&to=2026-03-14":           ok(usageJSON),

		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2026-03-12": ok(usageJSON),
		"GET /projects/shop/api-keys/key-ab12cd34/usage?from=2025-12-13": ok(usageJSON),

		"GET /projects/shop/api-keys/key-le4k3d00": ok(leakedJSON),

		"PATCH /projects/shop":                  ok(strings.Replace(projectJSON, "disable", "revoke", 1)),
		"POST /leaks/report":                    ok(`{"received":1}`),
		"POST /projects/shop/api-keys/find":     ok(foundJSON),
		"GET " + env + "/usage?from=2026-03-08": ok(wholeJSON),

		"GET /projects/shop/audit": ok(list(auditPlan + "," + auditHook + "," + auditKey)),
		"GET /projects/shop/audit?action=plan.update&actor=ada&from=2026-03-07T15%3A09%3A26Z&resource=projects%2Fshop&to=2026-03-14T23%3A59%3A59.999999Z": ok(list(auditPlan)),
		"GET /projects/shop/environments/prod/activity":                                                              ok(list(happened(auditHook, `"status":"failed","message":"The image cannot be pulled.","key_name":null,"calls":null`) + "," + happened(auditKey, `"status":null,"message":null,"key_name":"Checkout team","calls":null`))),
		"GET /projects/shop/environments/prod/activity?actor=webhook&from=2026-03-07T15%3A09%3A26Z&kind=deployments": ok(list(happened(auditHook, `"status":"failed","message":"The image cannot be pulled.","key_name":null,"calls":null`) + "," + happened(auditKey, `"status":null,"message":null,"key_name":"Checkout team","calls":null`))),
		"GET /audit": ok(list(auditSignIn)),

		"GET " + env + "/apps":                    ok(list(engagedJSON + "," + gitAppJSON)),
		"POST " + env + "/apps":                   ok(appJSON),
		"GET " + env + "/apps/hello":              ok(pendingJSON, engagedJSON),
		"GET " + env + "/apps/site":               ok(gitAppJSON),
		"PATCH " + env + "/apps/hello":            ok(pendingJSON),
		"DELETE " + env + "/apps/hello":           ok(`{"key_count":0,"keys":[],"host":"hello-shop-prod.apps.example.com","host_reserved_until":"2026-04-13T15:09:26Z"}`),
		"DELETE " + env + "/apps/site":            ok(deletedJSON),
		"PUT " + env + "/apps/site/git-source":    ok(gitAppJSON),
		"DELETE " + env + "/apps/site/git-source": none(),
		"GET " + env + "/apps/hello/webhook":      ok(hookJSON),
		"GET " + env + "/apps/site/webhook":       ok(disabledJSON),
		"POST " + env + "/apps/hello/webhook":     ok(hookJSON),
		"POST " + env + "/apps/site/webhook":      ok(gitHookJSON),
		"DELETE " + env + "/apps/hello/webhook":   none(),

		"GET " + env + "/apps/hello/webhook/deliveries":                 ok(list(deliveriesJSON)),
		"GET " + env + "/apps/site/webhook/deliveries":                  ok(list("")),
		"GET " + env + "/apps/hello/webhook/trusts":                     ok(list(trustJSON + "," + openTrustJSON)),
		"GET " + env + "/apps/site/webhook/trusts":                      ok(list("")),
		"POST " + env + "/apps/hello/webhook/trusts":                    ok(trustJSON),
		"DELETE " + env + "/apps/hello/webhook/trusts/trust-k3xq7m2pza": none(),

		"POST " + env + "/apps/hello/webhook/test": ok(pongJSON),
		"POST " + env + "/apps/site/webhook/test":  ok(noPongJSON),
		"GET " + env + "/apps/hello/deployments":   ok(list(revision4+","+revision3), list(live4+","+revision3)),
		"GET " + env + "/apps/hello/deployments/4": ok(revision4, live4),
		"POST " + env + "/apps/hello/deployments":  ok(revision4),
		"POST " + env + "/apps/hello/rollback":     ok(rollback5),
		"POST " + env + "/apps/hello/promote":      ok(revision4),
		"GET " + env + "/apps/site/builds":         ok(list(runningJSON + "," + buildJSON)),
		"POST " + env + "/apps/site/builds":        ok(runningJSON),
		"GET " + env + "/apps/site/builds/7":       ok(buildJSON),
		"GET " + env + "/apps/site/builds/8":       ok(builtJSON),
	}
}

func happened(record, more string) string { return strings.TrimSuffix(record, "}") + "," + more + "}" }
