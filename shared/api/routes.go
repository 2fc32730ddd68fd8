package api

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// Base is the prefix of all paths.
const Base = "/api/v1"

const (
	project     = Base + "/projects/{project}"
	environment = project + "/environments/{environment}"
	anApp       = environment + "/apps/{app}"
	aPlan       = environment + "/plans/{plan_id}"
	aKey        = project + "/api-keys/{key_id}"
	webhook     = Base + "/webhook/{namespace}/{app}"
)

// table contains the rows below. Only route appends to it, during initialization.
var table []*Row //nolint:gochecknoglobals // filled once

func route[Req, Res any](function, pattern string, need Access, status int, summary string, problems ...problem.Code) Route[Req, Res] {
	method, path, _ := strings.Cut(pattern, " ")
	row := &Row{
		Function: function, Method: method, Path: path, Need: need, Status: status, Summary: summary, Problems: problems,
		Request: reflect.TypeFor[Req](), Answer: reflect.TypeFor[Res](),
	}
	table = append(table, row)
	return Route[Req, Res]{row}
}

func (r Route[Req, Res]) or(status int, when string, answer reflect.Type) Route[Req, Res] {
	r.Others = append(r.Others, Answer{status, when, answer})
	return r
}

func (r Route[Req, Res]) media(kind string) Route[Req, Res] {
	r.Media = kind
	return r
}

// file marks a response that is the same for all callers and that clients can cache.
func (r Route[Req, Res]) file() Route[Req, Res] {
	return r.reads("If-None-Match", "Accept-Encoding").or(http.StatusNotModified, "the client's copy is current", reflect.TypeFor[None]()).raw("serves a file")
}

func (r Route[Req, Res]) optional() Route[Req, Res] {
	r.Optional = true
	return r
}

func (r Route[Req, Res]) reads(headers ...string) Route[Req, Res] {
	r.Headers = headers
	return r
}

func (r Route[Req, Res]) etag() Route[Req, Res] {
	r.Tagged = true
	return r
}

func (r Route[Req, Res]) ifMatch() Route[Req, Res] {
	r.Headers = append(r.Headers, IfMatch)
	return r
}

// repeats marks a route that honors Idempotency-Key: a repeated call gets the first call's result.
func (r Route[Req, Res]) repeats() Route[Req, Res] {
	r.Headers, r.Repeats = append(r.Headers, IdempotencyKey), true
	r.Problems = append(r.Problems, problem.IdempotencyKeyReused)
	return r
}

// preferWait marks a change for which Prefer: wait delays the response until the change is in
// force at every checker.
func (r Route[Req, Res]) preferWait() Route[Req, Res] {
	r.Headers = append(r.Headers, Prefer)
	if r.Status == http.StatusCreated { // stays 201: the resource exists, and in_force reports the rest
		return r
	}
	return r.or(http.StatusAccepted, "the change is stored, but not confirmed to be in force at every checker", r.Answer)
}

// begins marks a call that starts work which continues after the response. read is the route
// that reads the work; its path is the path of this route's resource plus the work's number.
func (r Route[Req, Res]) begins(read *Row) Route[Req, Res] {
	r.Begins = read
	return r
}

// noServiceTokens reserves the route for users who sign in. A service token must not gain
// permissions or create a credential that outlives its revocation. API keys are the exception.
func (r Route[Req, Res]) noServiceTokens() Route[Req, Res] {
	r.People = true
	return r
}

func (r Route[Req, Res]) recorded() Route[Req, Res] {
	r.Recorded = true
	return r
}

// free marks a route whose calls do not count against the caller's budget.
func (r Route[Req, Res]) free() Route[Req, Res] {
	r.Free = true
	return r
}

// raw marks a handler that processes the request itself, and states the reason.
func (r Route[Req, Res]) raw(why string) Route[Req, Res] {
	r.Raw = why
	return r
}

