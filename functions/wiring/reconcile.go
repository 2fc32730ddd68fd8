package wiring

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/span"
)

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

type proof int

const (
	proveNothing  proof = iota
	proveEngaged        // the gate denies the request
	proveReleased       // the gate no longer responds
)

type transition struct {
	drifted bool   // the gate was engaged and has been changed
	refused bool   // the host is reserved, and the gate's message does not say so yet
	steps   []step // in this order; then decide again
	prove   proof  // after the steps
	after   []step // after the proof
}

func (p transition) idle() bool {
	return len(p.steps) == 0 && !p.refused && p.prove == proveNothing && len(p.after) == 0
}

// decide compares an app's document with its objects and returns the next transition. The order of
// the steps ensures that the parts of a gate exist while a route names them.
func decide(a app.App, s cluster.State, due, reserved bool) transition {
	var p transition
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
	if len(p.steps) > 0 {
		p.prove, p.after = proveNothing, nil
	}
	return p
}

func leave(p *transition, a app.App, s cluster.State) {
	if s.Route == cluster.RouteElsewhere {
		p.steps = append(p.steps, removeRoute)
		p.drifted = a.Gate.State == app.Engaged
	}
	if s.Former == cluster.RouteElsewhere {
		p.steps = append(p.steps, removeFormer)
	}
}

func refuse(p *transition, a app.App, s cluster.State) {
	if s.Route != cluster.RouteAbsent {
		p.steps = append(p.steps, removeRoute)
	}
	if s.Former != cluster.RouteAbsent {
		p.steps = append(p.steps, removeFormer)
	}
	p.refused = a.Gate.State != refusedState(a) || a.Gate.Message != reservedMessage
}

func refusedState(a app.App) app.GateState {
	if a.RequireAPIKey {
		return app.Pending
	}
	return app.Releasing
}

func engage(p *transition, a app.App, s cluster.State, due bool) {
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
	// These are not drift:
	//   - a CA copy that differs: the CA was renewed
	//   - a closed route: it only needs its backend
	//   - a move to another kind of route: the former route is still gated
	//   - a gate of an earlier release: it is replaced
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

// move removes the former route, immediately if its gate setting is wrong. Otherwise it waits until
// the new route is accepted and proven.
func move(p *transition, s cluster.State, wanted cluster.Route) {
	switch {
	case s.Former == cluster.RouteAbsent:
	case s.Former != wanted && s.Former != cluster.RouteClosed:
		p.steps = append(p.steps, removeFormer)
	case !s.Untaken:
		p.after = append(p.after, removeFormer)
	}
}

func release(p *transition, a app.App, s cluster.State) {
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

func (s *Service) pass(ctx context.Context) error {
	return s.queue.Resync(ctx, func(ctx context.Context, work func(app.Ref) bool) error {
		ca, err := s.certify(ctx)
		if err != nil {
			return err
		}
		todo, err := s.todo(ctx, ca)
		if err != nil {
			return err
		}
		// Shuffle, so that a resync that ends early does not always skip the same apps.
		rand.Shuffle(len(todo), func(i, k int) { todo[i], todo[k] = todo[k], todo[i] }) //nolint:gosec // not security-relevant
		for _, ref := range todo {
			if !work(ref) {
				break
			}
		}
		return nil
	})
}

func (s *Service) todo(ctx context.Context, ca []byte) ([]app.Ref, error) {
	inventory, err := s.cluster.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	var todo []app.Ref
	existing, namespaces, gates, reserved := map[app.Ref]bool{}, map[string]bool{}, map[app.GateState]int{}, 0
	for a, err := range s.store.AllApps(ctx) {
		if err != nil {
			return nil, err
		}
		existing[a.Ref()], namespaces[a.Namespace] = true, true
		gates[a.Gate.State]++
		if s.baseHosts.Overlap(a.Host) {
			reserved++
		}
		if p := s.transition(a, s.cluster.State(inventory.Of(a.Ref()), a, ca)); !p.idle() {
			todo = append(todo, a.Ref())
		}
	}
	s.schedule.keepOnly(existing)
	s.gauges.count(gates)
	s.gauges.reserved.Set(float64(reserved))
	s.restoreGrants(ctx, maps.Keys(namespaces))
	return todo, nil
}

// restoreGrants logs failures: the resync continues in the other namespaces.
func (s *Service) restoreGrants(ctx context.Context, namespaces iter.Seq[string]) {
	restored, err := s.cluster.RestoreGrants(ctx, namespaces)
	for _, ref := range restored {
		s.log.WarnContext(ctx, "restored role binding", "namespace", ref.Namespace, "name", ref.Name)
	}
	if err != nil {
		s.log.WarnContext(ctx, "restore role bindings failed", "error", err)
	}
}

func (s *Service) transition(a app.App, seen cluster.State) transition {
	return decide(a, seen, s.schedule.due(a.Ref(), s.now()), s.baseHosts.Overlap(a.Host))
}

const maxRounds = 8

func (s *Service) reconcile(ctx context.Context, ref app.Ref) error {
	span.FromContext(ctx).Set(span.OfApp(ref)...)
	ca, wrote, doubted := *s.ca.Load(), false, false
	var last error
	for range maxRounds {
		seen, err := s.cluster.Objects(ctx, ref) // before the document; see package cluster
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
		p := s.transition(a, s.cluster.State(seen, a, ca))
		if p.drifted && !doubted {
			doubted = true // read again: another replica may have engaged the gate between the two reads
			continue
		}
		if p.drifted {
			if err := s.record(ctx, a, app.Pending, driftMessage); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "gate was changed outside of Sluice", "app", ref.String())
			continue // the repaired gate has another generation
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
			return s.recordBlocked(ctx, a, last)
		}
	}
	return errors.Join(fmt.Errorf("%s keeps changing", ref), last)
}

func (s *Service) cleanUp(ctx context.Context, ref app.Ref, wrote bool) error {
	if !wrote {
		return nil
	}
	return s.cluster.Delete(ctx, ref)
}

func (s *Service) verify(ctx context.Context, seen cluster.Objects, a app.App, p transition, wrote bool) error {
	if p.prove == proveNothing {
		return nil
	}
	q := probeRequest{App: a, generation: seen.Generation(), anyGeneration: slices.Contains(p.after, removeFormer)}
	result := s.prove(ctx, q, p.prove, s.proofTimeout(a.Gate, wrote))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !result.proves(p.prove) {
		state, message := afterFailedProbe(a.Gate.State, p.prove, result)
		return s.record(ctx, a, state, message)
	}
	if err := s.run(ctx, seen, a, nil, p.after); err != nil {
		return err
	}
	if slices.Contains(p.after, removeFormer) { // the former route may have returned the proof
		s.schedule.doubt(a.Ref(), s.now())
		return nil
	}
	s.schedule.proven(a.Ref(), s.now())
	if p.prove == proveEngaged {
		return s.record(ctx, a, app.Engaged, "")
	}
	return s.record(ctx, a, app.Ungated, "")
}

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
		return s.cluster.DeletePreviousRoute(ctx, seen, a.Ref())
	case deleteMiddleware:
		return s.cluster.DeleteMiddleware(ctx, seen, a.Ref())
	case removeGenerations:
		return s.cluster.RemoveGenerations(ctx, seen, a.Ref())
	case hideKnative:
		return s.cluster.MakeClusterLocal(ctx, seen, a.Ref())
	case showKnative:
		return s.cluster.RestoreVisibility(ctx, seen, a.Ref())
	}
	return fmt.Errorf("unknown step %d", one)
}

