// Package apps is the function that manages projects, their members and service tokens,
// their environments and the apps in them (promises A6, A7, A8, A12, S9, S10).
//
// Its routes are those of package api with this name. What no other function has below
// /api comes here too, and is told that it is not there.
//
// # Decisions
//
// Only admins make projects, because a project's name decides the names of
// Kubernetes namespaces; whoever makes one becomes its owner. A project keeps at
// least one owner. Namespaces of the cluster's own and of Sluice's are refused as
// taken.
//
// A host belongs to one app in the whole installation. Without one an app gets what
// APP_HOST says, e.g. "hello-shop-prod.apps.example.com"; a host that another
// environment's app would get by default, or above or below one, is refused, so that
// nobody can take it. Where two apps have the same default, as "a" in "b-c-d" and "a-b"
// in "c-d" with that pattern, the second is told host_taken and asks for another.
//
// A change of the host or the port is a change of the document. Wiring then changes the
// cluster's objects: it removes the route for the former host first, and proves the gate on
// the new one. Requests fail until a pod listens on a new port.
//
// # Documents first
//
// Creating an app writes its document first, which claims its name and its host,
// and then the cluster. When the cluster does not answer, the call fails with 503
// and the app stays recorded: the wiring function makes what is missing. So a
// second attempt is told already_exists, and that is true.
//
// The image that an app is made with is its revision 1, resolved to a digest as
// any deployment's is (package deploys).
//
// A git app's first build is recorded in the same commit, so that it is never lost; the
// builds function starts it.
//
// Deleting an app goes the other way: first the route, then the rest of the
// cluster's objects, then the scopes of keys that name the app, then the document, and
// finally the objects that wiring has restored in the meantime. It can be repeated. The
// Kubernetes namespace of an environment stays, because it may hold other objects.
//
// A scope whose last app is deleted covers no app, so a later app of the same name is not
// open to old keys. The response lists the keys. An earlier version left deleted apps in
// scopes: a new app of such a name is rejected as name_in_scope while a usable key names it.
//
// # Webhooks
//
// An app's webhook is enabled as long as there is a token for it, in a Secret of the
// namespace that holds the tokens and nothing else. The webhook function reads the
// Secret again before every deployment, so that a new token, or none, counts from the
// next call on. The token goes with its app; one that a crash has left behind goes
// before an app of that name is made again. Developers who sign in can read it again, since it
// lets them do nothing that they may not do anyway. Viewers and service tokens see only
// whether there is one.
//
// Tokens are not kept in the store, so their audit records are written before they
// are changed, and completed afterwards; see package audit.
//
// What came of a webhook's calls is kept by the webhook function, and listed here as its
// deliveries, to viewers too: nothing in it opens anything. A test sends a provider's ping
// to the webhook's address, the way that a pipeline takes: by BASE_URL alone, since whoever
// asks chooses the Host header, and signed, so that the token stays here. The body that is
// signed means nothing under any other event's name, which the signature does not cover,
// so that who sees it can do nothing with it. That the address cannot be reached from here
// is a result of the test, and not its failure.
//
// # Service tokens
//
// Owners make them and revoke them; whoever is a member sees which there are, as they see
// the members: what acts in a project, with which role and until when, is no secret
// there, and stands in its deployments. No token can have more than its maker, who is an
// owner, and none can make, change or revoke one, or a member: what has leaked cannot
// provide for the time after its end. For the same reason a token can neither read nor renew
// a webhook's token, nor add a trust. API keys are the exception, because issuing them is the
// purpose of a token: its revocation lists the keys that it issued. A token belongs to its project. It goes on when
// whoever made it leaves, and ends with the project; so an owner who goes is no reason
// for a pipeline to stop, and a reason to look at the list.
//
// A revoked token is deleted, and its name is free again; the audit log keeps both.
//
// # Audit
//
// ?from= and ?to= are RFC 3339 times or UTC days, both inclusive; ?actor= and ?action=
// must be equal, ?resource= names a resource and all below it. Package audit says what
// is recorded and who reads it. An environment's activity is the same records for all
// members, each with what has become of the deployment or the build that it began.
//
// # Gates
//
// Switching Require API key changes the document and tells wiring, without
// waiting; the app's gate says how far that is. Wiring finds the same work by
// itself with its next tick.
package apps

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/apps/internal/reference"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/store"
)

