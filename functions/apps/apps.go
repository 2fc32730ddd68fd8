// Package apps manages projects, their members and service tokens, their environments and the
// apps in them (promises A6, A7, A8, A12, S9, S10). It also returns 404 for paths below /api that
// no function serves.
//
// # Names and hosts
//
// Only admins create projects, because project names determine the names of Kubernetes
// namespaces. A project keeps at least one owner.
//
// A host belongs to one app in the installation. APP_HOST is the pattern of default hosts. An app
// cannot have the default host of an app in another environment, nor a host above or below it.
// With a pattern such as "{app}-{namespace}", two apps can have the same default host; the second
// app gets a host_taken problem and must set another host.
//
// # Writes
//
// Creating an app first stores the document, which claims the name and the host, and then writes
// to the cluster. If the cluster does not respond, the call returns 503; the app remains stored,
// and the wiring function creates its objects. With the document, the transaction stores revision
// 1 of an image app or the first build of a git app.
//
// Deleting an app deletes the route, the other objects, the app's name in the scopes of keys, and
// the document. Then it deletes the objects that the wiring function has restored in the meantime.
// The call can be repeated if it fails. Namespaces remain. A key whose scope has no apps left
// covers no app, not even a later app with the same name.
//
// # Webhooks
//
// A webhook is enabled while its token exists, in a Secret. Since the token is not in the store,
// the audit record of a change is written before the change and completed afterwards. A test
// sends a signed ping to the webhook's public address.
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
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/store"
)

// Store stores the documents; *store.Store implements it.
type Store interface {
	httpapi.Resources
	CreateProject(ctx context.Context, p app.Project) error
	Projects(ctx context.Context, member string, page store.Page) ([]app.Project, string, error)
	UpdateMembers(ctx context.Context, name string, change store.ChangeMembers) (app.Project, error)
	UpdateProject(ctx context.Context, name string, change func(app.Project) (app.Project, error)) (app.Project, error)
	DeleteProject(ctx context.Context, p app.Project) error
	CreateToken(ctx context.Context, t servicetoken.Token) error
	Tokens(ctx context.Context, project string, page store.Page) ([]servicetoken.Token, string, error)
	ServiceToken(ctx context.Context, id servicetoken.ID) (servicetoken.Token, error)
	RevokeToken(ctx context.Context, project string, id servicetoken.ID) error
	KeysIssuedBy(ctx context.Context, t servicetoken.Token) ([]apikey.Key, error)
	CreateEnvironment(ctx context.Context, e app.Environment) error
	Environments(ctx context.Context, project string, page store.Page) ([]app.Environment, string, error)
	DeleteEnvironment(ctx context.Context, e app.Environment) error
	ReleaseNamespace(ctx context.Context, namespace string) error
	CreateApp(ctx context.Context, a app.App, first store.InitialState) error
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

// Cluster accesses the objects and webhook tokens of apps; *cluster.Cluster implements it.
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
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Service handles the function's requests.
type Service struct {
	cfg      Config
	store    Store
	cluster  Cluster
	registry Registry
	api      *httpapi.API
	wiring   *notify.Sender
	deploys  *notify.Sender
	builds   *notify.Sender
	log      *slog.Logger
	now      func() time.Time
}

// Parts are the dependencies of a [Service].
type Parts struct {
	Store    Store
	Cluster  Cluster
	Registry Registry
	Sessions httpapi.Sessions
	Log      *slog.Logger
}

const eventSource = "/sluice/apps"

// New returns a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.baseHosts().SharesDomain("app." + strings.ToLower(cfg.AppsDomain)) {
		p.Log.Warn("apps share the console's registrable domain; use another domain for apps", "apps_domain", cfg.AppsDomain, "base_url", cfg.BaseURL)
	}
	s := &Service{
		cfg: cfg, store: p.Store, cluster: p.Cluster, registry: p.Registry, api: httpapi.NewAPI(p.Log, p.Sessions, p.Store).Within(cfg.Calls), log: p.Log, now: time.Now,
		wiring:  notify.New(cfg.WiringURL, eventSource, p.Log),
		deploys: notify.New(cfg.DeploysURL, eventSource, p.Log),
		builds:  notify.New(cfg.BuildsURL, eventSource, p.Log),
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

func (s *Service) storeTime() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// Handler returns the handler of the function's routes.
func (s *Service) Handler() http.Handler { return s.api }

// Close waits until the notifications to other functions are sent, or ctx ends.
func (s *Service) Close(ctx context.Context) error {
	return errors.Join(s.wiring.Close(ctx), s.deploys.Close(ctx), s.builds.Close(ctx))
}
