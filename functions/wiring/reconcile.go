package wiring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/span"
)

// step is one write on the cluster.
type step int

const (
	makeNamespace step = iota
	removeSuperseded
	applyService
	applyDeployment
	writeHost
	writeStrip
	writeCA
	writeMiddleware
	gateRoute
	openRoute
	removeRoute
	removeFormer
	deleteMiddleware
	removeGenerations
	hideKnative
	showKnative
)

// proof is what the ingress is asked for.
type proof int

const (
	proveNothing  proof = iota
	proveEngaged        // it answers with the gate's own 401
	proveReleased       // the gate does not answer any more
)

// plan is what to do for one app.
type plan struct {
	drifted bool   // the gate was in place, and somebody has changed it
	refused bool   // the host is reserved, and the gate's message does not say so yet
	steps   []step // in this order, and look again afterwards
	prove   proof  // once there are no steps
	after   []step // once that is proven
}

func (p plan) idle() bool {
	return len(p.steps) == 0 && !p.refused && p.prove == proveNothing && len(p.after) == 0
}

// decide compares an app's document with its objects in the cluster. due reports whether a
// gate in place should be proven again. reserved reports whether the app's host is reserved,
// so that the app gets no route. A gate's parts are in place before the route names them,
// and stay until no route does.
func decide(a app.App, s cluster.State, due, reserved bool) plan {
	var p plan
	if s.Service == cluster.Absent {
		p.steps = append(p.steps, makeNamespace)
	}
	if s.Service != cluster.Right {
		p.steps = append(p.steps, applyService)
	}
	if s.Deployment != cluster.Right {
		p.steps = append(p.steps, applyDeployment)
	}
	if s.Superseded {
		p.steps = append(p.steps, removeSuperseded)
	}
	if s.HostStale {
		p.steps = append(p.steps, writeHost)
	}
	if s.StripStale {
		p.steps = append(p.steps, writeStrip)
	}
	switch {
	case reserved:
		refuse(&p, a, s)
	case s.Route == cluster.RouteElsewhere || s.Former == cluster.RouteElsewhere:
		leave(&p, a, s)
	case a.RequireAPIKey:
		engage(&p, a, s, due)
	default:
		release(&p, a, s)
	}
	if len(p.steps) > 0 { // first things first
		p.prove, p.after = proveNothing, nil
	}
	return p
}

// leave removes the routes for a host that the app does not have, before it gets a route for
// its own.
func leave(p *plan, a app.App, s cluster.State) {
	if s.Route == cluster.RouteElsewhere {
		p.steps = append(p.steps, removeRoute)
		p.drifted = a.Gate.State == app.Engaged
	}
	if s.Former == cluster.RouteElsewhere {
		p.steps = append(p.steps, removeFormer)
	}
}

// refuse removes the routes of an app that must not have its host.
func refuse(p *plan, a app.App, s cluster.State) {
	if s.Route != cluster.RouteAbsent {
		p.steps = append(p.steps, removeRoute)
	}
	if s.Former != cluster.RouteAbsent {
		p.steps = append(p.steps, removeFormer)
	}
	p.refused = a.Gate.State != refusedState(a) || a.Gate.Message != reservedMessage
}

// refusedState returns the state of the gate of an app without a route.
func refusedState(a app.App) app.GateState {
	if a.RequireAPIKey {
		return app.Pending
	}
	return app.Releasing
}

func engage(p *plan, a app.App, s cluster.State, due bool) {
	if s.CA != cluster.Right {
		p.steps = append(p.steps, writeCA)
	}
	if s.Middleware != cluster.Right {
		p.steps = append(p.steps, writeMiddleware)
	}
	if s.Route != cluster.RouteGated {
		p.steps = append(p.steps, gateRoute)
	}
	move(p, s, cluster.RouteGated)
	if s.Public {
		p.steps = append(p.steps, hideKnative)
	}
	engaged := a.Gate.State == app.Engaged
	// A copy of the CA that differs is a renewal, and is no reason to doubt the gate; nor is
	// a route that only has to be opened to the app. Nor is a route of another kind while its
	// predecessor exists and does not lead around the gate, nor a gate of an earlier release,
	// which is replaced.
	gated := s.Route == cluster.RouteGated || s.Route == cluster.RouteClosed || s.Route == cluster.RouteOutdated
	moving := s.Former == cluster.RouteGated || s.Former == cluster.RouteClosed
	changed := s.Middleware != cluster.Right && s.Middleware != cluster.Outdated
	p.drifted = engaged && !moving && (s.CA == cluster.Absent || changed || !gated || s.Public)
	if !engaged {
		p.after = append(p.after, removeGenerations)
	}
	if !engaged || due || len(p.after) > 0 {
		p.prove = proveEngaged
	}
}