// Store keeps all documents; *store.Store implements it.
type Store interface {
	httpapi.Resources
	CreateProject(ctx context.Context, p app.Project) error
	Projects(ctx context.Context, member string, page store.Page) ([]app.Project, string, error)
	UpdateMembers(ctx context.Context, name string, change func(map[string]app.Role) (map[string]app.Role, error)) (app.Project, error)
	UpdateProject(ctx context.Context, name string, change func(app.Project) (app.Project, error)) (app.Project, error)
	DeleteProject(ctx context.Context, p app.Project) error
	UsersExist(ctx context.Context, names []string) (missing []string, err error)
	CreateToken(ctx context.Context, t servicetoken.Token) error
	Tokens(ctx context.Context, project string, page store.Page) ([]servicetoken.Token, string, error)
	ServiceToken(ctx context.Context, id servicetoken.ID) (servicetoken.Token, error)
	RevokeToken(ctx context.Context, project string, id servicetoken.ID) error
	KeysIssuedBy(ctx context.Context, t servicetoken.Token) ([]apikey.Key, error)
	CreateEnvironment(ctx context.Context, e app.Environment) error
	Environments(ctx context.Context, project string, page store.Page) ([]app.Environment, string, error)
	DeleteEnvironment(ctx context.Context, e app.Environment) error
	ReleaseNamespace(ctx context.Context, namespace string) error
	CreateApp(ctx context.Context, a app.App, first store.First) error
	Apps(ctx context.Context, namespace string, page store.Page) ([]app.App, string, error)
	UpdateApp(ctx context.Context, ref app.Ref, change func(app.App) (app.App, error)) (app.App, error)
	LeaveScopes(ctx context.Context, a app.App) (store.Narrowed, error)
	DeleteApp(ctx context.Context, a app.App) error
	CheckRelease(ctx context.Context, a app.App) error
	Reservations(ctx context.Context, page store.Page) ([]store.Reservation, string, error)
	ReleaseReservation(ctx context.Context, host string) error
	AddTrust(ctx context.Context, ref app.Ref, t app.Trust) error
	RemoveTrust(ctx context.Context, ref app.Ref, id string) error
	Records(ctx context.Context, q audit.Query, page store.Page) ([]audit.Record, string, error)
	Activity(ctx context.Context, e app.Environment, kind audit.Kind, q audit.Query, page store.Page) ([]store.Entry, string, error)
	Record(ctx context.Context, c audit.Change) (string, error)
	CompleteRecord(ctx context.Context, id string, o audit.Outcome) error
	Receipts(ctx context.Context, ref app.Ref, since time.Time, page store.Page) ([]hook.Receipt, string, error)
}

// Cluster runs apps and keeps the tokens of their webhooks; *cluster.Cluster implements
// it. An app has a token as long as its webhook is enabled.
type Cluster interface {
	EnsureNamespace(ctx context.Context, name string) error
	NamespaceExists(ctx context.Context, name string) (bool, error)
	Objects(ctx context.Context, ref app.Ref) (cluster.Objects, error)
	CheckAdoption(ctx context.Context, o cluster.Objects, a app.App) error
	Apply(ctx context.Context, o cluster.Objects, a app.App) error
	Delete(ctx context.Context, ref app.Ref) error
	DeleteIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error
	WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error)
	SetWebhookToken(ctx context.Context, ref app.Ref, token hook.Token) error
	DeleteWebhookToken(ctx context.Context, ref app.Ref) error
	DeleteWebhookTokenIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error
}

