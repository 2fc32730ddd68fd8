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
	// maxRounds is how often one piece of work looks at an app again because it has
	// written, or has lost a race.
	maxRounds = 6

	// followGrace is how much longer than the progress deadline a rollout is
	// followed, so that its failure is seen too.
	followGrace = 10 * time.Second

	// maxFollowed bounds rollouts that are looked at at the same time besides those of a
	// pass, so that apps whose cluster is slow to answer do not keep others waiting.
	maxFollowed = 64

	// slowest is how many times longer than at first the pauses between looks become
	// in a rollout that takes long.
	slowest = 10

	notAnswering = "The cluster does not answer; it is tried again."
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

// pass has the cluster run what every app's document says. The workloads are listed
// before the apps are read, so that an app is skipped only if its workload runs what is
// recorded now, and that is live, or if its rollout is being followed anyway: its end is
// logged under the id of the request that had it followed.
func (s *Service) pass(ctx context.Context) error {
	return s.queue.Pass(ctx, func(ctx context.Context, work func(app.Ref) bool) error {
		s.announcer.kick()
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
			if a.Revision == 0 || live == a.Revision && settled(seen.Of(a.Ref()), a) {
				continue
			}
			unsettled++
			if !s.queue.Has(a.Ref()) && !work(a.Ref()) {
				return ctx.Err()
			}
		}
		s.gauges.unsettled.Set(float64(unsettled))
		return nil
	})
}

// settled reports whether the workload runs the app as it is recorded, and its document
// shows whether it is idle.
func settled(w cluster.Workload, a app.App) bool {
	return w.Runs(a) && w.Observation().Idle == (a.Deployed.Status == string(deploy.Idle))
}

// reconcile has the cluster run an app's current revision, which is followed until it is
// live or has failed.
func (s *Service) reconcile(ctx context.Context, ref app.Ref) error {
	span.Of(ctx).Set(span.OfApp(ref)...)
	rev, err := s.rollOut(ctx, ref)
	if err == nil && rev.Number != 0 && !rev.Finished() {
		err = reconcile.ErrUnfinished
	}
	return err
}

// rollOut looks at one app, has the cluster run its current revision and records how
// far that is. It gives the revision, the zero one for an app that has none or is gone.
func (s *Service) rollOut(ctx context.Context, ref app.Ref) (deploy.Revision, error) {
	wrote := false
	var last error
	for range maxRounds {
		seen, err := s.cluster.Workload(ctx, ref) // before the document: see the package's documentation
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
			return s.stuck(ctx, a, last)
		}
	}
	return deploy.Revision{}, errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

// setReady records that the revision that the workload still has, an earlier one, has a
// ready pod.
func (s *Service) setReady(ctx context.Context, a app.App, o deploy.Observation) error {
	if o.Revision == 0 || o.Revision >= a.Revision || !o.Ready && !o.PodReady {
		return nil
	}
	return s.store.SetReady(ctx, a.Ref(), o.Revision, s.moment())
}

// forget cleans up after work on an app that was deleted meanwhile: what was
// written may have come after the deletion.
func (s *Service) forget(ctx context.Context, ref app.Ref, wrote bool) error {
	s.live.Delete(ref)
	if !wrote {
		return nil
	}
	return s.cluster.RemoveWorkload(ctx, ref)
}

// observe records what the cluster reports about the current revision.
func (s *Service) observe(ctx context.Context, a app.App, o deploy.Observation) (deploy.Revision, error) {
	return s.update(ctx, a, func(r deploy.Revision) (deploy.Revision, bool) {
		return r.Observe(o, s.cfg.ProgressDeadline, s.moment())
	})
}

// stuck records why the cluster does not run the current revision: it was refused,
// and has failed, or the cluster does not answer.
func (s *Service) stuck(ctx context.Context, a app.App, cause error) (deploy.Revision, error) {
	reason, refused := cluster.Refusal(cause)
	rev, err := s.update(ctx, a, func(r deploy.Revision) (deploy.Revision, bool) {
		if refused {
			return r.Refused(reason, s.moment())
		}
		return r.Delayed(notAnswering)
	})
	if problem.Is(err, problem.Conflict) { // there is a newer one, which has its own follower or pass
		err = nil
	}
	return rev, errors.Join(cause, err)
}

// update moves the current revision on. Problem: conflict when it is not current
// any more.
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
		s.announcer.kick()
		s.gauges.ended.WithLabelValues(string(rev.Status)).Inc()
	}
	return rev, nil
}

// gauges are the function's own metrics.
type gauges struct {
	unsettled prometheus.Gauge
	ended     *prometheus.CounterVec
}

func newGauges() *gauges {
	g := &gauges{
		unsettled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_deploys_unsettled", Help: "Apps whose current revision was not known to be live when the last tick began.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_deploys_ended_total", Help: "Rollouts that this process has seen end, by the revision's status.",
		}, []string{"status"}),
	}
	for _, status := range []deploy.Status{deploy.Live, deploy.Failed} {
		g.ended.WithLabelValues(string(status))
	}
	return g
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.unsettled, s.gauges.ended, s.announcer.sent, s.announcer.age}
}
