package builds

import (
	"context"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listBuilds(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.Build], error) {
	builds, next, err := s.store.Builds(ctx, in.App.Ref(), store.Page(page))
	return wire.ListOf(builds, next, wireBuild), err
}

func (s *Service) requestBuild(ctx context.Context, in httpapi.Scope, body wire.RequestBuild) (wire.Build, error) {
	commit := ""
	if body.Commit != nil {
		var err error
		if commit, err = hook.ParseCommit(*body.Commit); err != nil {
			return wire.Build{}, err
		}
	}
	request, err := in.Delivery(body)
	if err != nil {
		return wire.Build{}, err
	}
	ref := in.App.Ref()
	b, fresh, err := s.store.RecordBuildOnce(ctx, ref, request, s.timestamp(), func(a app.App) (deploy.Build, error) {
		if err := in.CheckApp(a); err != nil {
			return deploy.Build{}, err
		}
		if a.GitSource == nil {
			return deploy.Build{}, problem.FromCode(problem.NoGitSource)
		}
		return deploy.NewBuild(*a.GitSource, commit, deploy.Manual, in.Caller.Username, s.timestamp()), nil
	})
	if err != nil {
		return wire.Build{}, err
	}
	in.SetLocation(b.Number)
	if !fresh {
		in.SetReplayed()
		return wireBuild(b), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if err := s.advance(ctx, ref, b); err != nil {
		s.log.WarnContext(ctx, "start build failed", "app", ref.String(), "build", b.Number, "error", err)
	}
	return wireBuild(b), nil
}

func (s *Service) getBuild(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Build, error) {
	n := in.Number("build")
	if n < 1 {
		return wire.Build{}, problem.New(problem.NotFound, "The build does not exist.")
	}
	b, err := s.store.Build(ctx, in.App.Ref(), n)
	return wireBuild(b), err
}

func wireBuild(b deploy.Build) wire.Build {
	out := wire.Build{
		Build: b.Number, Commit: wire.Text(b.Commit),
		GitSource: wire.GitSource{Repository: b.Source.Repository, Branch: b.Source.Branch, Path: b.Source.Path},
		Actor:     b.Actor, Status: string(b.Status), Message: wire.Text(b.Message),
		Image: wire.Text(b.Image), Digest: wire.Text(b.Digest), Revision: wire.Ordinal(b.Revision), RequestedAt: b.RequestedAt,
	}
	if b.Final() {
		out.FinishedAt = &b.FinishedAt
	}
	return out
}
