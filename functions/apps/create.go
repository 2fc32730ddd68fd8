package apps

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/image"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// placeAttempts is how often placing an app starts over because its objects have
// changed meanwhile.
const placeAttempts = 4

// createApp makes an app: its document, then what runs it. A git app's first build, of
// its branch's head, is recorded with it. Problems:
// missing_field, invalid_name, invalid_image, invalid_git_source, invalid_host,
// invalid_port, already_exists, host_taken; unavailable when the cluster does not
// answer, and then the app is recorded.
func (s *Service) createApp(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.guard.Require(r, r.PathValue("project"), app.Developer)
	if err != nil {
		return err
	}
	e, err := s.environments.Environment(r.Context(), r.PathValue("project"), r.PathValue("environment"))
	if err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.CreateApp](w, r)
	if err != nil {
		return err
	}
	a, err := s.newApp(e, in)
	if err != nil {
		return err
	}
	if err := s.forgetToken(r.Context(), a.Ref()); err != nil {
		return err
	}
	a, first := s.first(r.Context(), a, caller.Username)
	if err := s.apps.CreateApp(r.Context(), a, first); err != nil {
		if in.Host == nil {
			err = explainTaken(err, a.Host)
		}
		return err
	}
	if in.Host != nil && s.cfg.besideConsole(a.Host) {
		s.log.WarnContext(r.Context(), "app shares the console's registrable domain", "app", a.Ref().String(), "host", a.Host)
	}
	// From here on the app exists: a client that hangs up doesn't leave it half made.
	if err := s.place(context.WithoutCancel(r.Context()), a.Ref()); err != nil {
		return err
	}
	if a.Revision > 0 {
		s.deploys.Notify(r.Context(), app.DeployRequested, a.Ref())
	}
	if first.Build != nil {
		s.builds.Notify(r.Context(), app.BuildRequested, a.Ref())
	}
	return httpapi.JSON(w, http.StatusCreated, s.wireApp(a))
}

// forgetToken deletes the webhook's token that an app of that name has left behind, whose
// deletion ended half way: the new app must not have it. Problems: already_exists,
// unavailable.
func (s *Service) forgetToken(ctx context.Context, ref app.Ref) error {
	_, err := s.apps.App(ctx, ref.Namespace, ref.Name)
	if err == nil {
		return problem.New(problem.AlreadyExists, "There already is an app with that name.")
	}
	if !problem.Is(err, problem.NotFound) {
		return err
	}
	return s.webhooks.DeleteWebhookToken(ctx, ref)
}

// newApp is the app that a request describes.
func (s *Service) newApp(e app.Environment, in wire.CreateApp) (app.App, error) {
	if in.Name == nil {
		return app.App{}, nameRequired()
	}
	if err := app.CheckName(*in.Name); err != nil {
		return app.App{}, err
	}
	now := s.now().UTC()
	a := app.App{
		Name: *in.Name, Project: e.Project, Environment: e.Name, Namespace: e.Namespace, Port: app.DefaultPort,
		Gate: app.Gate{State: app.Ungated, Since: now}, CreatedAt: now, UpdatedAt: now,
	}
	var err error
	if a.Host, err = s.cfg.host(in.Host, a.Ref()); err != nil {
		return app.App{}, err
	}
	if in.Port != nil {
		if a.Port = *in.Port; a.Port < 1 || a.Port > 65535 {
			return app.App{}, problem.Of(problem.InvalidPort)
		}
	}
	switch {
	case in.Image != nil && in.GitSource != nil:
		return app.App{}, problem.New(problem.InvalidSource, "An app has an image or a git_source, not both.")
	case in.Image != nil:
		a.Image, a.Revision = *in.Image, 1
		a.Deployed = app.Deployed{At: now, Status: string(deploy.RollingOut)}
		return a, image.Check(a.Image)
	case in.GitSource != nil:
		a.GitSource = &app.GitSource{Repository: in.GitSource.Repository, Branch: in.GitSource.Branch, Path: in.GitSource.Path}
		return a, checkGitSource(*a.GitSource)
	}
	return app.App{}, problem.New(problem.MissingField, "image or git_source is required.")
}

// first is what a new app begins with, and the app with what it then runs: its image's
// revision, or the build of its branch's head.
func (s *Service) first(ctx context.Context, a app.App, actor string) (app.App, store.First) {
	if a.GitSource != nil {
		b := deploy.NewBuild(*a.GitSource, "", deploy.Manual, actor, a.CreatedAt)
		return a, store.First{Build: &b}
	}
	rev := s.firstRevision(ctx, a, actor)
	a.Image = rev.Runs()
	return a, store.First{Revision: rev}
}

// firstRevision is revision 1 of an app that is made with an image, recorded as any
// other: with the digest that the tag means now, or why there is none, and with who
// made the app.
func (s *Service) firstRevision(ctx context.Context, a app.App, actor string) deploy.Revision {
	rev := deploy.First(a)
	rev.Actor = actor
	rev.Digest, rev.Note = s.registry.Resolve(ctx, a.Image)
	return rev
}

// place makes an app's objects in the cluster. It looks at them before it reads
// the document, so that it cannot write what has been overtaken. Problems:
// unavailable, not_found when the app has been deleted meanwhile.
func (s *Service) place(ctx context.Context, ref app.Ref) error {
	err := s.tryPlace(ctx, ref)
	for n := 1; n < placeAttempts && problem.Is(err, problem.Conflict); n++ {
		err = s.tryPlace(ctx, ref)
	}
	if problem.Is(err, problem.Unavailable) || problem.Is(err, problem.Conflict) {
		return problem.New(problem.Unavailable,
			"The app is recorded, but the cluster does not answer; what runs the app will be made as soon as it does.").Because(err)
	}
	if err != nil {
		return fmt.Errorf("place %s: %w", ref, err)
	}
	return s.sweep(ctx, ref)
}

func (s *Service) tryPlace(ctx context.Context, ref app.Ref) error {
	seen, err := s.cluster.Objects(ctx, ref)
	if err != nil {
		return err
	}
	a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	return s.cluster.Apply(ctx, seen, a)
}

// sweep withdraws what an app has in the cluster if its document is gone:
// whoever writes to the cluster looks afterwards. Problem: not_found when it was.
func (s *Service) sweep(ctx context.Context, ref app.Ref) error {
	_, gone := s.apps.App(ctx, ref.Namespace, ref.Name)
	if !problem.Is(gone, problem.NotFound) {
		return gone
	}
	if err := s.cluster.Delete(ctx, ref); err != nil {
		return err
	}
	return gone
}
