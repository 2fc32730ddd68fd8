package api

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// Base is what all paths begin with.
const Base = "/api/v1"

const (
	project     = Base + "/projects/{project}"
	environment = project + "/environments/{environment}"
	anApp       = environment + "/apps/{app}"
	aPlan       = environment + "/plans/{plan_id}"
	aKey        = project + "/api-keys/{key_id}"
	webhook     = Base + "/webhook/{namespace}/{app}"
)

// table is filled by route alone, before the program begins.
var table []*Row //nolint:gochecknoglobals // the rows below, in their order

// route puts a row into the table.
func route[Req, Res any](function, pattern string, need Need, status int, summary string, problems ...problem.Code) Route[Req, Res] {
	method, path, _ := strings.Cut(pattern, " ")
	row := &Row{
		Function: function, Method: method, Path: path, Need: need, Status: status, Summary: summary, Problems: problems,
		Request: reflect.TypeFor[Req](), Answer: reflect.TypeFor[Res](),
	}
	table = append(table, row)
	return Route[Req, Res]{row}
}

// or says what the handler may answer instead, and when.
func (r Route[Req, Res]) or(status int, when string, answer reflect.Type) Route[Req, Res] {
	r.Others = append(r.Others, Answer{status, when, answer})
	return r
}

// media says what the answer's body is, where it is not JSON.
func (r Route[Req, Res]) media(kind string) Route[Req, Res] {
	r.Media = kind
	return r
}

// file says that the answer is the same for everybody, and not sent to who has it.
func (r Route[Req, Res]) file() Route[Req, Res] {
	return r.reads("If-None-Match", "Accept-Encoding").or(http.StatusNotModified, "The sender has it as it is", reflect.TypeFor[None]()).raw("sends a file")
}

// optional says that the body may be left out.
func (r Route[Req, Res]) optional() Route[Req, Res] {
	r.Optional = true
	return r
}

// reads says which headers the handler reads.
func (r Route[Req, Res]) reads(headers ...string) Route[Req, Res] {
	r.Headers = headers
	return r
}

// tagged says that the answer has an ETag.
func (r Route[Req, Res]) tagged() Route[Req, Res] {
	r.Tagged = true
	return r
}

// guarded says that the change is made only of what its sender has seen, if If-Match says
// what that was.
func (r Route[Req, Res]) guarded() Route[Req, Res] {
	r.Headers = append(r.Headers, IfMatch)
	return r
}

// repeats specifies that a call with an Idempotency-Key is made once: sent again, it gets the
// result of the first call.
func (r Route[Req, Res]) repeats() Route[Req, Res] {
	r.Headers, r.Repeats = append(r.Headers, IdempotencyKey), true
	r.Problems = append(r.Problems, problem.IdempotencyKeyReused)
	return r
}

// waits says that the answer waits, if it is asked to, until the change is in force at
// every checker.
func (r Route[Req, Res]) waits() Route[Req, Res] {
	r.Headers = append(r.Headers, Prefer)
	if r.Status == http.StatusCreated { // it stays 201: the resource exists, and in_force tells the rest
		return r
	}
	return r.or(http.StatusAccepted, "The change is recorded, but not known to be in force at every checker", r.Answer)
}

// begins specifies that a call begins work that goes on after its response, and the route that
// reads that work. Its path is that of this route's resource, and the number of the work.
func (r Route[Req, Res]) begins(read *Row) Route[Req, Res] {
	r.Begins = read
	return r
}

// people reserves the route for people who sign in. A service token must not gain rights, or
// create a credential that outlives its revocation; API keys are the exception.
func (r Route[Req, Res]) people() Route[Req, Res] {
	r.People = true
	return r
}

// recorded marks a GET whose calls the audit log records.
func (r Route[Req, Res]) recorded() Route[Req, Res] {
	r.Recorded = true
	return r
}

// free marks a route whose calls do not count against the caller's budget: a status poll, or
// sign-out.
func (r Route[Req, Res]) free() Route[Req, Res] {
	r.Free = true
	return r
}

// raw says why the handler takes the request itself.
func (r Route[Req, Res]) raw(why string) Route[Req, Res] {
	r.Raw = why
	return r
}

