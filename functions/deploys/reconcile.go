package deploys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// appTimeout bounds one piece of work on one app.
	appTimeout = 20 * time.Second

	// maxRounds is how often one piece of work looks at an app again because it has
	// written, or has lost a race.
	maxRounds = 6

	notAnswering = "The cluster does not answer; it is tried again."
)

// reconcile looks at one app, has the cluster run its current revision and records
// how far that is. It gives the revision, the zero one for an app that has none or
// is gone.
func (s *Service) reconcile(ctx context.Context, ref app.Ref) (deploy.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, appTimeout)
	defer cancel()
	wrote := false
	var last error
	for range maxRounds {
		seen, err := s.cluster.Workload(ctx, ref) // before the document: see the package's documentation
		if err != nil {
			return deploy.Revision{}, err
		}
		a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
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
		wrote = true
		last = s.cluster.ApplyWorkload(ctx, seen, a)
		if last != nil && !problem.Is(last, problem.Conflict) {
			return s.stuck(ctx, a, last)
		}
	}
	return deploy.Revision{}, errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

// forget cleans up after work on an app that was deleted meanwhile: what was
// written may have come after the deletion.
func (s *Service) forget(ctx context.Context, ref app.Ref, wrote bool) error {
	s.settled.forget(ref)
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
	if problem.Is(err, problem.Conflict) { // there is a newer one, which has its own follower or tick
		err = nil
	}
	return rev, errors.Join(cause, err)
}

// update moves the current revision on. Problem: conflict when it is not current
// any more.
func (s *Service) update(ctx context.Context, a app.App, change func(deploy.Revision) (deploy.Revision, bool)) (deploy.Revision, error) {
	var before deploy.Status
	rev, err := s.history.UpdateDeployment(ctx, a.Ref(), a.Revision, s.announcer.on(), func(r deploy.Revision) (deploy.Revision, bool) {
		before = r.Status
		return change(r)
	})
	if err != nil {
		return deploy.Revision{}, err
	}
	if rev.Status == deploy.Live {
		s.settled.note(a.Ref(), rev.Number)
	}
	if rev.Status != before {
		s.log.InfoContext(ctx, "deployment finished", "app", a.Ref().String(), "revision", rev.Number,
			"status", string(rev.Status), "message", rev.Message)
		s.announcer.kick()
		s.gauges.ended.WithLabelValues(string(rev.Status)).Inc()
	}
	return rev, nil
}
