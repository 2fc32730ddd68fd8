package builds

import (
	"context"
	"errors"
	"fmt"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/store"
)

// startTimeout bounds a caller's wait until the build that was asked for has its run.
const startTimeout = 5 * time.Second

// pendingPage is how many builds that are not final are read at a time.
const pendingPage = 200

// newQueue makes the queue of the builds that are not final. A pass leaves as many workers
// as it takes to those that were just asked for.
func (s *Service) newQueue() *reconcile.Queue[store.PendingBuild] {
	options := reconcile.Options{Workers: 2 * s.cfg.Workers, PassWorkers: s.cfg.Workers}
	return reconcile.New(options, s.reconcile, func(ctx context.Context, p store.PendingBuild, err error) {
		s.log.WarnContext(ctx, "reconcile build failed", "app", p.App.String(), "build", p.Number, "error", err)
	})
}

// pass works on every build that is not final.
func (s *Service) pass(ctx context.Context) error {
	return s.queue.Pass(ctx, func(ctx context.Context, work func(store.PendingBuild) bool) error {
		running := 0
		err := s.eachPending(ctx, func(p store.PendingBuild) bool { running++; return work(p) })
		s.gauges.running.Set(float64(running))
		return err
	})
}

// requested works on an app's builds that are not final at once.
func (s *Service) requested(ctx context.Context, ref app.Ref) error {
	var pending []store.PendingBuild
	err := s.eachPending(ctx, func(p store.PendingBuild) bool {
		if p.App == ref {
			pending = append(pending, p)
		}
		return true
	})
	if err != nil {
		return err
	}
	s.queue.Do(ctx, pending...)
	return nil
}

// eachPending calls f with every build that is not final, until that is false.
func (s *Service) eachPending(ctx context.Context, f func(store.PendingBuild) bool) error {
	for page := (store.Page{Size: pendingPage}); ; {
		pending, next, err := s.store.PendingBuilds(ctx, page)
		if err != nil {
			return err
		}
		for _, p := range pending {
			if !f(p) {
				return ctx.Err()
			}
		}
		if page.Token = next; next == "" {
			return nil
		}
	}
}

// reconcile starts the run of a build, or looks at it, and moves the build on by it.
func (s *Service) reconcile(ctx context.Context, p store.PendingBuild) error {
	span.Of(ctx).Set(span.OfApp(p.App)...)
	b, err := s.store.Build(ctx, p.App, p.Number)
	if problem.Is(err, problem.NotFound) || err == nil && b.Final() {
		return s.store.ForgetBuild(ctx, p)
	}
	if err != nil {
		return err
	}
	return s.look(ctx, p.App, b)
}

