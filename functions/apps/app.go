package apps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const placeAttempts = 4

func (s *Service) listApps(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.App], error) {
	apps, next, err := s.store.Apps(ctx, in.Environment.Namespace, store.Page(page))
	return wire.ListOf(apps, next, s.wireApp), err
}

func (s *Service) getApp(_ context.Context, in httpapi.Scope, _ api.None) (wire.App, error) {
	in.SetETag(in.App.Asked())
	return s.wireApp(in.App), nil
}

func (s *Service) createApp(ctx context.Context, in httpapi.Scope, body wire.CreateApp) (wire.App, error) {
	a, err := s.newApp(in.Environment, body)
	if err != nil {
		return wire.App{}, err
	}
	if a.Image != "" {
		if err := registry.CheckRegistry(a.Image, in.Project.Registries); err != nil {
			return wire.App{}, problem.ForField("image", err)
		}
	}
	if err := s.deleteLeftToken(ctx, a.Ref()); err != nil {
		return wire.App{}, err
	}
	if err := s.checkCluster(ctx, a); err != nil {
		return wire.App{}, err
	}
	a, first := s.first(ctx, a, in.Caller.Username)
	if err := s.store.CreateApp(ctx, a, first); err != nil {
		if body.Host == nil {
			err = nameDefaultHost(err, a.Host)
		}
		return wire.App{}, err
	}
	if body.Host != nil {
		s.warnShared(ctx, a)
	}
	// The app exists now. A client that disconnects must not leave it incomplete.
	ctx = context.WithoutCancel(ctx)
	if err := s.place(ctx, a.Ref()); err != nil {
		return wire.App{}, err
	}
	if a.Revision > 0 {
		s.deploys.Notify(ctx, app.DeployRequested, a.Ref())
	}
	if first.Build != nil {
		s.builds.Notify(ctx, app.BuildRequested, a.Ref())
	}
	in.SetETag(a.Asked())
	return s.wireApp(a), nil
}

// change updates the path's app in a transaction, if it matches If-Match.
func (s *Service) change(ctx context.Context, in httpapi.Scope, f func(*app.App) error) (app.App, error) {
	a, err := s.store.UpdateApp(ctx, in.App.Ref(), func(a app.App) (app.App, error) {
		if !a.CreatedAt.Equal(in.App.CreatedAt) {
			return app.App{}, problem.New(problem.NotFound, "The app was deleted. Another app has its name now.")
		}
		if err := in.Match.Check(a.Asked()); err != nil {
			return app.App{}, err
		}
		err := f(&a)
		return a, err
	})
	if err == nil {
		in.SetETag(a.Asked())
	}
	return a, err
}

// deleteLeftToken deletes the webhook token that an incomplete deletion of a previous app with the
// same name has left. It returns an already_exists problem if the app exists.
func (s *Service) deleteLeftToken(ctx context.Context, ref app.Ref) error {
	_, err := s.store.App(ctx, ref.Namespace, ref.Name)
	if err == nil {
		return problem.New(problem.AlreadyExists, "An app with this name already exists.")
	}
	if !problem.Is(err, problem.NotFound) {
		return err
	}
	return s.cluster.DeleteWebhookToken(ctx, ref)
}

// checkCluster returns a name_taken problem if the cluster has an object with the app's name that
// the app cannot adopt. It returns nil if the cluster does not respond.
func (s *Service) checkCluster(ctx context.Context, a app.App) error {
	seen, err := s.cluster.Objects(ctx, a.Ref())
	if err != nil {
		return nil //nolint:nilerr // The app is recorded, and place returns the error.
	}
	return s.cluster.CheckAdoption(ctx, seen, a)
}

func (s *Service) newApp(e app.Environment, in wire.CreateApp) (app.App, error) {
	now := s.storeTime()
	a := app.App{
		Name: httpapi.Deref(in.Name), Project: e.Project, Environment: e.Name, Namespace: e.Namespace, Port: app.DefaultPort,
		Preflight: app.PreflightApp, Gate: app.Gate{State: app.Ungated, Since: now}, CreatedAt: now, UpdatedAt: now,
	}
	name := problem.Join(httpapi.Required("name", in.Name), app.CheckName(a.Name))
	var host error
	if in.Host != nil || name == nil { // the default host contains the name
		a.Host, host = s.cfg.host(in.Host, a.Ref())
	}
	return a, problem.Join(name, host, setPort(&a, in.Port), setPreflight(&a, in.Preflight), from(&a, in))
}

