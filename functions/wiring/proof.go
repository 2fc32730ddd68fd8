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

	// bypassInterval is how soon the cluster is asked again for ways around a gate that
	// is in place, which costs some calls.
	bypassInterval = time.Second

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
	for {
		got, again := s.ingress.ask(ctx, a, sought), probeInterval
		if sought == proveEngaged && got.proves(sought) {
			got, again = s.around(ctx, a.Ref(), got), bypassInterval
		}
		if got.proves(sought) || !s.now().Before(until) {
			return got
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return got
		}
	}
}

// around looks for ways around a gate that answers as it should, and gives that answer
// when there are none.
func (s *Service) around(ctx context.Context, ref app.Ref, got answer) answer {
	b, err := s.viewer.Bypass(ctx, ref)
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "look for ways around a gate failed", "app", ref.String(), "error", err)
		return answer{kind: unsearched}
	case len(b.Ways) > 0:
		return answer{kind: bypassed, detail: some(b.Ways)}
	case b.Moving:
		return answer{kind: moving}
	}
	return got
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
