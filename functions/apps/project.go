package apps

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listProjects(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Project], error) {
	if in.Caller.Service() {
		return s.listOwnProject(ctx, in, page)
	}
	member := in.Caller.Username
	if in.Caller.Admin {
		member = "" // all projects
	}
	projects, next, err := s.store.Projects(ctx, member, store.Page(page))
	return wire.ListOf(projects, next, func(p app.Project) wire.Project { return wireProject(p, in.Caller.RoleIn(p)) }), err
}

func (s *Service) listOwnProject(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Project], error) {
	if page.Token != "" {
		return wire.List[wire.Project]{}, problem.FromCode(problem.InvalidPage)
	}
	p, err := s.store.Project(ctx, in.Caller.Grant.Project)
	return wire.ListOf([]app.Project{p}, "", func(p app.Project) wire.Project { return wireProject(p, in.Caller.RoleIn(p)) }), err
}

func (s *Service) createProject(ctx context.Context, in httpapi.Scope, body wire.CreateProject) (wire.Project, error) {
	name, err := label("project", body.Name)
	if err != nil {
		return wire.Project{}, err
	}
	p := app.Project{Name: name, Members: map[string]app.Role{in.Caller.Username: app.Owner}, CreatedAt: s.storeTime(), LeakPolicy: apikey.LeakDisable}
	return wireProject(p, app.Owner), s.store.CreateProject(ctx, p)
}

func (s *Service) getProject(_ context.Context, in httpapi.Scope, _ api.None) (wire.Project, error) {
	in.SetETag(settingsOf(in.Project))
	return wireProject(in.Project, in.Role), nil
}

// settings are the fields that a project's ETag covers. Members have a separate ETag.
type settings struct {
	LeakPolicy apikey.LeakPolicy
	Registries []string
}

func settingsOf(p app.Project) settings {
	return settings{LeakPolicy: p.LeakPolicy, Registries: append([]string{}, p.Registries...)}
}

func (s *Service) updateProject(ctx context.Context, in httpapi.Scope, body wire.UpdateProject) (wire.Project, error) {
	p, err := s.store.UpdateProject(ctx, in.Project.Name, func(p app.Project) (app.Project, error) {
		if err := in.Match.Check(settingsOf(p)); err != nil {
			return p, err
		}
		if body.Registries.Set {
			p.Registries = nil
			if body.Registries.Value != nil {
				p.Registries = *body.Registries.Value
			}
			if err := registry.CheckRegistries(p.Registries); err != nil {
				return p, problem.ForField("registries", err)
			}
		}
		if !body.LeakPolicy.Set {
			return p, nil
		}
		if body.LeakPolicy.Value == nil {
			return p, httpapi.Missing("leak_policy")
		}
		p.LeakPolicy = apikey.LeakPolicy(*body.LeakPolicy.Value)
		if !p.LeakPolicy.Valid() {
			return p, problem.ForField("leak_policy", problem.FromCode(problem.InvalidPolicy))
		}
		return p, nil
	})
	if err != nil {
		return wire.Project{}, err
	}
	in.SetETag(settingsOf(p))
	return wireProject(p, in.Role), nil
}

func (s *Service) deleteProject(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	return api.None{}, s.store.DeleteProject(ctx, in.Project)
}

func wireProject(p app.Project, role app.Role) wire.Project {
	return wire.Project{
		Name: p.Name, Role: string(role), CreatedAt: p.CreatedAt, LeakPolicy: string(p.LeakPolicy), Registries: append([]string{}, p.Registries...),
	}
}

func label(what string, value *string) (string, error) {
	if value == nil {
		return "", httpapi.Missing("name")
	}
	return *value, app.CheckLabel(what, *value)
}

func (s *Service) listMembers(_ context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Member], error) {
	in.SetETag(in.Project.Members)
	return pageOfMembers(in.Project.Members, page)
}

func (s *Service) getMember(_ context.Context, in httpapi.Scope, _ api.None) (wire.Member, error) {
	name := in.Param("username")
	role, ok := in.Project.Members[name]
	if !ok {
		return wire.Member{}, noMember()
	}
	in.SetETag(in.Project.Members)
	return wire.Member{Username: name, Role: string(role)}, nil
}

func noMember() error { return problem.New(problem.NotFound, "The member does not exist.") }

func (s *Service) setMembers(ctx context.Context, in httpapi.Scope, body wire.SetMembers) (wire.List[wire.Member], error) {
	members, err := parseMembers(body.Members)
	if err != nil {
		return wire.List[wire.Member]{}, err
	}
	p, err := s.store.UpdateMembers(ctx, in.Project.Name, func(stored map[string]app.Role, states store.ReadStates) (map[string]app.Role, error) {
		if err := in.Match.Check(stored); err != nil {
			return nil, err
		}
		known, err := states(slices.Sorted(maps.Keys(members)))
		if err != nil {
			return nil, err
		}
		if err := unknownUsers(body.Members, known); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(app.Owners(stored), func(name string) bool { return members[name] != app.Owner }) {
			return members, nil // all owners remain
		}
		return members, problem.ForField("members", requireOwner(members, known))
	})
	if err != nil {
		return wire.List[wire.Member]{}, err
	}
	in.SetETag(p.Members)
	return pageOfMembers(p.Members, api.Page{Size: max(1, len(p.Members))})
}