// The session function: who is there.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	SignIn = route[wire.SignIn, wire.OpenedSession]("session", "POST "+Base+"/session", Nothing, http.StatusOK,
		"Sign in", problem.MissingField, problem.InvalidCredentials, problem.RateLimited).raw("sets the session's cookie")
	GetSession = route[None, wire.Session]("session", "GET "+Base+"/session", SignedIn, http.StatusOK,
		"Who is signed in, or which service token it is, until when, and the CSRF value")
	SignOut = route[None, None]("session", "DELETE "+Base+"/session", SignedIn, http.StatusNoContent,
		"Sign out; the token is dead at once").people().free().raw("takes the session's cookie away")
	ListUsers = route[Page, wire.List[wire.User]]("session", "GET "+Base+"/users", Admin, http.StatusOK,
		"List users", problem.InvalidPage)
	GetUser = route[None, wire.User]("session", "GET "+Base+"/users/{username}", Admin, http.StatusOK,
		"Read a user")
	CreateUser = route[wire.CreateUser, wire.User]("session", "POST "+Base+"/users", Admin, http.StatusCreated,
		"Create a user", problem.MissingField, problem.InvalidName, problem.InvalidPass, problem.AlreadyExists, problem.RateLimited)
	ChangePassword = route[wire.ChangePassword, None]("session", "PUT "+Base+"/users/{username}/password", SignedIn, http.StatusNoContent,
		"Set a password: one's own with the current one, anyone's as an admin; ends all sessions of that user",
		problem.MissingField, problem.InvalidPass, problem.InvalidCredentials, problem.RateLimited, problem.Forbidden, problem.Conflict).people()
)

