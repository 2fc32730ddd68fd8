// Package endpoints plays what a cluster does between a pod and the endpoints of its
// Service: the kubelet's readiness probes, and the controller that lists the ready
// pods and takes out at once those that are about to end.
package endpoints

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Period is from one probe of a pod to the next. A kubelet's shortest is 1 s, and
	// it learns of a container's end within another one; half of it here is about what
	// one sees there on average.
	Period = 500 * time.Millisecond

	// limit is for one probe, as in infra/chart/templates/checker.yaml.
	limit = 2 * time.Second
)

// Pod is what is probed.
type Pod struct {
	Name  string                      // unique among those that are there
	Probe func(context.Context) error // nil when the pod is ready
}

// List is the list of ready pods.
type List struct {
	log     *slog.Logger
	changed func(ready []string)
	tasks   sync.WaitGroup

	mu   sync.Mutex
	pods []*pod // in the order in which they were added
}

type pod struct {
	Pod
	ready bool
	end   context.CancelFunc
}

// New makes an empty list. changed takes the names of the ready pods whenever they
// change, one call after the other.
func New(log *slog.Logger, changed func(ready []string)) *List {
	return &List{log: log, changed: changed}
}

// Add probes a pod until it is removed or ctx ends.
func (l *List) Add(ctx context.Context, p Pod) {
	ctx, end := context.WithCancel(ctx)
	added := &pod{Pod: p, end: end}
	l.mu.Lock()
	l.pods = append(l.pods, added)
	l.mu.Unlock()
	l.tasks.Go(func() { l.probe(ctx, added) })
}

// Remove takes a pod out of the list at once, as for one that is being deleted.
func (l *List) Remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.pods {
		if p.Name == name {
			p.end()
			l.pods = append(l.pods[:i:i], l.pods[i+1:]...)
			l.tell()
			return
		}
	}
}

// Ready tells whether a pod is in the list and ready.
func (l *List) Ready(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pods {
		if p.Name == name {
			return p.ready
		}
	}
	return false
}

// Wait waits for the end of the probes, once their contexts have ended.
func (l *List) Wait() { l.tasks.Wait() }

func (l *List) probe(ctx context.Context, p *pod) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, limit)
		err := p.Probe(look)
		cancel()
		if ctx.Err() != nil {
			return
		}
		l.set(ctx, p, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// set notes the outcome of a probe. One that fails is enough: a pod of a Service
// that decides on requests is better left out once too often.
func (l *List) set(ctx context.Context, p *pod, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ready := err == nil; ctx.Err() == nil && p.ready != ready {
		p.ready = ready
		l.log.Info("readiness changed", "pod", p.Name, "ready", ready, "reason", err)
		l.tell()
	}
}

// tell is called with mu held, so that changes arrive in order.
func (l *List) tell() {
	var ready []string
	for _, p := range l.pods {
		if p.ready {
			ready = append(ready, p.Name)
		}
	}
	l.changed(ready)
}