func (s *Service) removeMember(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	username := in.Param("username")
	_, err := s.store.UpdateMembers(ctx, in.Project.Name, func(members map[string]app.Role, states store.ReadStates) (map[string]app.Role, error) {
		role, ok := members[username]
		if !ok {
			return nil, noMember()
		}
		if err := in.Match.Check(members); err != nil {
			return nil, err
		}
		delete(members, username)
		if role != app.Owner {
			return members, nil
		}
		known, err := states(app.Owners(members))
		if err != nil {
			return nil, err
		}
		return members, requireOwner(members, known)
	})
	return api.None{}, err
}

func parseMembers(in []wire.Member) (map[string]app.Role, error) {
	if in == nil {
		return nil, httpapi.Missing("members")
	}
	var wrong []error
	members := make(map[string]app.Role, len(in))
	for i, m := range in {
		role := app.Role(m.Role)
		if !role.Valid() {
			wrong = append(wrong, problem.ForField(memberField(i, "role"), problem.FromCode(problem.InvalidRole)))
		}
		if _, twice := members[m.Username]; twice {
			wrong = append(wrong, problem.ForField(memberField(i, "username"), problem.New(problem.InvalidName, "%.64q is listed twice.", m.Username)))
		}
		members[m.Username] = role
	}
	if len(wrong) > 0 {
		return nil, problem.Join(wrong...)
	}
	return members, nil
}

func memberField(i int, name string) string { return fmt.Sprintf("members[%d].%s", i, name) }

func unknownUsers(in []wire.Member, known user.ByName) error {
	var wrong []error
	for i, m := range in {
		if _, ok := known[m.Username]; !ok {
			wrong = append(wrong, problem.ForField(memberField(i, "username"), problem.New(problem.UnknownUser, "The user %.64q does not exist.", m.Username)))
		}
	}
	return problem.Join(wrong...)
}

func requireOwner(members map[string]app.Role, known user.ByName) error {
	if !known.HaveActive(app.Owners(members)) {
		return problem.FromCode(problem.LastOwner)
	}
	return nil
}

// pageOfMembers returns a page of members by name. The page token is the last name of the
// previous page.
func pageOfMembers(members map[string]app.Role, page api.Page) (wire.List[wire.Member], error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil {
		return wire.List[wire.Member]{}, problem.FromCode(problem.InvalidPage)
	}
	list := wire.List[wire.Member]{Items: []wire.Member{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name <= string(after) {
			continue
		}
		if n := len(list.Items); n == page.Size {
			list.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(list.Items[n-1].Username))
			break
		}
		list.Items = append(list.Items, wire.Member{Username: name, Role: string(members[name])})
	}
	return list, nil
}

func (s *Service) listEnvironments(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Environment], error) {
	environments, next, err := s.store.Environments(ctx, in.Project.Name, store.Page(page))
	return wire.ListOf(environments, next, wireEnvironment), err
}

// createEnvironment creates an environment and tries to create its namespace. If that fails, the
// namespace is created with the first app.
func (s *Service) createEnvironment(ctx context.Context, in httpapi.Scope, body wire.CreateEnvironment) (wire.Environment, error) {
	name, err := label("environment", body.Name)
	if err != nil {
		return wire.Environment{}, err
	}
	namespace, err := app.Namespace(in.Project.Name, name)
	if err != nil {
		return wire.Environment{}, err
	}
	if s.cfg.reservedNamespace(namespace) {
		return wire.Environment{}, problem.New(problem.NamespaceTaken, "The namespace %s is reserved.", namespace)
	}
	e := app.Environment{Project: in.Project.Name, Name: name, Namespace: namespace, CreatedAt: s.storeTime()}
	err = s.store.CreateEnvironment(ctx, e)
	if problem.Is(err, problem.NamespaceNotEmpty) {
		err = s.createReleased(ctx, e)
	}
	if err != nil {
		return wire.Environment{}, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.cluster.EnsureNamespace(ctx, namespace); err != nil {
		s.log.WarnContext(ctx, "create namespace failed", "namespace", namespace, "error", err)
	}
	return wireEnvironment(e), nil
}

// createReleased stores an environment whose namespace belonged to another project. It returns a
// namespace_not_empty problem if the namespace still exists: it may contain that project's data.
func (s *Service) createReleased(ctx context.Context, e app.Environment) error {
	exists, err := s.cluster.NamespaceExists(ctx, e.Namespace)
	if err != nil {
		return err
	}
	if exists {
		return problem.FromCode(problem.NamespaceNotEmpty)
	}
	if err := s.store.ReleaseNamespace(ctx, e.Namespace); err != nil {
		return err
	}
	return s.store.CreateEnvironment(ctx, e)
}

func (s *Service) getEnvironment(_ context.Context, in httpapi.Scope, _ api.None) (wire.Environment, error) {
	return wireEnvironment(in.Environment), nil
}

func (s *Service) deleteEnvironment(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	return api.None{}, s.store.DeleteEnvironment(ctx, in.Environment)
}

func (c Config) reservedNamespace(ns string) bool {
	return strings.HasPrefix(ns, "kube-") || ns == c.WebhookNamespace || slices.Contains(c.ReservedNamespaces, ns)
}

func wireEnvironment(e app.Environment) wire.Environment {
	return wire.Environment{Name: e.Name, Project: e.Project, Namespace: e.Namespace, CreatedAt: e.CreatedAt}
}
