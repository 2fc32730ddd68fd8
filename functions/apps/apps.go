// Package apps is the function that manages projects, their members, their
// environments and the apps in them (specification sections 1, 2.5 and 3.2;
// decisions sections 1 and 3).
//
//	GET    /api/v1/projects                                   those one is a member of; admins, all
//	POST   /api/v1/projects                                   {name} (admins)
//	GET    /api/v1/projects/{project}                         viewer
//	DELETE /api/v1/projects/{project}                         owner; 409 not_empty with environments
//	GET    …/members                                          viewer
//	PUT    …/members                                          {members:[{username,role}]}, the whole list (owner)
//	DELETE …/members/{username}                               owner
//	GET    …/environments                                     viewer
//	POST   …/environments                                     {name} (owner)
//	DELETE …/environments/{environment}                       owner; 409 not_empty with apps, keys or plans
//	GET    …/environments/{environment}/apps                  viewer
//	POST   …/environments/{environment}/apps                  {name,host?,port?,image? or git_source?} (developer)
//	GET    …/apps/{app}                                       viewer
//	PATCH  …/apps/{app}                                       {require_api_key?} (developer)
//	DELETE …/apps/{app}                                       developer
//	PUT    …/apps/{app}/git-source                            {repository,branch,path?} (developer)
//	DELETE …/apps/{app}/git-source                            developer
//	GET    …/apps/{app}/webhook                               viewer; the token for developers only
//	POST   …/apps/{app}/webhook                               enables, or makes another token (developer)
//	DELETE …/apps/{app}/webhook                               disables (developer)
//	GET    /api/v1/projects/{project}/audit                   changes, newest first (owner)
//	GET    /api/v1/audit                                      those that belong to no project (admins)
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
// cluster's objects, then the document, then once more whatever wiring may have
// put back meanwhile. It can be repeated. An environment's Kubernetes namespace is
// left behind, since it may hold what Sluice did not make. Scopes of keys keep the
// name of a deleted app.
//
// # Webhooks
//
// An app's webhook is enabled as long as there is a token for it, in a Secret of the
// namespace that holds the tokens and nothing else. The webhook function reads the
// Secret again before every deployment, so that a new token, or none, counts from the
// next call on. The token goes with its app; one that a crash has left behind goes
// before an app of that name is made again. Developers can read it again, since it lets
// them do nothing that they may not do anyway; viewers see only whether there is one.
//
// Tokens are not kept in the store, so their audit records are written before they
// are changed, and completed afterwards; see package audit.
//
// # Audit
//
// ?from= and ?to= are RFC 3339 times or UTC days, both inclusive; ?actor= and ?action=
// must be equal, ?resource= names a resource and all below it. Package audit says what
// is recorded and who reads it.
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

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/store"
)

// Projects keeps projects and their members; *store.Store implements it.
type Projects interface {
	CreateProject(ctx context.Context, p app.Project) error
	Project(ctx context.Context, name string) (app.Project, error)
	Projects(ctx context.Context, member string, page store.Page) ([]app.Project, string, error)
	UpdateMembers(ctx context.Context, name string, change func(map[string]app.Role) (map[string]app.Role, error)) (app.Project, error)
	DeleteProject(ctx context.Context, name string) error
}

// Users tells who can be a member; *store.Store implements it.
type Users interface {
	UsersExist(ctx context.Context, names []string) (missing []string, err error)
}

// Environments keeps environments; *store.Store implements it.
type Environments interface {
	CreateEnvironment(ctx context.Context, e app.Environment) error
	Environment(ctx context.Context, project, name string) (app.Environment, error)
	Environments(ctx context.Context, project string, page store.Page) ([]app.Environment, string, error)
	DeleteEnvironment(ctx context.Context, project, name string) error
}

// Apps keeps apps; *store.Store implements it.
type Apps interface {
	CreateApp(ctx context.Context, a app.App, first ...store.First) error
	App(ctx context.Context, namespace, name string) (app.App, error)
	Apps(ctx context.Context, namespace string, page store.Page) ([]app.App, string, error)
	UpdateApp(ctx context.Context, ref app.Ref, change func(app.App) (app.App, error)) (app.App, error)
	DeleteApp(ctx context.Context, ref app.Ref) error
}