// move takes away the route by the kind that the installation had before: once the new one
// is taken up and proven, or at once if it does not gate as it is wanted.
func move(p *plan, s cluster.State, wanted cluster.Route) {
	switch {
	case s.Former == cluster.RouteAbsent:
	case s.Former != wanted && s.Former != cluster.RouteClosed:
		p.steps = append(p.steps, removeFormer)
	case !s.Untaken:
		p.after = append(p.after, removeFormer)
	}
}

func release(p *plan, a app.App, s cluster.State) {
	if s.Route != cluster.RouteOpen {
		p.steps = append(p.steps, openRoute)
	}
	move(p, s, cluster.RouteOpen)
	if s.Hidden {
		p.after = append(p.after, showKnative)
	}
	if s.Middleware != cluster.Absent {
		p.after = append(p.after, deleteMiddleware)
	}
	if a.Gate.State != app.Ungated || len(p.after) > 0 {
		p.prove = proveReleased
	}
}

// pass looks at every app and works on those that need it.
func (s *Service) pass(ctx context.Context) error {
	return s.queue.Pass(ctx, func(ctx context.Context, work func(app.Ref) bool) error {
		ca, err := s.certify(ctx)
		if err != nil {
			return err
		}
		todo, err := s.todo(ctx, ca)
		if err != nil {
			return err
		}
		// In another order each time: if a pass ends early, it is not always the same
		// apps that go without.
		rand.Shuffle(len(todo), func(i, k int) { todo[i], todo[k] = todo[k], todo[i] }) //nolint:gosec // an order is no secret
		for _, ref := range todo {
			if !work(ref) {
				break
			}
		}
		return nil
	})
}

// todo lists the apps whose objects or gate need work. The lists are a first
// impression; the work itself looks again at each app.
func (s *Service) todo(ctx context.Context, ca []byte) ([]app.Ref, error) {
	inventory, err := s.cluster.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	var todo []app.Ref
	there, gates, reserved := map[app.Ref]bool{}, map[app.GateState]int{}, 0
	for a, err := range s.store.AllApps(ctx) {
		if err != nil {
			return nil, err
		}
		there[a.Ref()] = true
		gates[a.Gate.State]++
		if s.baseHosts.Overlap(a.Host) {
			reserved++
		}
		if p := s.plan(a, s.cluster.State(inventory.Of(a.Ref()), a, ca)); !p.idle() {
			todo = append(todo, a.Ref())
		}
	}
	s.proofs.keepOnly(there)
	s.gauges.count(gates)
	s.gauges.reserved.Set(float64(reserved))
	return todo, nil
}

func (s *Service) plan(a app.App, seen cluster.State) plan {
	return decide(a, seen, s.proofs.due(a.Ref(), s.now()), s.baseHosts.Overlap(a.Host))
}

// maxRounds is how often one piece of work looks at an app: once before each set
// of steps, once more to see that they hold, and again for writes that lost a race and
// for gates that seem to have been changed.
const maxRounds = 8

// reconcile looks at one app and does what there is to do, until there is nothing
// left or it cannot go on for now.
func (s *Service) reconcile(ctx context.Context, ref app.Ref) error {
	span.Of(ctx).Set(span.OfApp(ref)...)
	ca, wrote, doubted := *s.ca.Load(), false, false
	var last error
	for range maxRounds {
		seen, err := s.cluster.Objects(ctx, ref) // before the document: see package cluster
		if err != nil {
			return err
		}
		a, err := s.store.App(ctx, ref.Namespace, ref.Name)
		if problem.Is(err, problem.NotFound) {
			return s.cleanUp(ctx, ref, wrote)
		}
		if err != nil {
			return err
		}
		p := s.plan(a, s.cluster.State(seen, a, ca))
		if p.drifted && !doubted {
			doubted = true // another replica may have engaged the gate between the two looks
			continue
		}
		if p.drifted {
			if err := s.record(ctx, a, app.Pending, driftMessage); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "gate was changed from outside", "app", ref.String())
			continue // the gate that is put back is of another generation
		}
		switch {
		case len(p.steps) > 0:
		case p.refused:
			s.log.ErrorContext(ctx, "app has no route: its host is reserved", "app", ref.String(), "host", a.Host)
			return s.record(ctx, a, refusedState(a), reservedMessage)
		default:
			return s.verify(ctx, seen, a, p, wrote)
		}
		wrote = true
		last = s.run(ctx, seen, a, ca, p.steps)
		if last != nil && !problem.Is(last, problem.Conflict) {
			return s.stuck(ctx, a, last)
		}
	}
	return errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

// cleanUp comes after work on an app that was deleted meanwhile: what was written may
// have come after the deletion.
func (s *Service) cleanUp(ctx context.Context, ref app.Ref, wrote bool) error {
	if !wrote {
		return nil
	}
	return s.cluster.Delete(ctx, ref)
}