// The apps function: projects, members, environments, apps, webhooks, the audit log.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	ListProjects = route[Page, wire.List[wire.Project]]("apps", "GET "+Base+"/projects", SignedIn, http.StatusOK,
		"List the projects that the caller is a member of; all of them for admins, and a service token's own", problem.InvalidPage)
	CreateProject = route[wire.CreateProject, wire.Project]("apps", "POST "+Base+"/projects", Admin, http.StatusCreated,
		"Create a project", problem.MissingField, problem.InvalidName, problem.AlreadyExists)
	GetProject = route[None, wire.Project]("apps", "GET "+project, Viewer, http.StatusOK,
		"Read a project").tagged()
	UpdateProject = route[wire.UpdateProject, wire.Project]("apps", "PATCH "+project, Owner, http.StatusOK,
		"Change a project's settings: what happens to leaked keys, and which registries images may come from",
		problem.MissingField, problem.InvalidPolicy, problem.InvalidRegistries).guarded().tagged()
	DeleteProject = route[None, None]("apps", "DELETE "+project, Owner, http.StatusNoContent,
		"Delete a project without environments", problem.NotEmpty)
	ListMembers = route[Page, wire.List[wire.Member]]("apps", "GET "+project+"/members", Viewer, http.StatusOK,
		"List a project's members", problem.InvalidPage).tagged()
	GetMember = route[None, wire.Member]("apps", "GET "+project+"/members/{username}", Viewer, http.StatusOK,
		"Read a project's member; the ETag is that of the list").tagged()
	SetMembers = route[wire.SetMembers, wire.List[wire.Member]]("apps", "PUT "+project+"/members", Owner, http.StatusOK,
		"Replace the whole list of members",
		problem.MissingField, problem.InvalidRole, problem.InvalidName, problem.LastOwner, problem.UnknownUser).people().guarded().tagged()
	RemoveMember = route[None, None]("apps", "DELETE "+project+"/members/{username}", Owner, http.StatusNoContent,
		"Take a user out of a project", problem.LastOwner).people().guarded()
	ListTokens = route[Page, wire.List[wire.Token]]("apps", "GET "+project+"/tokens", Viewer, http.StatusOK,
		"List a project's service tokens, without their secrets", problem.InvalidPage)
	GetToken = route[None, wire.Token]("apps", "GET "+project+"/tokens/{token_id}", Viewer, http.StatusOK,
		"Read a service token, without its secret")
	CreateToken = route[wire.CreateToken, wire.IssuedToken]("apps", "POST "+project+"/tokens", Owner, http.StatusCreated,
		"Create a service token; the full token is in this answer alone",
		problem.MissingField, problem.InvalidName, problem.InvalidRole, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.AlreadyExists, problem.TooManyTokens).people()
	RevokeToken = route[None, wire.RevokedToken]("apps", "DELETE "+project+"/tokens/{token_id}", Owner, http.StatusOK,
		"Revoke a service token immediately and permanently; the response lists the API keys that the token issued, which stay valid").people()
	ListEnvironments = route[Page, wire.List[wire.Environment]]("apps", "GET "+project+"/environments", Viewer, http.StatusOK,
		"List a project's environments", problem.InvalidPage)
	GetEnvironment = route[None, wire.Environment]("apps", "GET "+environment, Viewer, http.StatusOK,
		"Read an environment")
	CreateEnvironment = route[wire.CreateEnvironment, wire.Environment]("apps", "POST "+project+"/environments", Owner, http.StatusCreated,
		"Create an environment and its namespace",
		problem.MissingField, problem.InvalidName, problem.AlreadyExists, problem.NamespaceTaken, problem.NamespaceNotEmpty)
	DeleteEnvironment = route[None, None]("apps", "DELETE "+environment, Owner, http.StatusNoContent,
		"Delete an environment without apps, plans and usable keys", problem.NotEmpty)
	ListHostReservations = route[Page, wire.List[wire.HostReservation]]("apps", "GET "+Base+"/host-reservations", Admin, http.StatusOK,
		"List the hosts that apps gave up, which are reserved for their projects for 30 days", problem.InvalidPage)
	ReleaseHost = route[None, None]("apps", "DELETE "+Base+"/host-reservations/{host}", Admin, http.StatusNoContent,
		"Release a reserved host, so that any project can have it")
	ListApps = route[Page, wire.List[wire.App]]("apps", "GET "+environment+"/apps", Viewer, http.StatusOK,
		"List an environment's apps", problem.InvalidPage)
	CreateApp = route[wire.CreateApp, wire.App]("apps", "POST "+environment+"/apps", Developer, http.StatusCreated,
		"Create an app from an image, or from a git repository",
		problem.MissingField, problem.InvalidName, problem.InvalidImage, problem.RegistryNotAllowed, problem.InvalidSource, problem.InvalidHost, problem.InvalidPort,
		problem.InvalidPreflight, problem.AlreadyExists, problem.HostTaken, problem.HostReserved, problem.NameTaken, problem.NameInScope).tagged()
	GetApp = route[None, wire.App]("apps", "GET "+anApp, Viewer, http.StatusOK,
		"Read an app, with the state of its gate").free().tagged()
	UpdateApp = route[wire.UpdateApp, wire.App]("apps", "PATCH "+anApp, Developer, http.StatusOK,
		"Turn Require API key on or off, set who answers CORS preflights, or change the host or the port; the app's gate shows the progress",
		problem.InvalidPreflight, problem.InvalidHost, problem.InvalidPort, problem.HostTaken, problem.HostReserved, problem.TooManyHosts).guarded().tagged()
	DeleteApp = route[None, wire.DeletedApp]("apps", "DELETE "+anApp, Developer, http.StatusOK,
		"Delete an app and its workload, remove it from the scopes of API keys, and reserve its host for the project for 30 days",
		problem.TooManyHosts).guarded()
	SetGitSource = route[wire.GitSource, wire.App]("apps", "PUT "+anApp+"/git-source", Developer, http.StatusOK,
		"Build an app from a git repository from now on", problem.MissingField, problem.InvalidSource).guarded().tagged()
	RemoveGitSource = route[None, None]("apps", "DELETE "+anApp+"/git-source", Developer, http.StatusNoContent,
		"Deploy an app from images from now on").guarded()
	GetWebhook = route[None, wire.Webhook]("apps", "GET "+anApp+"/webhook", Viewer, http.StatusOK,
		"Read an app's webhook; developers who sign in see its token, a service token does not")
	EnableWebhook = route[Empty, wire.Webhook]("apps", "POST "+anApp+"/webhook", Developer, http.StatusOK,
		"Give an app's webhook a new token", problem.Conflict).people().optional()
	DisableWebhook = route[None, None]("apps", "DELETE "+anApp+"/webhook", Developer, http.StatusNoContent,
		"Take an app's webhook token away")
	ListTrusts = route[None, wire.List[wire.Trust]]("apps", "GET "+anApp+"/webhook/trusts", Viewer, http.StatusOK,
		"List the pipelines that deploy an app without a secret")
	GetTrust = route[None, wire.Trust]("apps", "GET "+anApp+"/webhook/trusts/{trust_id}", Viewer, http.StatusOK,
		"Read a trust: which pipelines deploy an app without a secret")
	AddTrust = route[wire.AddTrust, wire.Trust]("apps", "POST "+anApp+"/webhook/trusts", Developer, http.StatusCreated,
		"Let pipelines deploy an app by the tokens that their provider issues to them",
		problem.MissingField, problem.InvalidTrust, problem.AlreadyExists, problem.TooManyTrusts).people()
	RemoveTrust = route[None, None]("apps", "DELETE "+anApp+"/webhook/trusts/{trust_id}", Developer, http.StatusNoContent,
		"Trust pipelines no more")
	ListDeliveries = route[Page, wire.List[wire.WebhookDelivery]]("apps", "GET "+anApp+"/webhook/deliveries", Viewer, http.StatusOK,
		"List the calls of an app's webhook of the last seven days and their results, newest first", problem.InvalidPage)
	TestWebhook = route[Empty, wire.WebhookTest]("apps", "POST "+anApp+"/webhook/test", Developer, http.StatusOK,
		"Send a git provider's ping to an app's webhook, the way that a pipeline takes, and tell what came of it; it changes nothing",
		problem.Conflict).optional()
	ListAudit = route[Audit, wire.List[wire.AuditRecord]]("apps", "GET "+project+"/audit", Owner, http.StatusOK,
		"List what was changed in a project", problem.InvalidPage, problem.InvalidDate, problem.InvalidWindow)
	ListActivity = route[Activity, wire.List[wire.Activity]]("apps", "GET "+environment+"/activity", Viewer, http.StatusOK,
		"List what happened in an environment, newest first", problem.InvalidPage, problem.InvalidParameter, problem.InvalidDate, problem.InvalidWindow)
	ListInstallationAudit = route[Audit, wire.List[wire.AuditRecord]]("apps", "GET "+Base+"/audit", Admin, http.StatusOK,
		"List what was changed outside of projects", problem.InvalidPage, problem.InvalidDate, problem.InvalidWindow)
	GetDescription = route[None, map[string]any]("apps", "GET "+Base+"/openapi.json", Nothing, http.StatusOK,
		"Read the API's description").file()
	GetReference = route[None, string]("apps", "GET "+Base+"/docs", Nothing, http.StatusOK,
		"Read the API's description as a page for people").media("text/html").file()
)

