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

const startTimeout = 5 * time.Second

const pendingPage = 200

func (s *Service) newQueue() *reconcile.Queue[store.PendingBuild] {
	options := reconcile.Options{Workers: 2 * s.cfg.Workers, PassWorkers: s.cfg.Workers}
	return reconcile.New(options, s.reconcile, func(ctx context.Context, p store.PendingBuild, err error) {
		s.log.WarnContext(ctx, "reconcile build failed", "app", p.App.String(), "build", p.Number, "error", err)
	})
}

func (s *Service) pass(ctx context.Context) error {
	return s.queue.Resync(ctx, func(ctx context.Context, work func(store.PendingBuild) bool) error {
		running := 0
		err := s.eachPending(ctx, func(p store.PendingBuild) bool { running++; return work(p) })
		s.gauges.running.Set(float64(running))
		return err
	})
}

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
	s.queue.AddAndWait(ctx, pending...)
	return nil
}

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

func (s *Service) reconcile(ctx context.Context, p store.PendingBuild) error {
	span.FromContext(ctx).Set(span.OfApp(p.App)...)
	b, err := s.store.Build(ctx, p.App, p.Number)
	if problem.Is(err, problem.NotFound) || err == nil && b.Final() {
		return s.store.ForgetBuild(ctx, p)
	}
	if err != nil {
		return err
	}
	return s.advance(ctx, p.App, b)
}

// receiveTekton ignores events that it cannot use: an error would only make Tekton send them again.
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
	if !ok { // not ours
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
	return s.observe(ctx, ref, b, s.withCause(ctx, ref, b, run))
}

// withCause replaces the message of a failed run with the cause of the failure. The original
// message contains only the number of failed tasks.
func (s *Service) withCause(ctx context.Context, ref app.Ref, b deploy.Build, run deploy.Run) deploy.Run {
	if !run.Done || run.OK || b.Final() {
		return run
	}
	failure, err := s.cluster.Failure(ctx, ref.Namespace, b.RunName(ref))
	if err != nil {
		s.log.WarnContext(ctx, "read run failure failed", "app", ref.String(), "build", b.Number, "error", err)
	}
	if failure != "" {
		run.Message = failure
	}
	return run
}

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
	b, err := s.store.ObserveBuild(ctx, ref, b, run, s.timestamp())
	if problem.Is(err, problem.NotFound) { // the app was deleted
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
		s.notifier.Notify(ctx, app.DeployRequested, ref)
	}
	return nil
}

func (s *Service) built(ctx context.Context, run deploy.Run) deploy.Run {
	if run.Image == "" {
		return run // Observe handles it
	}
	reference := run.Image
	if registry.Check(reference) != nil && run.Digest != "" { // only a repository
		reference += "@" + run.Digest
	}
	if registry.Check(reference) != nil || run.Digest != "" && registry.Check("image@"+run.Digest) != nil {
		run.OK = false
		run.Message = fmt.Sprintf("The run succeeded, but its results contain no valid image: IMAGE_URL is %.200q, IMAGE_DIGEST is %.200q.", run.Image, run.Digest)
		return run
	}
	run.Image = reference
	if run.Digest == "" {
		run.Digest, run.Note = s.registry.Resolve(ctx, reference)
	}
	return run
}

// startNext reconciles the waiting builds of an app. After an error, the next tick does it.
func (s *Service) startNext(ctx context.Context, ref app.Ref) {
	open, err := s.store.OpenBuilds(ctx, ref)
	if err != nil {
		s.log.WarnContext(ctx, "read open builds failed", "app", ref.String(), "error", err)
	}
	for _, n := range open {
		s.queue.Add(ctx, store.PendingBuild{App: ref, Number: n})
	}
}

// refusal returns a Done run if the build must not start or be deployed, and the zero Run otherwise.
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
		return deploy.Run{Done: true, Stale: true, Message: "The git source was removed or replaced before this build started."}, nil
	}
	if err := registry.CheckRegistry(reference, p.Registries); err != nil {
		return deploy.Run{Done: true, Message: problem.From(err).Message}, nil
	}
	return deploy.Run{}, nil
}

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

// advance starts the run of a build or reads its state, and updates the build.
func (s *Service) advance(ctx context.Context, ref app.Ref, b deploy.Build) error {
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
		return s.observe(ctx, ref, b, deploy.Run{UID: b.RunUID, Done: true, Message: "The PipelineRun was deleted before it ended."})
	case b.RunUID == "" && refused:
		return s.observe(ctx, ref, b, deploy.Run{Done: true, Message: "The cluster rejected the PipelineRun: " + reason})
	case b.RunUID == "" && err != nil && s.now().Sub(b.RequestedAt) > s.cfg.Timeout:
		return errors.Join(err, s.observe(ctx, ref, b, deploy.Run{Done: true, Message: "The PipelineRun could not be started within BUILD_TIMEOUT."}))
	case err != nil:
		return err
	}
	if b.RunUID != "" && run.UID != b.RunUID {
		return s.observe(ctx, ref, b, deploy.Run{UID: b.RunUID, Done: true, Message: "Another PipelineRun replaced this build's PipelineRun."})
	}
	if !run.Done && b.Status == deploy.Running && run.UID == b.RunUID {
		return nil
	}
	return s.observe(ctx, ref, b, s.withCause(ctx, ref, b, run))
}

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

type gauges struct {
	running prometheus.Gauge
	ended   *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_builds_running", Help: "Pending builds at the last tick.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_builds_ended_total", Help: "Ended builds by status.",
		}, []string{"status"}),
	}
	for _, status := range deploy.BuildStatuses() {
		if status.Final() {
			g.ended.WithLabelValues(string(status))
		}
	}
	return g
}

// Collectors returns the function's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.running, s.gauges.ended}
}
