package wiring

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

const (
	// probeInterval is how soon the ingress is asked again.
	probeInterval = 150 * time.Millisecond

	// freshFor is how long after a switch its proof is waited for. Later, one
	// question per tick has to do, so that apps that cannot be proven do not keep
	// the others waiting.
	freshFor = time.Minute

	// doubtPatience is how long a gate in place may fail to prove itself.
	doubtPatience = time.Second
)

// prove asks the ingress until it answers as sought or patience ends, and gives
// the last answer.
func (s *Service) prove(ctx context.Context, a app.App, sought proof) answer {
	ctx, cancel := context.WithTimeout(ctx, appTimeout)
	defer cancel()
	until := s.now().Add(s.patience(a.Gate))
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		got := s.ingress.ask(ctx, a.Host, sought)
		if got.proves(sought) || !s.now().Before(until) {
			return got
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got
		}
	}
}

func (s *Service) patience(g app.Gate) time.Duration {
	switch {
	case g.State == app.Engaged:
		return doubtPatience
	case s.now().Sub(g.Since) < freshFor:
		return s.cfg.ProofPatience
	}
	return 0
}

// proofs remembers when each engaged gate is to be proven again. It is forgotten
// when the process ends; the next one spreads its first proofs over the interval.
type proofs struct {
	every time.Duration
	draw  func(time.Duration) time.Duration // at random, below its argument

	mu   sync.Mutex
	next map[app.Ref]time.Time
}

func newProofs(every time.Duration, draw func(time.Duration) time.Duration) *proofs {
	return &proofs{every: every, draw: draw, next: map[app.Ref]time.Time{}}
}

// due tells whether it is time to prove a gate again.
func (p *proofs) due(ref app.Ref, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.next[ref]
	if !known {
		at = now.Add(p.draw(p.every) + 1)
		p.next[ref] = at
	}
	return !now.Before(at)
}

// proven sets the next time, spread so that proofs do not come in step.
func (p *proofs) proven(ref app.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[ref] = now.Add(p.every*3/4 + p.draw(p.every/2+1))
}

func (p *proofs) forget(ref app.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, ref)
}

// keepOnly forgets the apps that are not among those that there are.
func (p *proofs) keepOnly(there map[app.Ref]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.next {
		if !there[ref] {
			delete(p.next, ref)
		}
	}
}