// The keys function: usage plans and API keys.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	ListPlans = route[Page, wire.List[wire.Plan]]("keys", "GET "+environment+"/plans", Viewer, http.StatusOK,
		"List an environment's usage plans", problem.InvalidPage)
	CreatePlan = route[wire.CreatePlan, wire.Plan]("keys", "POST "+environment+"/plans", Developer, http.StatusCreated,
		"Create a usage plan; its ID comes from its name, or is random if the name has no letters a-z or digits",
		problem.MissingField, problem.InvalidName, problem.InvalidRate, problem.InvalidBurst, problem.InvalidQuota, problem.AlreadyExists,
		problem.TooManyPlans).
		waits().tagged()
	GetPlan = route[None, wire.Plan]("keys", "GET "+aPlan, Viewer, http.StatusOK,
		"Read a usage plan").tagged()
	UpdatePlan = route[wire.UpdatePlan, wire.Plan]("keys", "PATCH "+aPlan, Developer, http.StatusOK,
		"Change what the body names of a usage plan; null takes the quota away",
		problem.MissingField, problem.InvalidName, problem.InvalidRate, problem.InvalidBurst, problem.InvalidQuota).
		waits().guarded().tagged()
	DeletePlan = route[None, None]("keys", "DELETE "+aPlan, Developer, http.StatusNoContent,
		"Delete a usage plan that no usable key has", problem.PlanInUse).guarded()
	ListKeys = route[KeysOf, wire.List[wire.Key]]("keys", "GET "+environment+"/api-keys", Viewer, http.StatusOK,
		"List an environment's keys", problem.InvalidPage, problem.InvalidParameter)
	CreateKey = route[wire.CreateKey, wire.IssuedKey]("keys", "POST "+environment+"/api-keys", Developer, http.StatusCreated,
		"Create a key; the full key is in this answer alone",
		problem.MissingField, problem.UnknownPlan, problem.InvalidName, problem.InvalidScope, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.InvalidParameter, problem.AlreadyIssued, problem.IdempotencyKeyReused, problem.TooManyKeys).reads(IdempotencyKey).waits().tagged()
	ListProjectKeys = route[KeysIn, wire.List[wire.Key]]("keys", "GET "+project+"/api-keys", Viewer, http.StatusOK,
		"List a project's keys", problem.InvalidPage, problem.InvalidParameter)
	FindKey = route[wire.FindKey, wire.FoundKey]("keys", "POST "+project+"/api-keys/find", Viewer, http.StatusOK,
		"Find the key of the project that a full key belongs to", problem.MissingField, problem.InvalidParameter)
	GetKey = route[None, wire.Key]("keys", "GET "+aKey, Viewer, http.StatusOK,
		"Read a key").tagged()
	UpdateKey = route[wire.UpdateKey, wire.Key]("keys", "PATCH "+aKey, Developer, http.StatusOK,
		"Change what the body names of a key; null takes name, scope and expiry away",
		problem.MissingField, problem.UnknownPlan, problem.InvalidName, problem.InvalidScope, problem.InvalidExpiry, problem.ExpiryInPast,
		problem.InvalidStatus, problem.KeyRevoked).waits().guarded().tagged()
	RevokeKey = route[Empty, wire.Key]("keys", "POST "+aKey+"/revoke", Developer, http.StatusOK,
		"Revoke a key for good; again is no error").optional().waits().guarded().tagged()
	RotateKey = route[wire.RotateKey, wire.IssuedKey]("keys", "POST "+aKey+"/rotate", Developer, http.StatusOK,
		"Give a key a new secret; the one before stays valid for the grace",
		problem.InvalidGrace, problem.KeyRevoked, problem.KeyExpired, problem.InvalidParameter, problem.AlreadyIssued, problem.IdempotencyKeyReused).
		optional().reads(IdempotencyKey).waits().guarded().tagged()
	ReleaseQuota = route[Empty, wire.ReleasedQuota]("keys", "POST "+aKey+"/quota/release", Owner, http.StatusOK,
		"Return what lost checkers hold of a key's hard quota in the current period", problem.QuotaHeld).optional()
	GetChange = route[None, wire.InForce]("keys", "GET "+project+"/changes/{change_id}", Viewer, http.StatusOK,
		"Whether a change of a key or a plan is in force at every checker; Sluice-Change named it").free().waits()
	ReportLeaks = route[[]wire.FoundSecret, wire.LeaksReceived]("keys", "POST "+Base+"/leaks", Signature, http.StatusOK,
		"Report secrets that were found where strangers can read them, as a secret-scanning program does; those that are keys are ended",
		problem.Unauthenticated, problem.RateLimited, problem.MalformedJSON, problem.WrongType, problem.BodyTooLarge).
		reads("Github-Public-Key-Identifier", "Github-Public-Key-Signature").raw("proves the sender before it reads the body")
	ReportLeak = route[wire.ReportLeak, wire.LeaksReceived]("keys", "POST "+Base+"/leaks/report", SignedIn, http.StatusOK,
		"Report a full key that was found where strangers can read it, of whatever project; the answer does not tell whether there is such a key",
		problem.MissingField, problem.InvalidParameter, problem.RateLimited)
	ExplainRequest = route[None, wire.ExplainedRequest]("keys", "GET "+project+"/requests/{request_id}", Developer, http.StatusOK,
		"Why the gate refused a request to an app of the project, by the X-Request-Id of its answer: each checker remembers its last 4096 denials",
		problem.InvalidParameter, problem.RateLimited).recorded()
)