// details adds sentences to the summary, for the description of the operation.
func (r Route[Req, Res]) details(text string) Route[Req, Res] {
	r.Details = text
	return r
}

// The session function: sessions and users.
//
//nolint:gochecknoglobals // a constant table
var (
	SignIn = route[wire.SignIn, wire.OpenedSession]("session", "POST "+Base+"/session", Nothing, http.StatusOK,
		"Sign in", problem.MissingField, problem.InvalidCredentials, problem.RateLimited).raw("sets the session cookie")
	GetSession = route[None, wire.Session]("session", "GET "+Base+"/session", SignedIn, http.StatusOK,
		"Get the current session: user or service token, expiry and CSRF token")
	SignOut = route[None, None]("session", "DELETE "+Base+"/session", SignedIn, http.StatusNoContent,
		"Sign out and invalidate the session token immediately").noServiceTokens().free().raw("clears the session cookie")
	EndOwnSessions = route[None, wire.RemainingTokens]("session", "DELETE "+Base+"/session/all", SignedIn, http.StatusOK,
		"End all sessions of the caller").noServiceTokens().free().raw("clears the session cookie").
		details("The response lists the service tokens that the caller created; they stay valid.")
	ListUsers = route[Page, wire.List[wire.User]]("session", "GET "+Base+"/users", Admin, http.StatusOK,
		"List users", problem.InvalidPage)
	GetUser = route[None, wire.User]("session", "GET "+Base+"/users/{username}", Admin, http.StatusOK,
		"Get a user")
	CreateUser = route[wire.CreateUser, wire.User]("session", "POST "+Base+"/users", Admin, http.StatusCreated,
		"Create a user", problem.MissingField, problem.InvalidName, problem.InvalidPass, problem.AlreadyExists, problem.RateLimited)
	UpdateUser = route[wire.UpdateUser, wire.UpdatedUser]("session", "PATCH "+Base+"/users/{username}", Admin, http.StatusOK,
		"Deactivate or activate a user; grant or revoke admin rights", problem.MissingField, problem.InvalidState, problem.LastAdmin).
		details("Both take effect with the user's next request. Deactivation ends all sessions. The response lists the service tokens that the user created; they stay valid.")
	RemoveUser = route[None, wire.RemainingTokens]("session", "DELETE "+Base+"/users/{username}", Admin, http.StatusOK,
		"Remove a user from all projects and delete the user", problem.LastAdmin, problem.LastOwner).
		details("All sessions of the user end. The response lists the service tokens that the user created; they stay valid.")
	EndSessions = route[None, wire.RemainingTokens]("session", "DELETE "+Base+"/users/{username}/sessions", Admin, http.StatusOK,
		"End all sessions of a user").
		details("The response lists the service tokens that the user created; they stay valid.")
	ChangePassword = route[wire.ChangePassword, None]("session", "PUT "+Base+"/users/{username}/password", SignedIn, http.StatusNoContent,
		"Set a user's password and end the user's sessions",
		problem.MissingField, problem.InvalidPass, problem.InvalidCredentials, problem.RateLimited, problem.Forbidden, problem.Conflict).noServiceTokens().
		details("Only admins can set another user's password.")
)

