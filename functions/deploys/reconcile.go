package deploys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reconcile"
	"github.com/sluicegate/sluice/shared/span"
)

const (
	// maxRounds limits the reads of an app in one reconciliation.
	maxRounds = 6

	// followGrace is the time after the deadline during which a rollout is still checked, so that
	// its failure is recorded.
	followGrace = 10 * time.Second

	// maxFollowed is the number of workers that a resync cannot use; they follow rollouts.
	maxFollowed = 64

	// slowest is the longest interval between checks of a rollout, as a multiple of the first.
	slowest = 10

	notResponding = "The cluster does not respond. Sluice retries automatically."
)

func (s *Service) newQueue() *reconcile.Queue[app.Ref] {
	options := reconcile.Options{
		Workers: s.cfg.Workers + maxFollowed, PassWorkers: s.cfg.Workers,
		FirstPause: s.cfg.FollowEvery, LongestPause: slowest * s.cfg.FollowEvery, RetryFor: s.cfg.ProgressDeadline + followGrace,
	}
	return reconcile.New(options, s.reconcile, func(ctx context.Context, ref app.Ref, err error) {
		s.log.WarnContext(ctx, "reconcile app failed", "app", ref.String(), "error", err)
	})
}

// pass runs a resync of all apps. It lists the workloads before it reads the apps. It skips an app if
// its revision is live and the workload runs it, or if the app is already in the queue.
func (s *Service) pass(ctx context.Context) error {
	return s.queue.Resync(ctx, func(ctx context.Context, work func(app.Ref) bool) error {
		s.outboxSender.wake()
		seen, err := s.cluster.Workloads(ctx)
		if err != nil {
			return err
		}
		unsettled := 0
		for a, err := range s.store.AllApps(ctx) {
			if err != nil {
				return err
			}
			live, _ := s.live.Load(a.Ref())
			if a.Revision == 0 || live == a.Revision && upToDate(seen.Of(a.Ref()), a) {
				continue
			}
			unsettled++
			if !s.queue.Pending(a.Ref()) && !work(a.Ref()) {
				return ctx.Err()
			}
		}
		s.gauges.unsettled.Set(float64(unsettled))
		return nil
	})
}

// upToDate reports whether the workload runs the stored revision, and whether the stored status
// agrees with the workload on being idle.
func upToDate(w cluster.Workload, a app.App) bool {
	return w.Runs(a) && w.Observation().Idle == (a.Deployed.Status == string(deploy.Idle))
}

// reconcile rolls out an app's current revision. It returns [reconcile.ErrRequeue] until the
// revision is live or failed.
func (s *Service) reconcile(ctx context.Context, ref app.Ref) error {
	span.FromContext(ctx).Set(span.OfApp(ref)...)
	rev, err := s.rollOut(ctx, ref)
	if err == nil && rev.Number != 0 && !rev.Finished() {
		err = reconcile.ErrRequeue
	}
	return err
}

// rollOut applies an app's current revision and records its status. It returns the zero Revision
// if the app has none or was deleted.
func (s *Service) rollOut(ctx context.Context, ref app.Ref) (deploy.Revision, error) {
	wrote := false
	var last error
	for range maxRounds {
		seen, err := s.cluster.Workload(ctx, ref) // before the app: see the package documentation
		if err != nil {
			return deploy.Revision{}, err
		}
		a, err := s.store.App(ctx, ref.Namespace, ref.Name)
		if problem.Is(err, problem.NotFound) {
			return deploy.Revision{}, s.forget(ctx, ref, wrote)
		}
		if err != nil || a.Revision == 0 {
			return deploy.Revision{}, err
		}
		if seen.Runs(a) {
			rev, err := s.observe(ctx, a, seen.Observation())
			if !problem.Is(err, problem.Conflict) {
				return rev, err
			}
			last = err
			continue
		}
		if err := s.setReady(ctx, a, seen.Observation()); err != nil {
			return deploy.Revision{}, err
		}
		wrote = true
		last = s.cluster.ApplyWorkload(ctx, seen, a)
		if last != nil && !problem.Is(last, problem.Conflict) {
			return s.recordBlocked(ctx, a, last)
		}
	}
	return deploy.Revision{}, errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

// setReady records that the earlier revision in the workload has a ready pod: rollbacks prefer
// such revisions.
func (s *Service) setReady(ctx context.Context, a app.App, o deploy.Observation) error {
	if o.Revision == 0 || o.Revision >= a.Revision || !o.Ready && !o.PodReady {
		return nil
	}
	return s.store.SetReady(ctx, a.Ref(), o.Revision, s.timestamp())
}

// forget removes the workload of a deleted app if rollOut may have created it again.
func (s *Service) forget(ctx context.Context, ref app.Ref, wrote bool) error {
	s.live.Delete(ref)
	if !wrote {
		return nil
	}
	return s.cluster.RemoveWorkload(ctx, ref)
}

func (s *Service) observe(ctx context.Context, a app.App, o deploy.Observation) (deploy.Revision, error) {
	return s.update(ctx, a, func(r deploy.Revision) (deploy.Revision, bool) {
		return r.Observe(o, s.cfg.ProgressDeadline, s.timestamp())
	})
}

func (s *Service) recordBlocked(ctx context.Context, a app.App, cause error) (deploy.Revision, error) {
	reason, refused := cluster.Refusal(cause)
	rev, err := s.update(ctx, a, func(r deploy.Revision) (deploy.Revision, bool) {
		if refused {
			return r.Refused(reason, s.timestamp())
		}
		return r.Delayed(notResponding)
	})
	if problem.Is(err, problem.Conflict) { // a newer revision was recorded
		err = nil
	}
	return rev, errors.Join(cause, err)
}

func (s *Service) update(ctx context.Context, a app.App, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error) {
	var before deploy.Status
	rev, err := s.store.UpdateDeployment(ctx, a.Ref(), a.Revision, func(r deploy.Revision) (deploy.Revision, bool) {
		before = r.Status
		return change(r)
	})
	if err != nil {
		return deploy.Revision{}, err
	}
	if rev.Status == deploy.Live {
		s.live.Store(a.Ref(), rev.Number)
	}
	if rev.Status != before {
		s.log.InfoContext(ctx, "deployment finished", "app", a.Ref().String(), "revision", rev.Number,
			"status", string(rev.Status), "message", rev.Message)
		s.outboxSender.wake()
		s.gauges.ended.WithLabelValues(string(rev.Status)).Inc()
	}
	return rev, nil
}

type gauges struct {
	unsettled prometheus.Gauge
	ended     *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		unsettled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_deploys_unsettled", Help: "Apps whose current revision was not known to be live at the start of the last tick.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_deploys_ended_total", Help: "Ended rollouts by the revision's status.",
		}, []string{"status"}),
	}
	for _, status := range []deploy.Status{deploy.Live, deploy.Failed} {
		g.ended.WithLabelValues(string(status))
	}
	return g
}

// Collectors returns the function's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.unsettled, s.gauges.ended, s.outboxSender.sent, s.outboxSender.age}
}
