package deploys

import (
	"context"
	"iter"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// recordAttempts limits the attempts of a rollback without a revision number: other deployments
	// can come in between.
	recordAttempts = 8

	historyPage = 20
)

func (s *Service) listDeployments(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Deployment], error) {
	revisions, next, err := s.store.Deployments(ctx, in.App.Ref(), store.Page(page))
	in.TagHistory(in.App.Revision)
	return wire.ListOf(revisions, next, func(r deploy.Revision) wire.Deployment { return wireDeployment(r, in.App.Revision) }), err
}

func (s *Service) getDeployment(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Deployment, error) {
	rev, err := s.revision(ctx, in.App.Ref(), in.Number("revision"))
	return wireDeployment(rev, in.App.Revision), err
}

func (s *Service) createDeployment(ctx context.Context, in httpapi.Scope, body wire.CreateDeployment) (wire.Deployment, error) {
	if body.Image == nil {
		return wire.Deployment{}, httpapi.Missing("image")
	}
	if err := registry.Check(*body.Image); err != nil {
		return wire.Deployment{}, err
	}
	if err := takesImages(in.App); err != nil { // saves the call to the registry; recordImage repeats the check
		return wire.Deployment{}, err
	}
	digest, note := s.registry.Resolve(ctx, *body.Image)
	rev := deploy.New(*body.Image, digest, deploy.Manual, in.Caller.Username, s.timestamp())
	rev.Note = note
	return s.recordImage(ctx, in, body, rev)
}

func takesImages(a app.App) error {
	if a.GitSource != nil {
		return problem.FromCode(problem.GitSourceAttached)
	}
	return nil
}

func (s *Service) rollBack(ctx context.Context, in httpapi.Scope, body wire.Rollback) (wire.Deployment, error) {
	a := in.App
	if body.Revision != nil {
		source, err := s.revision(ctx, a.Ref(), *body.Revision)
		if err != nil {
			return wire.Deployment{}, err
		}
		rev := source.Copy(deploy.Rollback, in.Caller.Username, s.timestamp())
		return s.record(ctx, in, body, func(app.App, deploy.Revision) (deploy.Revision, error) { return rev, nil })
	}
	for try := 1; ; try++ {
		d, err := s.rollBackFrom(ctx, in, body, a)
		if !problem.Is(err, problem.Conflict) || try == recordAttempts {
			return d, err
		}
		if a, err = s.store.App(ctx, a.Namespace, a.Name); err != nil {
			return wire.Deployment{}, err
		}
	}
}

// rollBackFrom rolls back to [deploy.Previous]. It returns a conflict problem if a newer revision
// than that of a was recorded.
func (s *Service) rollBackFrom(ctx context.Context, in httpapi.Scope, body wire.Rollback, a app.App) (wire.Deployment, error) {
	source, ok, err := deploy.Previous(s.history(ctx, a.Ref()), a.Revision)
	if err != nil {
		return wire.Deployment{}, err
	}
	if !ok {
		return wire.Deployment{}, problem.FromCode(problem.NoPreviousRevision)
	}
	return s.record(ctx, in, body, func(_ app.App, current deploy.Revision) (deploy.Revision, error) {
		if current.Number != a.Revision {
			return deploy.Revision{}, problem.FromCode(problem.Conflict)
		}
		return source.Copy(deploy.Rollback, in.Caller.Username, s.timestamp()), nil
	})
}

func (s *Service) promote(ctx context.Context, in httpapi.Scope, body wire.Promote) (wire.Deployment, error) {
	if body.FromEnvironment == nil {
		return wire.Deployment{}, httpapi.Missing("from_environment")
	}
	if *body.FromEnvironment == in.Environment.Name {
		return wire.Deployment{}, problem.ForField("from_environment",
			problem.New(problem.InvalidParameter, "from_environment is the app's own environment. Use another environment, or roll back."))
	}
	if err := takesImages(in.App); err != nil {
		return wire.Deployment{}, err
	}
	environment, err := s.api.Environment(ctx, in.Project.Name, *body.FromEnvironment)
	if err != nil {
		return wire.Deployment{}, err
	}
	from, err := s.api.App(ctx, environment, in.App.Name)
	if err != nil {
		return wire.Deployment{}, err
	}
	source, err := s.promoted(ctx, from, body.Revision)
	if err != nil {
		return wire.Deployment{}, err
	}
	rev := source.Copy(deploy.Promotion, in.Caller.Username, s.timestamp())
	rev.SourceEnvironment = environment.Name
	return s.recordImage(ctx, in, body, rev)
}