// The apps function: projects, members, environments, apps, webhooks and the audit log.
//
//nolint:gochecknoglobals // a constant table
var (
	ListProjects = route[Page, wire.List[wire.Project]]("apps", "GET "+Base+"/projects", SignedIn, http.StatusOK,
		"List the caller's projects", problem.InvalidPage).
		details("The list contains all projects for admins, and only its own project for a service token.")
	CreateProject = route[wire.CreateProject, wire.Project]("apps", "POST "+Base+"/projects", Admin, http.StatusCreated,
		"Create a project", problem.MissingField, problem.InvalidName, problem.AlreadyExists)
	GetProject = route[None, wire.Project]("apps", "GET "+project, Viewer, http.StatusOK,
		"Get a project").etag()
	UpdateProject = route[wire.UpdateProject, wire.Project]("apps", "PATCH "+project, Owner, http.StatusOK,
		"Update a project's settings: the leak policy and the allowed registries",
		problem.MissingField, problem.InvalidPolicy, problem.InvalidRegistries).ifMatch().etag()
	DeleteProject = route[None, None]("apps", "DELETE "+project, Owner, http.StatusNoContent,
		"Delete a project that has no environments", problem.NotEmpty)
	ListMembers = route[Page, wire.List[wire.Member]]("apps", "GET "+project+"/members", Viewer, http.StatusOK,
		"List a project's members", problem.InvalidPage).etag()
	GetMember = route[None, wire.Member]("apps", "GET "+project+"/members/{username}", Viewer, http.StatusOK,
		"Get a project member").etag().
		details("The ETag is that of the member list.")
	SetMembers = route[wire.SetMembers, wire.List[wire.Member]]("apps", "PUT "+project+"/members", Owner, http.StatusOK,
		"Replace a project's members",
		problem.MissingField, problem.InvalidRole, problem.InvalidName, problem.LastOwner, problem.UnknownUser).noServiceTokens().ifMatch().etag()
	RemoveMember = route[None, None]("apps", "DELETE "+project+"/members/{username}", Owner, http.StatusNoContent,
		"Remove a member from a project", problem.LastOwner).noServiceTokens().ifMatch()
	ListTokens = route[Page, wire.List[wire.Token]]("apps", "GET "+project+"/tokens", Viewer, http.StatusOK,
		"List a project's service tokens, without their secrets", problem.InvalidPage)
	GetToken = route[None, wire.Token]("apps", "GET "+project+"/tokens/{token_id}", Viewer, http.StatusOK,
		"Get a service token, without its secret")
	CreateToken = route[wire.CreateToken, wire.IssuedToken]("apps", "POST "+project+"/tokens", Owner, http.StatusCreated,
		"Create a service token; only this response contains the full token",
		problem.MissingField, problem.InvalidName, problem.InvalidRole, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.AlreadyExists, problem.TooManyTokens).noServiceTokens()
	RevokeToken = route[None, wire.RevokedToken]("apps", "DELETE "+project+"/tokens/{token_id}", Owner, http.StatusOK,
		"Revoke a service token permanently and immediately").noServiceTokens().
		details("The response lists the API keys that the token issued. They stay valid.")
	ListEnvironments = route[Page, wire.List[wire.Environment]]("apps", "GET "+project+"/environments", Viewer, http.StatusOK,
		"List a project's environments", problem.InvalidPage)
	GetEnvironment = route[None, wire.Environment]("apps", "GET "+environment, Viewer, http.StatusOK,
		"Get an environment")
	CreateEnvironment = route[wire.CreateEnvironment, wire.Environment]("apps", "POST "+project+"/environments", Owner, http.StatusCreated,
		"Create an environment and its namespace",
		problem.MissingField, problem.InvalidName, problem.AlreadyExists, problem.NamespaceTaken, problem.NamespaceNotEmpty)
	DeleteEnvironment = route[None, None]("apps", "DELETE "+environment, Owner, http.StatusNoContent,
		"Delete an environment that has no apps, plans or usable keys", problem.NotEmpty)
	ListHostReservations = route[Page, wire.List[wire.HostReservation]]("apps", "GET "+Base+"/host-reservations", Admin, http.StatusOK,
		"List reserved hosts", problem.InvalidPage).
		details("A host that an app gave up stays reserved for the app's project for 30 days.")
	ReleaseHost = route[None, None]("apps", "DELETE "+Base+"/host-reservations/{host}", Admin, http.StatusNoContent,
		"Release a reserved host").
		details("Any project can use the host afterwards.")
	ListApps = route[Page, wire.List[wire.App]]("apps", "GET "+environment+"/apps", Viewer, http.StatusOK,
		"List an environment's apps", problem.InvalidPage)
	CreateApp = route[wire.CreateApp, wire.App]("apps", "POST "+environment+"/apps", Developer, http.StatusCreated,
		"Create an app from an image or a git repository",
		problem.MissingField, problem.InvalidName, problem.InvalidImage, problem.RegistryNotAllowed, problem.InvalidSource, problem.InvalidHost, problem.InvalidPort,
		problem.InvalidPreflight, problem.AlreadyExists, problem.HostTaken, problem.HostReserved, problem.NameTaken, problem.NameInScope).etag()
	GetApp = route[None, wire.App]("apps", "GET "+anApp, Viewer, http.StatusOK,
		"Get an app and the state of its gate").free().etag()
	UpdateApp = route[wire.UpdateApp, wire.App]("apps", "PATCH "+anApp, Developer, http.StatusOK,
		"Update an app: Require API key, CORS preflights, host or port",
		problem.InvalidPreflight, problem.InvalidHost, problem.InvalidPort, problem.HostTaken, problem.HostReserved, problem.TooManyHosts).ifMatch().etag().
		details("The app's gate shows the progress of a change to Require API key.")
	DeleteApp = route[None, wire.DeletedApp]("apps", "DELETE "+anApp, Developer, http.StatusOK,
		"Delete an app with its workload and route",
		problem.TooManyHosts).ifMatch().
		details("The app is removed from the scopes of API keys. Its host stays reserved for the project for 30 days.")
	SetGitSource = route[wire.GitSource, wire.App]("apps", "PUT "+anApp+"/git-source", Developer, http.StatusOK,
		"Set an app's git source; the app becomes a git app", problem.MissingField, problem.InvalidSource).ifMatch().etag()
	RemoveGitSource = route[None, None]("apps", "DELETE "+anApp+"/git-source", Developer, http.StatusNoContent,
		"Remove an app's git source; the app becomes an image app").ifMatch()
	GetWebhook = route[None, wire.Webhook]("apps", "GET "+anApp+"/webhook", Viewer, http.StatusOK,
		"Get an app's webhook").
		details("Only developers who sign in get the webhook token.")
	EnableWebhook = route[Empty, wire.Webhook]("apps", "POST "+anApp+"/webhook", Developer, http.StatusOK,
		"Enable an app's webhook or replace its token", problem.Conflict).noServiceTokens().optional()
	DisableWebhook = route[None, None]("apps", "DELETE "+anApp+"/webhook", Developer, http.StatusNoContent,
		"Disable an app's webhook and delete its token")
	ListTrusts = route[None, wire.List[wire.Trust]]("apps", "GET "+anApp+"/webhook/trusts", Viewer, http.StatusOK,
		"List an app's pipeline trusts").
		details("A trusted pipeline can deploy the app without a secret.")
	GetTrust = route[None, wire.Trust]("apps", "GET "+anApp+"/webhook/trusts/{trust_id}", Viewer, http.StatusOK,
		"Get a pipeline trust")
	AddTrust = route[wire.AddTrust, wire.Trust]("apps", "POST "+anApp+"/webhook/trusts", Developer, http.StatusCreated,
		"Trust pipelines to deploy an app with tokens from their CI provider",
		problem.MissingField, problem.InvalidTrust, problem.AlreadyExists, problem.TooManyTrusts).noServiceTokens()
	RemoveTrust = route[None, None]("apps", "DELETE "+anApp+"/webhook/trusts/{trust_id}", Developer, http.StatusNoContent,
		"Remove a pipeline trust")
	ListDeliveries = route[Page, wire.List[wire.WebhookDelivery]]("apps", "GET "+anApp+"/webhook/deliveries", Viewer, http.StatusOK,
		"List an app's webhook calls of the last seven days, newest first", problem.InvalidPage)
	TestWebhook = route[Empty, wire.WebhookTest]("apps", "POST "+anApp+"/webhook/test", Developer, http.StatusOK,
		"Send a git provider's ping to an app's webhook URL and return the result",
		problem.Conflict).optional().
		details("The ping takes the same route as calls from pipelines. It changes nothing.")
	ListAudit = route[Audit, wire.List[wire.AuditRecord]]("apps", "GET "+project+"/audit", Owner, http.StatusOK,
		"List the changes in a project", problem.InvalidPage, problem.InvalidDate, problem.InvalidWindow)
	ListActivity = route[Activity, wire.List[wire.Activity]]("apps", "GET "+environment+"/activity", Viewer, http.StatusOK,
		"List the activity in an environment, newest first", problem.InvalidPage, problem.InvalidParameter, problem.InvalidDate, problem.InvalidWindow)
	ListInstallationAudit = route[Audit, wire.List[wire.AuditRecord]]("apps", "GET "+Base+"/audit", Admin, http.StatusOK,
		"List the changes outside projects", problem.InvalidPage, problem.InvalidDate, problem.InvalidWindow)
	GetDescription = route[None, map[string]any]("apps", "GET "+Base+"/openapi.json", Nothing, http.StatusOK,
		"Get the OpenAPI description of this API").file()
	GetReference = route[ReferenceSearch, string]("apps", "GET "+Base+"/docs", Nothing, http.StatusOK,
		"Get the overview of the API reference, or search results, as HTML", problem.InvalidParameter).media("text/html").file()
	GetReferenceGroup = route[None, string]("apps", "GET "+Base+"/docs/{group}", Nothing, http.StatusOK,
		"Get a page of the API reference as HTML", problem.NotFound).media("text/html").file().
		details("A page contains a group of calls, the events, or the problems.")
)

