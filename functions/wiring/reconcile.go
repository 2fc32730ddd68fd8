package wiring

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
)

// maxRounds is how often one piece of work looks at an app: once before each set
// of steps, once more to see that they hold, and again for writes that lost a race and
// for gates that seem to have been changed.
const maxRounds = 7

// reconcile looks at one app and does what there is to do, until there is nothing
// left or it cannot go on for now.
func (s *Service) reconcile(ctx context.Context, ref app.Ref, ca []byte) error {
	wrote, doubted := false, false
	var last error
	for range maxRounds {
		seen, err := s.viewer.Objects(ctx, ref) // before the document: see package cluster
		if err != nil {
			return err
		}
		a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
		if problem.Is(err, problem.NotFound) {
			return s.forget(ctx, ref, wrote)
		}
		if err != nil {
			return err
		}
		p := decide(a, s.viewer.State(seen, a, ca), s.proofs.due(ref, s.now()))
		if p.drifted && !doubted {
			doubted = true // another replica may have engaged the gate between the two looks
			continue
		}
		if p.drifted {
			if err := s.record(ctx, a, app.Pending, driftMessage); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "gate was changed from outside", "app", ref.String())
		}
		if len(p.steps) == 0 {
			return s.settle(ctx, seen, a, p)
		}
		wrote = true
		last = s.run(ctx, seen, a, ca, p.steps)
		if last != nil && !problem.Is(last, problem.Conflict) {
			return s.stuck(ctx, a, last)
		}
	}
	return errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

// forget cleans up after work on an app that was deleted meanwhile: what was
// written may have come after the deletion.
func (s *Service) forget(ctx context.Context, ref app.Ref, wrote bool) error {
	s.proofs.forget(ref)
	if !wrote {
		return nil
	}
	return s.workloads.Delete(ctx, ref)
}

// settle proves what is in place, then takes away what that makes superfluous.
func (s *Service) settle(ctx context.Context, seen cluster.Objects, a app.App, p plan) error {
	if p.prove == proveNothing {
		return nil
	}
	answer := s.prove(ctx, a, p.prove)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !answer.proves(p.prove) {
		state, message := unproven(a.Gate.State, p.prove, answer)
		return s.record(ctx, a, state, message)
	}
	if err := s.run(ctx, seen, a, nil, p.after); err != nil {
		return err
	}
	s.proofs.proven(a.Ref(), s.now())
	if p.prove == proveEngaged {
		return s.record(ctx, a, app.Engaged, "")
	}
	return s.record(ctx, a, app.Ungated, "")
}

// run does steps in order.
func (s *Service) run(ctx context.Context, seen cluster.Objects, a app.App, ca []byte, steps []step) error {
	for _, one := range steps {
		if err := s.do(ctx, one, seen, a, ca); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) do(ctx context.Context, one step, seen cluster.Objects, a app.App, ca []byte) error {
	switch one {
	case makeNamespace:
		return s.workloads.EnsureNamespace(ctx, a.Namespace)
	case applyService:
		return s.workloads.ApplyService(ctx, seen, a)
	case applyDeployment:
		return s.workloads.ApplyDeployment(ctx, seen, a)
	case removeSuperseded:
		return s.workloads.RemoveSuperseded(ctx, seen, a.Ref())
	case writeHost:
		return s.workloads.WriteHost(ctx, seen, a.Ref())
	case writeCA:
		return s.gates.WriteCA(ctx, seen, a.Ref(), ca)
	case writeMiddleware:
		return s.gates.WriteMiddleware(ctx, seen, a.Ref())
	case gateRoute:
		return s.workloads.ApplyRoute(ctx, seen, a, true)
	case openRoute:
		return s.workloads.ApplyRoute(ctx, seen, a, false)
	case deleteMiddleware:
		return s.gates.DeleteMiddleware(ctx, seen, a.Ref())
	case hideKnative:
		return s.workloads.HideKnative(ctx, seen, a.Ref())
	case showKnative:
		return s.workloads.ShowKnative(ctx, seen, a.Ref())
	}
	return fmt.Errorf("unknown step %d", one)
}

// stuck says in the gate's message that the cluster is in the way, where someone
// is waiting for the gate.
func (s *Service) stuck(ctx context.Context, a app.App, err error) error {
	if ctx.Err() == nil && (a.Gate.State == app.Pending || a.Gate.State == app.Releasing) {
		err = errors.Join(err, s.record(ctx, a, a.Gate.State, stuckMessage))
	}
	return err
}