// receiveTekton takes an event about a PipelineRun. One that no repetition helps with
// is taken: most are about TaskRuns, of which Tekton tells as well.
func (s *Service) receiveTekton(ctx context.Context, e cloudevents.Event) error {
	ctx = context.WithoutCancel(ctx)
	p, run, err := buildevent.Tekton(e)
	if errors.Is(err, buildevent.ErrOther) {
		s.log.DebugContext(ctx, "event ignored", "type", e.Type(), "id", e.ID(), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	ref, n, ok := cluster.BuildOf(p.Metadata.Namespace, p.Metadata.Labels)
	if !ok { // a run of somebody else's
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reconcile.Timeout)
	defer cancel()
	b, err := s.store.Build(ctx, ref, n)
	if problem.Is(err, problem.NotFound) || err == nil && b.RunName(ref) != p.Metadata.Name {
		s.log.InfoContext(ctx, "event about an unknown run", "app", ref.String(), "build", n, "run", p.Metadata.Name)
		return nil
	}
	if err != nil {
		return err
	}
	return s.observe(ctx, ref, b, s.explained(ctx, ref, b, run))
}

// explained puts what has failed in a run into its message: what a PipelineRun says itself
// is how many of its tasks have.
func (s *Service) explained(ctx context.Context, ref app.Ref, b deploy.Build, run deploy.Run) deploy.Run {
	if !run.Done || run.OK || b.Final() {
		return run
	}
	failure, err := s.cluster.Failure(ctx, ref.Namespace, b.RunName(ref))
	if err != nil {
		s.log.WarnContext(ctx, "failure of a run not read", "app", ref.String(), "build", b.Number, "error", err)
	}
	if failure != "" {
		run.Message = failure
	}
	return run
}

// observe moves a build on by what is known about its run, and has its revision
// rolled out if that made one.
func (s *Service) observe(ctx context.Context, ref app.Ref, b deploy.Build, run deploy.Run) error {
	if b.Final() {
		return nil
	}
	if run.Done && run.OK {
		run = s.built(ctx, run)
		refused, err := s.refusal(ctx, ref, b, run.Image)
		if problem.Is(err, problem.NotFound) { // the app was deleted
			return nil
		}
		if err != nil {
			return err
		}
		if refused.Done && run.OK && run.Image != "" {
			refused.UID, refused.Event = run.UID, run.Event
			run = refused
		}
	}
	before := b.Status
	b, err := s.store.ObserveBuild(ctx, ref, b, run, s.moment())
	if problem.Is(err, problem.NotFound) { // deleted meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	if b.Status != before {
		s.log.InfoContext(ctx, "build status changed", "app", ref.String(), "build", b.Number, "status", string(b.Status),
			"revision", b.Revision, "message", b.Message)
	}
	if b.Final() && b.Status != before {
		s.gauges.ended.WithLabelValues(string(b.Status)).Inc()
		s.startNext(ctx, ref)
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
	if registry.Check(reference) != nil && run.Digest != "" { // a repository alone
		reference += "@" + run.Digest
	}
	if registry.Check(reference) != nil || run.Digest != "" && registry.Check("image@"+run.Digest) != nil {
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

// startNext works on an app's builds that wait for an earlier one to end. The next tick does
// what fails here.
func (s *Service) startNext(ctx context.Context, ref app.Ref) {
	open, err := s.store.OpenBuilds(ctx, ref)
	if err != nil {
		s.log.WarnContext(ctx, "read open builds failed", "app", ref.String(), "error", err)
	}
	for _, n := range open {
		s.queue.Add(ctx, store.PendingBuild{App: ref, Number: n})
	}
}

// refusal returns the end of a build that must not be started, or whose image must not be
// deployed: because of the app's git source, or of the registry that the image is in. Without
// a refusal the run is not done.
func (s *Service) refusal(ctx context.Context, ref app.Ref, b deploy.Build, reference string) (deploy.Run, error) {
	a, err := s.store.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return deploy.Run{}, err
	}
	p, err := s.store.Project(ctx, a.Project)
	if err != nil {
		return deploy.Run{}, err
	}
	if b.RunUID == "" && (a.GitSource == nil || *a.GitSource != b.Source) {
		return deploy.Run{Done: true, Stale: true, Message: "The git source was detached or replaced before this build began."}, nil
	}
	if err := registry.CheckRegistry(reference, p.Registries); err != nil {
		return deploy.Run{Done: true, Message: problem.From(err).Message}, nil
	}
	return deploy.Run{}, nil
}

// waits reports whether a build must wait for earlier ones of its app.
func (s *Service) waits(ctx context.Context, ref app.Ref, b deploy.Build) (bool, error) {
	open, err := s.store.OpenBuilds(ctx, ref)
	earlier := 0
	for _, n := range open {
		if n < b.Number {
			earlier++
		}
	}
	return earlier >= s.cfg.PerApp, err
}

// look starts the run of a build, or looks at it, and moves the build on by it.
func (s *Service) look(ctx context.Context, ref app.Ref, b deploy.Build) error {
	if b.RunUID == "" {
		refused, err := s.refusal(ctx, ref, b, s.imageOf(ref, b))
		if err != nil {
			return err
		}
		if refused.Done {
			return s.observe(ctx, ref, b, refused)
		}
		if wait, err := s.waits(ctx, ref, b); wait || err != nil {
			return err
		}
	}
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
	return s.observe(ctx, ref, b, s.explained(ctx, ref, b, run))
}

// imageOf returns the reference that a build pushes its image to.
func (s *Service) imageOf(ref app.Ref, b deploy.Build) string {
	return s.cfg.ImagePrefix + "/" + ref.Namespace + "/" + ref.Name + ":" + b.ID()
}

func (s *Service) run(ctx context.Context, ref app.Ref, b deploy.Build) (deploy.Run, error) {
	if b.RunUID != "" {
		return s.cluster.Run(ctx, ref.Namespace, b.RunName(ref))
	}
	return s.cluster.StartRun(ctx, cluster.PipelineRun{
		App: ref, Build: b.Number, Name: b.RunName(ref),
		Pipeline: s.cfg.Pipeline, PipelineNamespace: s.cfg.PipelineNamespace, ServiceAccount: s.cfg.ServiceAccount,
		Timeout: s.cfg.Timeout,
		Params: map[string]string{
			"repository": b.Source.Repository, "branch": b.Source.Branch, "commit": b.Commit, "path": b.Source.Path,
			"image": s.imageOf(ref, b),
		},
	})
}

// gauges are the function's own metrics.
type gauges struct {
	running prometheus.Gauge
	ended   *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_builds_running", Help: "Builds that had not ended when the last tick looked.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_builds_ended_total", Help: "Builds that this process has seen end, by status.",
		}, []string{"status"}),
	}
	for _, status := range deploy.BuildStatuses() {
		if status.Final() {
			g.ended.WithLabelValues(string(status))
		}
	}
	return g
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.running, s.gauges.ended}
}