// The keys function: usage plans and API keys.
//
//nolint:gochecknoglobals // a constant table
var (
	ListPlans = route[Page, wire.List[wire.Plan]]("keys", "GET "+environment+"/plans", Viewer, http.StatusOK,
		"List an environment's usage plans", problem.InvalidPage)
	CreatePlan = route[wire.CreatePlan, wire.Plan]("keys", "POST "+environment+"/plans", Developer, http.StatusCreated,
		"Create a usage plan",
		problem.MissingField, problem.InvalidName, problem.InvalidRate, problem.InvalidBurst, problem.InvalidQuota, problem.AlreadyExists,
		problem.TooManyPlans).
		preferWait().etag().
		details("The ID is derived from the name, or random if the name contains no letters a-z and no digits.")
	GetPlan = route[None, wire.Plan]("keys", "GET "+aPlan, Viewer, http.StatusOK,
		"Get a usage plan").etag()
	UpdatePlan = route[wire.UpdatePlan, wire.Plan]("keys", "PATCH "+aPlan, Developer, http.StatusOK,
		"Update a usage plan; absent fields stay unchanged",
		problem.MissingField, problem.InvalidName, problem.InvalidRate, problem.InvalidBurst, problem.InvalidQuota).
		preferWait().ifMatch().etag()
	DeletePlan = route[None, None]("keys", "DELETE "+aPlan, Developer, http.StatusNoContent,
		"Delete a usage plan that no usable key uses", problem.PlanInUse).ifMatch()
	ListKeys = route[KeysOf, wire.KeyList]("keys", "GET "+environment+"/api-keys", Viewer, http.StatusOK,
		"List an environment's keys", problem.InvalidPage, problem.InvalidParameter)
	CreateKey = route[wire.CreateKey, wire.IssuedKey]("keys", "POST "+environment+"/api-keys", Developer, http.StatusCreated,
		"Create a key; only this response contains the full key",
		problem.MissingField, problem.UnknownPlan, problem.InvalidName, problem.InvalidScope, problem.InvalidTag, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.InvalidParameter, problem.AlreadyIssued, problem.IdempotencyKeyReused, problem.TooManyKeys).reads(IdempotencyKey).preferWait().etag()
	BulkKeys = route[wire.BulkKeys, wire.BulkResult]("keys", "POST "+environment+"/api-keys/bulk", Developer, http.StatusOK,
		"Make one change to up to 500 keys of an environment",
		problem.MissingField, problem.UnknownPlan, problem.InvalidTag, problem.InvalidExpiry, problem.ExpiryInPast, problem.InvalidStatus).preferWait().
		details("Each key is changed separately: a failure does not affect the other keys, and the status is 200. " +
			"A repeated call reports changed keys as unchanged. A replica makes one bulk change of a project at a time; others wait. " +
			"After six seconds, the keys that are left fail as unavailable. A dry run ignores Prefer. in_force is also null if every key failed.")
	ListProjectKeys = route[KeysIn, wire.KeyList]("keys", "GET "+project+"/api-keys", Viewer, http.StatusOK,
		"List a project's keys", problem.InvalidPage, problem.InvalidParameter)
	FindKey = route[wire.FindKey, wire.FoundKey]("keys", "POST "+project+"/api-keys/find", Viewer, http.StatusOK,
		"Find the project's key that a full key belongs to", problem.MissingField, problem.InvalidParameter)
	GetKey = route[None, wire.Key]("keys", "GET "+aKey, Viewer, http.StatusOK,
		"Get a key").etag()
	UpdateKey = route[wire.UpdateKey, wire.Key]("keys", "PATCH "+aKey, Developer, http.StatusOK,
		"Update a key; absent fields stay unchanged",
		problem.MissingField, problem.UnknownPlan, problem.InvalidName, problem.InvalidScope, problem.InvalidTag, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.InvalidStatus, problem.KeyRevoked).preferWait().ifMatch().etag()
	RevokeKey = route[Empty, wire.Key]("keys", "POST "+aKey+"/revoke", Developer, http.StatusOK,
		"Revoke a key permanently; repeated calls succeed").optional().preferWait().ifMatch().etag()
	RotateKey = route[wire.RotateKey, wire.IssuedKey]("keys", "POST "+aKey+"/rotate", Developer, http.StatusOK,
		"Replace a key's secret; the previous secret stays valid for the grace period",
		problem.InvalidGrace, problem.KeyRevoked, problem.KeyExpired, problem.InvalidParameter, problem.AlreadyIssued, problem.IdempotencyKeyReused).
		optional().reads(IdempotencyKey).preferWait().ifMatch().etag()
	ReleaseQuota = route[Empty, wire.ReleasedQuota]("keys", "POST "+aKey+"/quota/release", Owner, http.StatusOK,
		"Release the part of a key's hard quota that lost checkers hold", problem.QuotaHeld).optional().
		details("This affects only the current quota period.")
	GetChange = route[None, wire.InForce]("keys", "GET "+project+"/changes/{change_id}", Viewer, http.StatusOK,
		"Report whether a key or plan change is in force at every checker").free().preferWait().
		details("The ID is in the Sluice-Change header of the response to the change.")
	ReportLeaks = route[[]wire.FoundSecret, wire.LeaksReceived]("keys", "POST "+Base+"/leaks", Signature, http.StatusOK,
		"Report leaked secrets, as a secret-scanning program does",
		problem.Unauthenticated, problem.RateLimited, problem.MalformedJSON, problem.WrongType, problem.BodyTooLarge).
		reads("Github-Public-Key-Identifier", "Github-Public-Key-Signature").raw("authenticates the sender before it reads the body").
		details("Leaked API keys are disabled or revoked according to the project's leak policy. Leaked service tokens are revoked.")
	ReportLeak = route[wire.ReportLeak, wire.LeaksReceived]("keys", "POST "+Base+"/leaks/report", SignedIn, http.StatusOK,
		"Report a leaked full key or service token of any project",
		problem.MissingField, problem.InvalidParameter, problem.RateLimited).
		details("The response does not reveal whether the key or the token exists.")
	ExplainRequest = route[None, wire.ExplainedRequest]("keys", "GET "+project+"/requests/{request_id}", Developer, http.StatusOK,
		"Explain why the gate denied a request, by its X-Request-Id",
		problem.InvalidParameter, problem.RateLimited).recorded().
		details("The request must be for an app of the project. Each checker stores its last 4096 denials.")
)