// promoted returns the source of a promotion; n is nil for the default.
func (s *Service) promoted(ctx context.Context, from app.App, n *int64) (deploy.Revision, error) {
	if n != nil {
		rev, err := s.revision(ctx, from.Ref(), *n)
		if err == nil && !rev.Worked() {
			err = problem.FromCode(problem.RevisionNotLive)
		}
		return rev, err
	}
	for rev, err := range s.history(ctx, from.Ref()) {
		if err != nil || rev.Worked() {
			return rev, err
		}
	}
	return deploy.Revision{}, problem.New(problem.RevisionNotLive, "No revision in from_environment ever had a ready pod, so none can be promoted.")
}

func (s *Service) revision(ctx context.Context, ref app.Ref, n int64) (deploy.Revision, error) {
	if n < 1 {
		return deploy.Revision{}, problem.New(problem.NotFound, "The revision does not exist.")
	}
	return s.store.Deployment(ctx, ref, n)
}

// history returns an app's revisions, newest first. It ends with an error if a read fails.
func (s *Service) history(ctx context.Context, ref app.Ref) iter.Seq2[deploy.Revision, error] {
	return func(yield func(deploy.Revision, error) bool) {
		for page := (store.Page{Size: historyPage}); ; {
			revisions, next, err := s.store.Deployments(ctx, ref, page)
			if err != nil {
				yield(deploy.Revision{}, err)
				return
			}
			for _, rev := range revisions {
				if !yield(rev, nil) {
					return
				}
			}
			if page.Token = next; next == "" {
				return
			}
		}
	}
}

func (s *Service) recordImage(ctx context.Context, in httpapi.Scope, body any, rev deploy.Revision) (wire.Deployment, error) {
	return s.record(ctx, in, body, func(a app.App, _ deploy.Revision) (deploy.Revision, error) { return rev, takesImages(a) })
}

// record stores a deployment, unless the same request already did, and enqueues the rollout.
func (s *Service) record(ctx context.Context, in httpapi.Scope, body any, rule func(app.App, deploy.Revision) (deploy.Revision, error)) (wire.Deployment, error) {
	request, err := in.Delivery(body)
	if err != nil {
		return wire.Deployment{}, err
	}
	ref := in.App.Ref()
	rev, fresh, err := s.store.RecordDeploymentOnce(ctx, ref, request, s.timestamp(), func(a app.App, current deploy.Revision) (deploy.Revision, error) {
		if err := in.CheckApp(a); err != nil {
			return deploy.Revision{}, err
		}
		rev, err := rule(a, current)
		if err == nil {
			err = registry.CheckRegistry(rev.Image, in.Project.Registries)
		}
		return rev, err
	})
	if err != nil {
		return wire.Deployment{}, err
	}
	s.queue.Add(ctx, ref)
	current := rev.Number
	if !fresh {
		in.SetReplayed()
		current = max(current, in.App.Revision)
	}
	in.TagHistory(current)
	in.SetLocation(rev.Number)
	return wireDeployment(rev, current), nil
}

func wireDeployment(r deploy.Revision, current int64) wire.Deployment {
	out := wire.Deployment{
		Revision: r.Number, Image: r.Image, Digest: wire.Text(r.Digest), NoDigest: wire.Text(r.NoDigest()), Commit: wire.Text(r.Commit),
		Trigger: string(r.Trigger), Actor: r.Actor, SourceRevision: wire.Ordinal(r.Source), SourceEnvironment: wire.Text(r.SourceEnvironment),
		Status: string(r.Status), Message: wire.Text(r.DisplayMessage()), DeployedAt: r.DeployedAt, Current: r.Number == current,
	}
	if at := r.FirstReady(); !at.IsZero() {
		out.ReadyAt = &at
	}
	return out
}