func setPort(a *app.App, given *int) error {
	if given == nil {
		return nil
	}
	if a.Port = *given; a.Port < 1 || a.Port > 65535 {
		return problem.FromCode(problem.InvalidPort)
	}
	return nil
}

func setPreflight(a *app.App, given *string) error {
	if given == nil {
		return nil
	}
	a.Preflight = app.Preflight(*given)
	return app.CheckPreflight(a.Preflight)
}

func from(a *app.App, in wire.CreateApp) error {
	switch {
	case in.Image != nil && in.GitSource != nil:
		return problem.New(problem.InvalidSource, "Set image or git_source, not both.")
	case in.Image != nil:
		a.Image, a.Revision = *in.Image, 1
		a.Deployed = app.Deployed{At: a.CreatedAt, Status: string(deploy.RollingOut)}
		return registry.Check(a.Image)
	case in.GitSource != nil:
		a.GitSource = &app.GitSource{Repository: in.GitSource.Repository, Branch: in.GitSource.Branch, Path: in.GitSource.Path}
		return problem.Nest("git_source", checkGitSource(*a.GitSource))
	}
	return problem.ForField("image", httpapi.Missing("image or git_source"))
}

func (s *Service) first(ctx context.Context, a app.App, actor string) (app.App, store.InitialState) {
	if a.GitSource != nil {
		b := deploy.NewBuild(*a.GitSource, "", deploy.Manual, actor, a.CreatedAt)
		return a, store.InitialState{Build: &b}
	}
	rev := s.firstRevision(ctx, a, actor)
	a.Image = rev.Runs()
	return a, store.InitialState{Revision: rev}
}

func (s *Service) firstRevision(ctx context.Context, a app.App, actor string) deploy.Revision {
	rev := deploy.First(a)
	rev.Actor = actor
	rev.Digest, rev.Note = s.registry.Resolve(ctx, a.Image)
	return rev
}

// place creates an app's objects. It reads them before the app's document, so that it never
// overwrites newer objects. It returns a not_found problem if the app was deleted in the meantime.
func (s *Service) place(ctx context.Context, ref app.Ref) error {
	err := s.tryPlace(ctx, ref)
	for n := 1; n < placeAttempts && problem.Is(err, problem.Conflict); n++ {
		err = s.tryPlace(ctx, ref)
	}
	if problem.Is(err, problem.Unavailable) || problem.Is(err, problem.Conflict) {
		return problem.New(problem.Unavailable,
			"The app is saved, but the cluster does not respond. Sluice creates the app's objects when the cluster responds.").WithCause(err)
	}
	if err != nil && !problem.Is(err, problem.NameTaken) { // the object was created in the meantime; the revision fails
		return fmt.Errorf("place %s: %w", ref, err)
	}
	return s.sweep(ctx, ref)
}

func (s *Service) tryPlace(ctx context.Context, ref app.Ref) error {
	seen, err := s.cluster.Objects(ctx, ref)
	if err != nil {
		return err
	}
	a, err := s.store.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	return s.cluster.Apply(ctx, seen, a)
}

// sweep deletes an app's objects and returns a not_found problem if its document no longer exists.
func (s *Service) sweep(ctx context.Context, ref app.Ref) error {
	_, gone := s.store.App(ctx, ref.Namespace, ref.Name)
	if !problem.Is(gone, problem.NotFound) {
		return gone
	}
	if err := s.cluster.Delete(ctx, ref); err != nil {
		return err
	}
	return gone
}

func (s *Service) updateApp(ctx context.Context, in httpapi.Scope, body wire.UpdateApp) (wire.App, error) {
	var rewired bool
	var was app.App
	a, err := s.change(ctx, in, func(a *app.App) error {
		was = *a
		if err := s.setAll(a, body); err != nil {
			return err
		}
		rerouted := a.Preflight != was.Preflight || a.Host != was.Host || a.Port != was.Port
		if rewired = rerouted || a.RequireAPIKey != was.RequireAPIKey; !rewired {
			return nil
		}
		a.UpdatedAt = s.storeTime()
		if rerouted {
			a.Gate = a.Gate.Renew(a.UpdatedAt)
		}
		if a.RequireAPIKey != was.RequireAPIKey {
			a.Gate = a.Gate.Switch(a.RequireAPIKey, a.UpdatedAt)
		}
		return nil
	})
	if err != nil {
		return wire.App{}, err
	}
	if a.Host != was.Host {
		s.warnShared(ctx, a)
	}
	if rewired || a.Gate.State == app.Pending || a.Gate.State == app.Releasing {
		s.wiring.Notify(ctx, app.GateRequested, a.Ref())
	}
	return s.wireApp(a), nil
}

