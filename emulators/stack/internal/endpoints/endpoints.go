// Package endpoints emulates the readiness probes of a kubelet and the endpoints of a Service.
package endpoints

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Period approximates the average delay of a kubelet: a kubelet probes every second, and
	// notices within a second that a container has ended.
	Period = 500 * time.Millisecond

	// limit is the value in infra/chart/templates/checker.yaml.
	limit = 2 * time.Second
)

// Pod is a pod to probe.
type Pod struct {
	Name  string
	Probe func(context.Context) error // returns nil if the pod is ready
}

// List is the list of ready pods.
type List struct {
	log     *slog.Logger
	changed func(ready []string)
	tasks   sync.WaitGroup

	mu   sync.Mutex
	pods []*pod
}

type pod struct {
	Pod
	ready bool
	end   context.CancelFunc
}

// New returns an empty list. After each change, it calls changed with the names of the ready
// pods. Calls do not overlap.
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

// Remove removes a pod immediately.
func (l *List) Remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.pods {
		if p.Name == name {
			p.end()
			l.pods = append(l.pods[:i:i], l.pods[i+1:]...)
			l.notify()
			return
		}
	}
}

// Ready reports whether a pod is ready.
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

// Wait waits until the probes of ended contexts have ended.
func (l *List) Wait() { l.tasks.Wait() }

func (l *List) probe(ctx context.Context, p *pod) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		probeCtx, cancel := context.WithTimeout(ctx, limit)
		err := p.Probe(probeCtx)
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

// set makes a pod not ready after a single failure: removing a healthy checker costs less than
// routing requests to a failed one.
func (l *List) set(ctx context.Context, p *pod, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ready := err == nil; ctx.Err() == nil && p.ready != ready {
		p.ready = ready
		l.log.Info("readiness changed", "pod", p.Name, "ready", ready, "reason", err)
		l.notify()
	}
}

// notify needs mu, so that the calls of changed are in order.
func (l *List) notify() {
	var ready []string
	for _, p := range l.pods {
		if p.ready {
			ready = append(ready, p.Name)
		}
	}
	l.changed(ready)
}
