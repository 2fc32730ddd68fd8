package wiring

import (
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
)

// step is one write on the cluster.
type step int

const (
	makeNamespace step = iota
	removeSuperseded
	applyService
	applyDeployment
	writeHost
	writeCA
	writeMiddleware
	gateRoute
	openRoute
	deleteMiddleware
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
	steps   []step // in this order, and look again afterwards
	prove   proof  // once there are no steps
	after   []step // once that is proven
}

func (p plan) idle() bool { return len(p.steps) == 0 && p.prove == proveNothing && len(p.after) == 0 }

// decide compares an app's document with what is in the cluster. due tells that a
// gate in place should be proven again. A gate's parts are in place before the
// route names them, and stay until no route does.
func decide(a app.App, s cluster.State, due bool) plan {
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
	if a.RequireAPIKey {
		engage(&p, a, s, due)
	} else {
		release(&p, a, s)
	}
	if len(p.steps) > 0 { // first things first
		p.prove, p.after = proveNothing, nil
	}
	return p
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
	if s.Public {
		p.steps = append(p.steps, hideKnative)
	}
	engaged := a.Gate.State == app.Engaged
	// A copy of the CA that differs is a renewal, and is no reason to doubt the gate.
	p.drifted = engaged && (s.CA == cluster.Absent || s.Middleware != cluster.Right || s.Route != cluster.RouteGated || s.Public)
	if !engaged || due {
		p.prove = proveEngaged
	}
}

func release(p *plan, a app.App, s cluster.State) {
	if s.Route != cluster.RouteOpen {
		p.steps = append(p.steps, openRoute)
	}
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