func (s *Service) setAll(a *app.App, body wire.UpdateApp) error {
	var host error
	if body.Host != nil && !strings.EqualFold(*body.Host, a.Host) { // the app's current host may be reserved by now
		var to string
		if to, host = s.cfg.host(body.Host, a.Ref()); host == nil {
			a.Host = to
		}
	}
	if body.RequireAPIKey != nil {
		a.RequireAPIKey = *body.RequireAPIKey
	}
	return problem.Join(host, setPort(a, body.Port), setPreflight(a, body.Preflight))
}

func (s *Service) warnShared(ctx context.Context, a app.App) {
	if s.cfg.baseHosts().SharesDomain(a.Host) {
		s.log.WarnContext(ctx, "app shares the console's registrable domain", "app", a.Ref().String(), "host", a.Host)
	}
}

// deleteApp deletes an app. The call can be repeated if it fails.
//
// With If-Match, it first changes the app's version in the transaction that compares it. Of
// several calls with the same If-Match, only one therefore continues.
func (s *Service) deleteApp(ctx context.Context, in httpapi.Scope, _ api.None) (wire.DeletedApp, error) {
	if in.Match.Present() {
		_, err := s.change(ctx, in, func(a *app.App) error {
			a.UpdatedAt = latest(s.storeTime(), a.UpdatedAt.Add(time.Microsecond))
			return nil
		})
		if err != nil {
			return wire.DeletedApp{}, err
		}
	}
	if err := s.store.CheckRelease(ctx, in.App); err != nil {
		return wire.DeletedApp{}, err
	}
	narrowed, err := s.remove(context.WithoutCancel(ctx), in.App)
	deleted := wireDeleted(narrowed)
	deleted.Host, deleted.HostReservedUntil = in.App.Host, s.now().UTC().Add(store.HostReserved).Truncate(time.Microsecond)
	return deleted, err
}

func wireDeleted(n store.Narrowed) wire.DeletedApp {
	out := wire.DeletedApp{KeyCount: n.Count, Keys: make([]wire.NarrowedKey, len(n.Keys))}
	for i, k := range n.Keys {
		apps, scope := apikey.ShownScope(k.Apps)
		out.Keys[i] = wire.NarrowedKey{KeyID: string(k.ID()), Name: k.Name, Apps: apps, Scope: string(scope)}
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// remove deletes an app, unless its name now belongs to a later app. It returns the keys whose
// scopes named the app.
func (s *Service) remove(ctx context.Context, a app.App) (narrowed store.Narrowed, err error) {
	ref := a.Ref()
	allowed := func(ctx context.Context) (bool, error) {
		named, err := s.store.App(ctx, ref.Namespace, ref.Name)
		if problem.Is(err, problem.NotFound) {
			return true, nil
		}
		return err == nil && named.CreatedAt.Equal(a.CreatedAt), err
	}
	if err := s.clear(ctx, ref, allowed); err != nil {
		return narrowed, err
	}
	// A concurrent call may have deleted the document first.
	if narrowed, err = s.store.LeaveScopes(ctx, a); err == nil {
		err = s.store.DeleteApp(ctx, a)
	}
	if err != nil && !problem.Is(err, problem.NotFound) {
		return narrowed, err
	}
	// Wiring may have restored objects before the document was deleted, or a user may have
	// enabled the webhook again.
	return narrowed, s.clear(ctx, ref, allowed)
}

func (s *Service) clear(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error {
	if err := s.cluster.DeleteIf(ctx, ref, allowed); err != nil {
		return err
	}
	return s.cluster.DeleteWebhookTokenIf(ctx, ref, allowed)
}

func (s *Service) wireApp(a app.App) wire.App {
	out := wire.App{
		Name: a.Name, Project: a.Project, Environment: a.Environment,
		Host: a.Host, URL: strings.ReplaceAll(s.cfg.AppURL, hostMark, a.Host), Port: a.Port,
		Kind: string(a.Kind()), Image: a.Image, RequireAPIKey: a.RequireAPIKey, Preflight: string(a.Preflight),
		Gate:     wire.Gate{State: string(a.Gate.State), Since: a.Gate.Since, Message: a.Gate.Message},
		Revision: a.Revision,
	}
	if d := a.Deployed; a.Revision > 0 && !d.At.IsZero() {
		out.Deployed = &wire.Deployed{At: d.At, Status: d.Status}
	}
	if g := a.GitSource; g != nil {
		out.GitSource = &wire.GitSource{Repository: g.Repository, Branch: g.Branch, Path: g.Path}
	}
	return out
}