// The usage function: counts of requests per key and day.
//
//nolint:gochecknoglobals // a constant table
var (
	GetUsage = route[Window, wire.Usage]("usage", "GET "+aKey+"/usage", Viewer, http.StatusOK,
		"Get a key's daily usage", problem.InvalidDate, problem.InvalidWindow, problem.WindowExpired)
	GetEnvironmentUsage = route[Window, wire.EnvironmentUsage]("usage", "GET "+environment+"/usage", Viewer, http.StatusOK,
		"Get an environment's daily usage and the keys that need attention",
		problem.InvalidDate, problem.InvalidWindow, problem.WindowExpired)
	ForecastPlan = route[wire.ForecastPlan, wire.PlanForecast]("usage", "POST "+aPlan+"/forecast", Developer, http.StatusOK,
		"List the keys of a plan that used more than a new quota",
		problem.MissingField, problem.InvalidRate, problem.InvalidBurst, problem.InvalidQuota, problem.TooManyKeys).
		details("The plan does not change. Absent fields have the plan's values. Disabled and expired keys are not compared. A forecast is limited to 20,000 keys. An environment has one forecast at a time; others get 429.")
	ForecastGate = route[None, wire.GateForecast]("usage", "GET "+anApp+"/gate/forecast", Developer, http.StatusOK,
		"Count the keys that can access an app while its gate is on", problem.TooManyKeys).
		details("A forecast is limited to 20,000 keys. An environment has one forecast at a time; others get 429.")
	ExportUsage = route[UsageExport, string]("usage", "GET "+environment+"/usage.csv", Viewer, http.StatusOK,
		"Export the usage of an environment's keys as CSV",
		problem.InvalidDate, problem.InvalidWindow, problem.WindowExpired).media("text/csv").
		details("The columns are key_id, name, plan, tags (separated by spaces), from, to (UTC days), allowed, rate_denied, quota_denied (numbers of requests) and incomplete. " +
			"incomplete is true if the days of the row lack counts. With per=day, a key has a row for each day with requests and each incomplete day. " +
			"Cells are quoted as in RFC 4180. A name or tag that begins with =, +, -, @, a tab or a carriage return gets a leading apostrophe ('). " +
			"Counts in the checkers' memory, those of the last seconds, are missing; the usage of a key includes them. " +
			"A replica runs one export of a project, one of a caller, and at most four at a time. Further exports are rejected as rate_limited. " +
			"An export takes at most five minutes, and its client must receive each part within 30 seconds. The connection breaks if the export fails after its start.")
)