// Registry resolves tags; *registry.Resolver implements it.
type Registry interface {
	// Resolve gives the digest, or "" and a note that says why not.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Service answers the function's requests.
type Service struct {
	cfg      Config
	store    Store
	cluster  Cluster
	registry Registry
	api      *httpapi.API
	wiring   *nudge.Sender
	deploys  *nudge.Sender
	builds   *nudge.Sender
	log      *slog.Logger
	now      func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	Store    Store
	Cluster  Cluster
	Registry Registry
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

// eventSource is how other functions know who tells them.
const eventSource = "/sluice/apps"

// New makes a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.baseHosts().SharesDomain("app." + strings.ToLower(cfg.AppsDomain)) {
		p.Log.Warn("apps share the console's registrable domain; another domain for apps is safer", "apps_domain", cfg.AppsDomain, "base_url", cfg.BaseURL)
	}
	s := &Service{
		cfg: cfg, store: p.Store, cluster: p.Cluster, registry: p.Registry, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls), log: p.Log, now: time.Now,
		wiring:  nudge.New(cfg.WiringURL, eventSource, p.Log),
		deploys: nudge.New(cfg.DeploysURL, eventSource, p.Log),
		builds:  nudge.New(cfg.BuildsURL, eventSource, p.Log),
	}
	s.serve()
	return s, nil
}

func (s *Service) serve() {
	httpapi.Serve(s.api, api.ListProjects, s.listProjects)
	httpapi.Serve(s.api, api.CreateProject, s.createProject)
	httpapi.Serve(s.api, api.GetProject, s.getProject)
	httpapi.Serve(s.api, api.UpdateProject, s.updateProject)
	httpapi.Serve(s.api, api.DeleteProject, s.deleteProject)
	httpapi.Serve(s.api, api.ListMembers, s.listMembers)
	httpapi.Serve(s.api, api.GetMember, s.getMember)
	httpapi.Serve(s.api, api.SetMembers, s.setMembers)
	httpapi.Serve(s.api, api.RemoveMember, s.removeMember)
	httpapi.Serve(s.api, api.ListTokens, s.listTokens)
	httpapi.Serve(s.api, api.GetToken, s.getToken)
	httpapi.Serve(s.api, api.CreateToken, s.createToken)
	httpapi.Serve(s.api, api.RevokeToken, s.revokeToken)
	httpapi.Serve(s.api, api.ListEnvironments, s.listEnvironments)
	httpapi.Serve(s.api, api.GetEnvironment, s.getEnvironment)
	httpapi.Serve(s.api, api.CreateEnvironment, s.createEnvironment)
	httpapi.Serve(s.api, api.DeleteEnvironment, s.deleteEnvironment)
	httpapi.Serve(s.api, api.ListHostReservations, s.listReservations)
	httpapi.Serve(s.api, api.ReleaseHost, s.releaseHost)
	httpapi.Serve(s.api, api.ListApps, s.listApps)
	httpapi.Serve(s.api, api.CreateApp, s.createApp)
	httpapi.Serve(s.api, api.GetApp, s.getApp)
	httpapi.Serve(s.api, api.UpdateApp, s.updateApp)
	httpapi.Serve(s.api, api.DeleteApp, s.deleteApp)
	httpapi.Serve(s.api, api.SetGitSource, s.setGitSource)
	httpapi.Serve(s.api, api.RemoveGitSource, s.removeGitSource)
	httpapi.Serve(s.api, api.GetWebhook, s.getWebhook)
	httpapi.Serve(s.api, api.ListTrusts, s.listTrusts)
	httpapi.Serve(s.api, api.GetTrust, s.getTrust)
	httpapi.Serve(s.api, api.AddTrust, s.addTrust)
	httpapi.Serve(s.api, api.RemoveTrust, s.removeTrust)
	httpapi.Serve(s.api, api.EnableWebhook, s.enableWebhook)
	httpapi.Serve(s.api, api.DisableWebhook, s.disableWebhook)
	httpapi.Serve(s.api, api.ListDeliveries, s.listDeliveries)
	httpapi.Serve(s.api, api.TestWebhook, s.testWebhook)
	httpapi.Serve(s.api, api.ListAudit, s.listAudit)
	httpapi.Serve(s.api, api.ListActivity, s.listActivity)
	httpapi.Serve(s.api, api.ListInstallationAudit, s.listInstallationAudit)
	reference.Serve(s.api)
}

// moment returns the time in the resolution of the store.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// Handler serves the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// Close waits for what is still being told to other functions, until ctx ends.
func (s *Service) Close(ctx context.Context) error {
	return errors.Join(s.wiring.Close(ctx), s.deploys.Close(ctx), s.builds.Close(ctx))
}