// verify proves what is in place, then takes away what that makes superfluous.
func (s *Service) verify(ctx context.Context, seen cluster.Objects, a app.App, p plan, wrote bool) error {
	if p.prove == proveNothing {
		return nil
	}
	q := question{App: a, generation: seen.Generation(), anyGeneration: slices.Contains(p.after, removeFormer)}
	answer := s.prove(ctx, q, p.prove, s.patience(a.Gate, wrote))
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
	if slices.Contains(p.after, removeFormer) { // what was proven may have been its doing
		s.proofs.doubt(a.Ref(), s.now())
		return nil
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
		return s.cluster.EnsureNamespace(ctx, a.Namespace)
	case applyService:
		return s.cluster.ApplyService(ctx, seen, a)
	case applyDeployment:
		return s.cluster.ApplyDeployment(ctx, seen, a)
	case removeSuperseded:
		return s.cluster.RemoveSuperseded(ctx, seen, a.Ref())
	case writeHost:
		return s.cluster.WriteHost(ctx, seen, a.Ref())
	case writeStrip:
		return s.cluster.WriteStrip(ctx, seen, a.Ref())
	case writeCA:
		return s.cluster.WriteCA(ctx, seen, a.Ref(), ca)
	case writeMiddleware:
		return s.cluster.WriteMiddleware(ctx, seen, a)
	case gateRoute:
		return s.cluster.ApplyRoute(ctx, seen, a, true)
	case openRoute:
		return s.cluster.ApplyRoute(ctx, seen, a, false)
	case removeRoute:
		return s.cluster.RemoveRoute(ctx, seen, a.Ref())
	case removeFormer:
		return s.cluster.RemoveFormer(ctx, seen, a.Ref())
	case deleteMiddleware:
		return s.cluster.DeleteMiddleware(ctx, seen, a.Ref())
	case removeGenerations:
		return s.cluster.RemoveGenerations(ctx, seen, a.Ref())
	case hideKnative:
		return s.cluster.HideKnative(ctx, seen, a.Ref())
	case showKnative:
		return s.cluster.ShowKnative(ctx, seen, a.Ref())
	}
	return fmt.Errorf("unknown step %d", one)
}

// stuck says in the gate's message that the cluster is in the way, where someone
// is waiting for the gate.
func (s *Service) stuck(ctx context.Context, a app.App, err error) error {
	if ctx.Err() == nil && (a.Gate.State == app.Pending || a.Gate.State == app.Releasing) {
		message := stuckMessage
		if problem.Is(err, problem.NameTaken) {
			message = problem.From(err).Message
		}
		err = errors.Join(err, s.record(ctx, a, a.Gate.State, message))
	}
	return err
}

// What a gate's message says besides the answers of the ingress.
const (
	driftMessage = "The gate was changed from outside; it is being put back."
	stuckMessage = "The cluster does not take the change yet; trying again."

	reservedMessage = "The app has no route: its host is reserved for Sluice's API and console. Give the app another host."
)

var (
	errSame      = errors.New("the gate already says so")
	errOvertaken = errors.New("the gate was switched meanwhile")
)

// record moves an app's gate on from the state that a was read in, in one
// transaction. If the gate has been switched or moved since, nothing is written:
// what was found out is about the past.
func (s *Service) record(ctx context.Context, a app.App, state app.GateState, message string) error {
	_, err := s.store.UpdateApp(ctx, a.Ref(), func(is app.App) (app.App, error) {
		next, err := advance(is, a, app.Gate{State: state, Since: s.now().UTC(), Message: message})
		if err != nil {
			return app.App{}, err
		}
		is.Gate = next
		return is, nil
	})
	if errors.Is(err, errSame) || errors.Is(err, errOvertaken) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record gate of %s: %w", a.Ref(), err)
	}
	s.log.InfoContext(ctx, "gate state changed", "app", a.Ref().String(), "state", string(state), "message", message)
	return nil
}

// advance is the gate that an app shall have when is what is stored and was what
// was looked at. A message that changes does not start the state anew.
func advance(is, was app.App, next app.Gate) (app.Gate, error) {
	if is.RequireAPIKey != was.RequireAPIKey || is.Gate.State != was.Gate.State || !is.Gate.Since.Equal(was.Gate.Since) {
		return app.Gate{}, errOvertaken
	}
	if next.State == is.Gate.State {
		if next.Message == is.Gate.Message {
			return app.Gate{}, errSame
		}
		next.Since = is.Gate.Since
	}
	return next, nil
}

// unproven is what becomes of a gate whose proof has failed.
func unproven(state app.GateState, sought proof, got answer) (app.GateState, string) {
	if sought == proveEngaged && state == app.Engaged && got.passes() {
		return app.Pending, got.message()
	}
	return state, got.message()
}