// The checker: the limits of a key, for the client that has the key.
//
//nolint:gochecknoglobals // a constant table
var (
	GetOwnKey = route[None, wire.OwnKey]("checker", "GET "+Base+"/key", Holder, http.StatusOK,
		"Get the limits of the key in X-API-Key and the remaining quota",
		problem.InvalidKey, problem.RateLimited, problem.GateUnavailable).raw("is served by the gate")
)

// The deploys function: deployments, rollbacks and promotions.
//
//nolint:gochecknoglobals // a constant table
var (
	ListDeployments = route[Page, wire.List[wire.Deployment]]("deploys", "GET "+anApp+"/deployments", Viewer, http.StatusOK,
		"List an app's deployments, newest first", problem.InvalidPage).etag()
	GetDeployment = route[None, wire.Deployment]("deploys", "GET "+anApp+"/deployments/{revision}", Viewer, http.StatusOK,
		"Get a deployment").free()
	CreateDeployment = route[wire.CreateDeployment, wire.Deployment]("deploys", "POST "+anApp+"/deployments", Developer, http.StatusAccepted,
		"Deploy an image", problem.MissingField, problem.InvalidImage, problem.RegistryNotAllowed, problem.GitSourceAttached, problem.Conflict).
		begins(GetDeployment.Row).repeats().ifMatch().etag()
	RollBack = route[wire.Rollback, wire.Deployment]("deploys", "POST "+anApp+"/rollback", Developer, http.StatusAccepted,
		"Deploy an earlier revision again",
		problem.NoPreviousRevision, problem.RegistryNotAllowed, problem.Conflict).
		begins(GetDeployment.Row).optional().repeats().ifMatch().etag()
	Promote = route[wire.Promote, wire.Deployment]("deploys", "POST "+anApp+"/promote", Developer, http.StatusAccepted,
		"Deploy a revision of the app with the same name in another environment",
		problem.MissingField, problem.InvalidParameter, problem.GitSourceAttached, problem.RevisionNotLive, problem.RegistryNotAllowed, problem.Conflict).
		begins(GetDeployment.Row).repeats().ifMatch().etag()
)