// recordBlocked records in the message of a pending or releasing gate that the cluster rejects
// writes.
func (s *Service) recordBlocked(ctx context.Context, a app.App, err error) error {
	if ctx.Err() == nil && (a.Gate.State == app.Pending || a.Gate.State == app.Releasing) {
		message := blockedMessage
		if problem.Is(err, problem.NameTaken) {
			message = problem.From(err).Message
		}
		err = errors.Join(err, s.record(ctx, a, a.Gate.State, message))
	}
	return err
}

const (
	driftMessage   = "The gate was changed outside of Sluice and is being repaired."
	blockedMessage = "The cluster does not accept the change yet. Sluice retries automatically."

	reservedMessage = "The app has no route, because its host is reserved for Sluice's API and console. Change the app's host."
)

var (
	errUnchanged = errors.New("gate unchanged")
	errSwitched  = errors.New("gate switched concurrently")
)

// record changes an app's gate in a transaction, unless the gate has changed since a was read.
func (s *Service) record(ctx context.Context, a app.App, state app.GateState, message string) error {
	_, err := s.store.UpdateApp(ctx, a.Ref(), func(is app.App) (app.App, error) {
		next, err := advance(is, a, app.Gate{State: state, Since: s.now().UTC(), Message: message})
		if err != nil {
			return app.App{}, err
		}
		is.Gate = next
		return is, nil
	})
	if errors.Is(err, errUnchanged) || errors.Is(err, errSwitched) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record gate of %s: %w", a.Ref(), err)
	}
	s.log.InfoContext(ctx, "gate state changed", "app", a.Ref().String(), "state", string(state), "message", message)
	return nil
}

// advance returns the next gate of the stored app. It returns errSwitched if the stored gate is no
// longer the one that was read, and errUnchanged if nothing changes.
func advance(is, was app.App, next app.Gate) (app.Gate, error) {
	if is.RequireAPIKey != was.RequireAPIKey || is.Gate.State != was.Gate.State || !is.Gate.Since.Equal(was.Gate.Since) {
		return app.Gate{}, errSwitched
	}
	if next.State == is.Gate.State {
		if next.Message == is.Gate.Message {
			return app.Gate{}, errUnchanged
		}
		next.Since = is.Gate.Since
	}
	return next, nil
}

func afterFailedProbe(state app.GateState, sought proof, got probeResult) (app.GateState, string) {
	if sought == proveEngaged && state == app.Engaged && got.passes() {
		return app.Pending, got.message()
	}
	return state, got.message()
}