// The usage function: what was counted of a key.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	GetUsage = route[Window, wire.Usage]("usage", "GET "+aKey+"/usage", Viewer, http.StatusOK,
		"Read a key's usage by day", problem.InvalidDate, problem.InvalidWindow, problem.WindowExpired)
	GetEnvironmentUsage = route[Window, wire.EnvironmentUsage]("usage", "GET "+environment+"/usage", Viewer, http.StatusOK,
		"Read the usage of all keys of an environment by day, and which of them need attention",
		problem.InvalidDate, problem.InvalidWindow, problem.WindowExpired)
)

// The checker: what the holder of a key may know of it, by the key alone.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	GetOwnKey = route[None, wire.OwnKey]("checker", "GET "+Base+"/key", Holder, http.StatusOK,
		"Read the key that is sent as X-API-Key: its limits, and what is left of them",
		problem.InvalidKey, problem.RateLimited, problem.GateUnavailable).raw("is the gate's own")
)

// The deploys function: what runs, and what ran before.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	ListDeployments = route[Page, wire.List[wire.Deployment]]("deploys", "GET "+anApp+"/deployments", Viewer, http.StatusOK,
		"List an app's deployments, newest first", problem.InvalidPage).tagged()
	GetDeployment = route[None, wire.Deployment]("deploys", "GET "+anApp+"/deployments/{revision}", Viewer, http.StatusOK,
		"Read a deployment").free()
	CreateDeployment = route[wire.CreateDeployment, wire.Deployment]("deploys", "POST "+anApp+"/deployments", Developer, http.StatusAccepted,
		"Deploy an image", problem.MissingField, problem.InvalidImage, problem.RegistryNotAllowed, problem.GitSourceAttached, problem.Conflict).
		begins(GetDeployment.Row).repeats().guarded().tagged()
	RollBack = route[wire.Rollback, wire.Deployment]("deploys", "POST "+anApp+"/rollback", Developer, http.StatusAccepted,
		"Deploy an earlier revision again; without a number, the last one that had a ready pod",
		problem.NoPreviousRevision, problem.RegistryNotAllowed, problem.Conflict).
		begins(GetDeployment.Row).optional().repeats().guarded().tagged()
	Promote = route[wire.Promote, wire.Deployment]("deploys", "POST "+anApp+"/promote", Developer, http.StatusAccepted,
		"Deploy a revision of the app of the same name in another environment",
		problem.MissingField, problem.InvalidParameter, problem.GitSourceAttached, problem.RevisionNotLive, problem.RegistryNotAllowed, problem.Conflict).
		begins(GetDeployment.Row).repeats().guarded().tagged()
)

