package builds

import (
	"context"
	"errors"
	"fmt"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/image"
	"github.com/sluicegate/sluice/shared/problem"
)

// receiveTekton takes an event about a PipelineRun. One that no repetition helps with
// is taken and logged.
func (s *Service) receiveTekton(ctx context.Context, e cloudevents.Event) error {
	ctx = context.WithoutCancel(ctx)
	p, run, err := buildevent.Tekton(e)
	if errors.Is(err, buildevent.ErrOther) {
		s.log.InfoContext(ctx, "event passed over", "type", e.Type(), "id", e.ID(), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	ref, n, ok := cluster.BuildOf(p.Metadata.Namespace, p.Metadata.Labels)
	if !ok { // a run of somebody else's
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	b, err := s.builds.Build(ctx, ref, n)
	if problem.Is(err, problem.NotFound) || err == nil && b.RunName(ref) != p.Metadata.Name {
		s.log.InfoContext(ctx, "event about an unknown run", "app", ref.String(), "build", n, "run", p.Metadata.Name)
		return nil
	}
	if err != nil {
		return err
	}
	return s.observe(ctx, ref, b, run)
}

// observe moves a build on by what is known about its run, and has its revision
// rolled out if that made one.
func (s *Service) observe(ctx context.Context, ref app.Ref, b deploy.Build, run deploy.Run) error {
	if b.Final() {
		return nil
	}
	if run.Done && run.OK {
		run = s.built(ctx, run)
	}
	before := b.Status
	b, err := s.builds.ObserveBuild(ctx, ref, b.Number, run, s.moment())
	if problem.Is(err, problem.NotFound) { // deleted meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	if b.Status != before {
		s.log.InfoContext(ctx, "build moved on", "app", ref.String(), "build", b.Number, "status", string(b.Status),
			"revision", b.Revision, "message", b.Message)
	}
	if b.Final() && b.Status != before {
		s.gauges.ended.WithLabelValues(string(b.Status)).Inc()
	}
	if b.Revision != 0 {
		s.nudge.Notify(ctx, app.DeployRequested, ref)
	}
	return nil
}

// built completes and checks what a run says it has built.
func (s *Service) built(ctx context.Context, run deploy.Run) deploy.Run {
	if run.Image == "" {
		return run // the rule says what that means
	}
	reference := run.Image
	if image.Check(reference) != nil && run.Digest != "" { // a repository alone
		reference += "@" + run.Digest
	}
	if image.Check(reference) != nil || run.Digest != "" && image.Check("image@"+run.Digest) != nil {
		run.OK = false
		run.Message = fmt.Sprintf("The run succeeded, but its results name no usable image: %.200q, %.200q.", run.Image, run.Digest)
		return run
	}
	run.Image = reference
	if run.Digest == "" {
		run.Digest, run.Note = s.registry.Resolve(ctx, reference)
	}
	return run
}

// look starts the run of a build, or looks at it, and moves the build on by it.
func (s *Service) look(ctx context.Context, ref app.Ref, b deploy.Build) error {
	run, err := s.run(ctx, ref, b)
	switch reason, refused := cluster.Refusal(err); {
	case b.RunUID != "" && problem.Is(err, problem.NotFound):
		return s.observe(ctx, ref, b, deploy.Run{UID: b.RunUID, Done: true, Message: "Its run was deleted before it had ended."})
	case b.RunUID == "" && refused:
		return s.observe(ctx, ref, b, deploy.Run{Done: true, Message: "The cluster refused its run: " + reason})
	case b.RunUID == "" && err != nil && s.now().Sub(b.RequestedAt) > s.cfg.Timeout:
		return errors.Join(err, s.observe(ctx, ref, b, deploy.Run{Done: true, Message: "Its run could not be started in time."}))
	case err != nil:
		return err
	}
	if b.RunUID != "" && run.UID != b.RunUID {
		return s.observe(ctx, ref, b, deploy.Run{UID: b.RunUID, Done: true, Message: "Its run was replaced by another one."})
	}
	if !run.Done && b.Status == deploy.Running && run.UID == b.RunUID {
		return nil
	}
	return s.observe(ctx, ref, b, run)
}

func (s *Service) run(ctx context.Context, ref app.Ref, b deploy.Build) (deploy.Run, error) {
	if b.RunUID != "" {
		return s.runs.Run(ctx, ref.Namespace, b.RunName(ref))
	}
	return s.runs.StartRun(ctx, cluster.PipelineRun{
		App: ref, Build: b.Number, Name: b.RunName(ref),
		Pipeline: s.cfg.Pipeline, PipelineNamespace: s.cfg.PipelineNamespace, ServiceAccount: s.cfg.ServiceAccount,
		Timeout: s.cfg.Timeout,
		Params: map[string]string{
			"repository": b.Source.Repository, "branch": b.Source.Branch, "commit": b.Commit, "path": b.Source.Path,
			"image": s.cfg.ImagePrefix + "/" + ref.Namespace + "/" + ref.Name + ":" + b.ID(),
		},
	})
}