// The builds function: builds of git apps.
//
//nolint:gochecknoglobals // a constant table
var (
	ListBuilds = route[Page, wire.List[wire.Build]]("builds", "GET "+anApp+"/builds", Viewer, http.StatusOK,
		"List an app's builds, newest first", problem.InvalidPage)
	GetBuild = route[None, wire.Build]("builds", "GET "+anApp+"/builds/{build}", Viewer, http.StatusOK,
		"Get a build").free()
	RequestBuild = route[wire.RequestBuild, wire.Build]("builds", "POST "+anApp+"/builds", Developer, http.StatusAccepted,
		"Build a commit or the head of the branch", problem.InvalidCommit, problem.NoGitSource, problem.TooManyBuilds, problem.Conflict).
		begins(GetBuild.Row).optional().repeats().ifMatch()
)

// The webhook function: calls from CI pipelines and git providers.
//
//nolint:gochecknoglobals // a constant table
var (
	CallWebhook = route[wire.WebhookCall, wire.WebhookStatus]("webhook", "POST "+webhook, Token, http.StatusAccepted,
		"Deploy or build an app",
		problem.InvalidToken, problem.RateLimited, problem.MalformedJSON, problem.WrongType, problem.BodyTooLarge, problem.UnsupportedMediaType,
		problem.ImageRequired, problem.InvalidImage, problem.RegistryNotAllowed, problem.InvalidCommit, problem.GitSourceAttached, problem.TooManyBuilds, problem.Conflict).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", "X-GitHub-Event", "X-Gitea-Event", "X-Gitlab-Event", "X-GitHub-Delivery", "X-Gitea-Delivery", IdempotencyKey, Prefer).
		or(http.StatusAccepted, "the event was ignored", reflect.TypeFor[wire.WebhookIgnored]()).
		or(http.StatusOK, "the result, if the call waited for it", reflect.TypeFor[wire.WebhookStatus]()).
		or(http.StatusOK, "the response to a provider's ping", reflect.TypeFor[wire.WebhookPong]()).
		raw("authenticates the sender before it reads the body")
	GetWebhookDeployment = route[None, wire.WebhookStatus]("webhook", "GET "+webhook+"/deployments/{revision}", Token, http.StatusOK,
		"Get the status of the deployment that a webhook call started", problem.InvalidToken, problem.NotFound, problem.RateLimited).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", Prefer).raw("waits for the result on request")
	GetWebhookBuild = route[None, wire.WebhookStatus]("webhook", "GET "+webhook+"/builds/{build}", Token, http.StatusOK,
		"Get the status of the build that a webhook call started", problem.InvalidToken, problem.NotFound, problem.RateLimited).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", Prefer).raw("waits for the result on request")
)
