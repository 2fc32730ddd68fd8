package wiring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
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
func (s *Service) prove(ctx context.Context, q question, sought proof, patience time.Duration) answer {
	until := s.now().Add(patience)
	if sought == proveEngaged && !q.anyGeneration {
		q.anyGeneration = s.earlierCheckers(ctx)
	}
	for {
		got, again := s.ingress.ask(ctx, q, sought), probeInterval
		if sought == proveEngaged && got.proves(sought) {
			got, again = s.checkBypass(ctx, q.Ref(), got), bypassInterval
		}
		if got.proves(sought) || !s.now().Before(until) {
			return got
		}
		if !trace.Sleep(ctx, again) {
			return got
		}
	}
}

// earlierCheckers reports whether there is a checker whose proofs name no generation.
func (s *Service) earlierCheckers(ctx context.Context) bool {
	list, err := s.store.Members(ctx, store.CanaryKeys)
	if err != nil {
		s.log.WarnContext(ctx, "list checkers failed", "error", err)
		return false
	}
	return list.Without(checkers.RouteGenerations) != ""
}

// checkBypass looks for ways around a gate that answers as it should, and gives that answer
// when there are none.
func (s *Service) checkBypass(ctx context.Context, ref app.Ref, got answer) answer {
	b, err := s.cluster.Bypass(ctx, ref)
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "check bypass failed", "app", ref.String(), "error", err)
		return answer{kind: unsearched}
	case len(b.Ways) > 0:
		return answer{kind: bypassed, detail: some(b.Ways)}
	case b.Moving:
		return answer{kind: moving}
	}
	return got
}

// patience returns how long to wait for the proof of a gate. wrote reports whether its
// objects were just written.
func (s *Service) patience(g app.Gate, wrote bool) time.Duration {
	switch {
	case g.State == app.Engaged && wrote:
		return s.cfg.ProofPatience
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

// doubt has a gate proven again with the next look.
func (p *proofs) doubt(ref app.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[ref] = now
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

// witness knows the keys by which checkers prove that a denial is theirs: that of the
// certificate that they are to serve, and that of the one before, which they serve until
// the new one has reached them. A process that starts in that minute knows the new one
// only, and may call gates in place unproven until the minute is over.
type witness struct {
	mu                sync.Mutex
	current, previous checkers.ProofKey
	known             int // how many of the two
}

// learn takes in the private key that checkers are to serve with, unless there is none:
// anybody could derive something from that.
func (w *witness) learn(privateKey []byte) error {
	if len(privateKey) == 0 {
		return nil
	}
	key, err := checkers.DeriveProofKey(privateKey)
	if err != nil {
		return fmt.Errorf("the checkers' proofs: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known > 0 && key == w.current {
		return nil
	}
	w.previous, w.current = w.current, key
	w.known = min(w.known+1, 2)
	return nil
}

// proven reports whether a checker has proven that it was asked about subject (see
// [checkers.ProofKey.Prove]).
func (w *witness) proven(subject, nonce, proof string) bool {
	w.mu.Lock()
	keys, known := [2]checkers.ProofKey{w.current, w.previous}, w.known
	w.mu.Unlock()
	for _, key := range keys[:known] {
		if key.VerifyProof(proof, nonce, subject) {
			return true
		}
	}
	return false
}