// The builds function: how images come to be from git.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	ListBuilds = route[Page, wire.List[wire.Build]]("builds", "GET "+anApp+"/builds", Viewer, http.StatusOK,
		"List an app's builds, newest first", problem.InvalidPage)
	GetBuild = route[None, wire.Build]("builds", "GET "+anApp+"/builds/{build}", Viewer, http.StatusOK,
		"Read a build").free()
	RequestBuild = route[wire.RequestBuild, wire.Build]("builds", "POST "+anApp+"/builds", Developer, http.StatusAccepted,
		"Build a commit, or the branch's head", problem.InvalidCommit, problem.NoGitSource, problem.TooManyBuilds, problem.Conflict).
		begins(GetBuild.Row).optional().repeats().guarded()
)

// The webhook function: what CI pipelines and git providers call.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var (
	CallWebhook = route[wire.WebhookCall, wire.WebhookStatus]("webhook", "POST "+webhook, Token, http.StatusAccepted,
		"Deploy or build an app",
		problem.InvalidToken, problem.RateLimited, problem.MalformedJSON, problem.WrongType, problem.BodyTooLarge, problem.UnsupportedMediaType,
		problem.ImageRequired, problem.InvalidImage, problem.RegistryNotAllowed, problem.InvalidCommit, problem.GitSourceAttached, problem.TooManyBuilds, problem.Conflict).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", "X-GitHub-Event", "X-Gitea-Event", "X-Gitlab-Event", "X-GitHub-Delivery", "X-Gitea-Delivery", IdempotencyKey, Prefer).
		or(http.StatusAccepted, "An event that changes nothing", reflect.TypeFor[wire.WebhookIgnored]()).
		or(http.StatusOK, "The outcome, of a call that waited for it", reflect.TypeFor[wire.WebhookStatus]()).
		or(http.StatusOK, "A provider's ping", reflect.TypeFor[wire.WebhookPong]()).
		raw("proves the sender before it reads the body")
	GetWebhookDeployment = route[None, wire.WebhookStatus]("webhook", "GET "+webhook+"/deployments/{revision}", Token, http.StatusOK,
		"Read the status of the deployment that a call began", problem.InvalidToken, problem.NotFound, problem.RateLimited).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", Prefer).raw("waits for the end when asked to")
	GetWebhookBuild = route[None, wire.WebhookStatus]("webhook", "GET "+webhook+"/builds/{build}", Token, http.StatusOK,
		"Read the status of the build that a call began", problem.InvalidToken, problem.NotFound, problem.RateLimited).
		reads("Authorization", "X-Service-Token", "X-Gitlab-Token", "X-Hub-Signature-256", Prefer).raw("waits for the end when asked to")
)