// Cluster runs apps; *cluster.Cluster implements it.
type Cluster interface {
	EnsureNamespace(ctx context.Context, name string) error
	Objects(ctx context.Context, ref app.Ref) (cluster.Objects, error)
	Apply(ctx context.Context, o cluster.Objects, a app.App) error
	Delete(ctx context.Context, ref app.Ref) error
}

// Registry resolves tags; *registry.Resolver implements it.
type Registry interface {
	// Resolve gives the digest, or "" and a note that says why not.
	Resolve(ctx context.Context, image string) (digest, note string)
}

// Guard says who asks and whether they may; *identity.Guard implements it.
type Guard interface {
	Caller(r *http.Request) (identity.Caller, error)
	Require(r *http.Request, project string, need app.Role) (identity.Caller, error)
}

// Service answers the function's requests.
type Service struct {
	cfg          Config
	projects     Projects
	users        Users
	environments Environments
	apps         Apps
	cluster      Cluster
	webhooks     Webhooks
	registry     Registry
	records      Records
	guard        Guard
	wiring       *nudge.Sender
	deploys      *nudge.Sender
	builds       *nudge.Sender
	log          *slog.Logger
	now          func() time.Time
}

// Parts are what a Service is put together from.
type Parts struct {
	Projects     Projects
	Users        Users
	Environments Environments
	Apps         Apps
	Cluster      Cluster
	Webhooks     Webhooks
	Registry     Registry
	Records      Records
	Guard        Guard
	Log          *slog.Logger
}

// eventSource is how other functions know who tells them.
const eventSource = "/sluice/apps"

// New makes a service.
func New(cfg Config, p Parts) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.besideConsole("app." + strings.ToLower(cfg.AppsDomain)) {
		p.Log.Warn("apps share the console's registrable domain; another domain for apps is safer", "apps_domain", cfg.AppsDomain, "base_url", cfg.BaseURL)
	}
	return &Service{
		cfg: cfg, projects: p.Projects, users: p.Users, environments: p.Environments, apps: p.Apps,
		cluster: p.Cluster, webhooks: p.Webhooks, registry: p.Registry, records: p.Records, guard: p.Guard, log: p.Log, now: time.Now,
		wiring:  nudge.New(cfg.WiringURL, eventSource, p.Log),
		deploys: nudge.New(cfg.DeploysURL, eventSource, p.Log),
		builds:  nudge.New(cfg.BuildsURL, eventSource, p.Log),
	}, nil
}

// Handler routes the function's requests.
func (s *Service) Handler() http.Handler {
	const (
		project     = "/api/v1/projects/{project}"
		environment = project + "/environments/{environment}"
	)
	m := httpapi.New(s.log)
	m.Handle("GET /api/v1/projects", s.listProjects)
	m.Handle("POST /api/v1/projects", s.createProject)
	m.Handle("GET "+project, s.getProject)
	m.Handle("DELETE "+project, s.deleteProject)
	m.Handle("GET "+project+"/members", s.listMembers)
	m.Handle("PUT "+project+"/members", s.setMembers)
	m.Handle("DELETE "+project+"/members/{username}", s.removeMember)
	m.Handle("GET "+project+"/environments", s.listEnvironments)
	m.Handle("POST "+project+"/environments", s.createEnvironment)
	m.Handle("DELETE "+environment, s.deleteEnvironment)
	m.Handle("GET "+environment+"/apps", s.listApps)
	m.Handle("POST "+environment+"/apps", s.createApp)
	m.Handle("GET "+environment+"/apps/{app}", s.getApp)
	m.Handle("PATCH "+environment+"/apps/{app}", s.updateApp)
	m.Handle("DELETE "+environment+"/apps/{app}", s.deleteApp)
	m.Handle("PUT "+environment+"/apps/{app}/git-source", s.setGitSource)
	m.Handle("DELETE "+environment+"/apps/{app}/git-source", s.removeGitSource)
	m.Handle("GET "+environment+"/apps/{app}/webhook", s.getWebhook)
	m.Handle("POST "+environment+"/apps/{app}/webhook", s.enableWebhook)
	m.Handle("DELETE "+environment+"/apps/{app}/webhook", s.disableWebhook)
	m.Handle("GET "+project+"/audit", s.projectAudit)
	m.Handle("GET /api/v1/audit", s.installationAudit)
	return m
}

// Close waits for what is still being told to other functions, until ctx ends.
func (s *Service) Close(ctx context.Context) error {
	return errors.Join(s.wiring.Close(ctx), s.deploys.Close(ctx), s.builds.Close(ctx))
}
