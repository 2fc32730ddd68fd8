package wiring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
)

const (
	probeInterval = 150 * time.Millisecond

	// bypassInterval is longer because each check needs several calls.
	bypassInterval = time.Second

	// freshFor is the time after a switch during which a worker waits for the proof. After that,
	// the gate gets one probe per resync, so that it does not delay other apps.
	freshFor = time.Minute

	// engagedTimeout limits the wait for the proof of an engaged gate.
	engagedTimeout = time.Second
)

func (s *Service) prove(ctx context.Context, q probeRequest, sought proof, timeout time.Duration) probeResult {
	until := s.now().Add(timeout)
	if sought == proveEngaged && !q.anyGeneration {
		q.anyGeneration = s.earlierCheckers(ctx)
	}
	for {
		got, again := s.ingress.probe(ctx, q, sought), probeInterval
		if sought == proveEngaged && got.proves(sought) {
			got, again = s.checkBypass(ctx, q.Ref(), got), bypassInterval
		}
		if got.proves(sought) || !s.now().Before(until) {
			return got
		}
		if !reqctx.Sleep(ctx, again) {
			return got
		}
	}
}

func (s *Service) earlierCheckers(ctx context.Context) bool {
	list, err := s.store.Members(ctx, store.CanaryKeys)
	if err != nil {
		s.log.WarnContext(ctx, "list checkers failed", "error", err)
		return false
	}
	return list.Without(checkers.RouteGenerations) != ""
}

// checkBypass returns got, or another result if the app may be reachable without its gate.
func (s *Service) checkBypass(ctx context.Context, ref app.Ref, got probeResult) probeResult {
	b, err := s.cluster.Bypass(ctx, ref)
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "check bypass failed", "app", ref.String(), "error", err)
		return probeResult{kind: unsearched}
	case len(b.Ways) > 0:
		return probeResult{kind: bypassed, detail: firstFew(b.Ways)}
	case b.Moving:
		return probeResult{kind: moving}
	}
	return got
}

// proofTimeout returns the time to wait for a proof. wrote is true if objects were just written.
func (s *Service) proofTimeout(g app.Gate, wrote bool) time.Duration {
	switch {
	case g.State == app.Engaged && wrote:
		return s.cfg.ProofPatience
	case g.State == app.Engaged:
		return engagedTimeout
	case s.now().Sub(g.Since) < freshFor:
		return s.cfg.ProofPatience
	}
	return 0
}

// reproveSchedule schedules repeated proofs of engaged gates. It is not stored; a new process
// spreads its first proofs over the interval.
type reproveSchedule struct {
	every time.Duration
	draw  func(time.Duration) time.Duration // random, below its argument

	mu   sync.Mutex
	next map[app.Ref]time.Time
}

func newReproveSchedule(every time.Duration, draw func(time.Duration) time.Duration) *reproveSchedule {
	return &reproveSchedule{every: every, draw: draw, next: map[app.Ref]time.Time{}}
}

func (p *reproveSchedule) due(ref app.Ref, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.next[ref]
	if !known {
		at = now.Add(p.draw(p.every) + 1)
		p.next[ref] = at
	}
	return !now.Before(at)
}

func (p *reproveSchedule) proven(ref app.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[ref] = now.Add(p.every*3/4 + p.draw(p.every/2+1))
}

func (p *reproveSchedule) doubt(ref app.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[ref] = now
}

func (p *reproveSchedule) keepOnly(existing map[app.Ref]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.next {
		if !existing[ref] {
			delete(p.next, ref)
		}
	}
}

// proofKeys holds the keys that verify the checkers' proofs. They are derived from the private keys
// of the current and the previous certificate. A new process knows only the current key, so it may
// reject proofs for up to a minute after a renewal.
type proofKeys struct {
	mu                sync.Mutex
	current, previous checkers.ProofKey
	known             int // number of known keys
}

// learn adds the key derived from the checkers' private key. It ignores an empty private key, from
// which anyone could derive proofs.
func (k *proofKeys) learn(privateKey []byte) error {
	if len(privateKey) == 0 {
		return nil
	}
	key, err := checkers.DeriveProofKey(privateKey)
	if err != nil {
		return fmt.Errorf("derive proof key: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known > 0 && key == k.current {
		return nil
	}
	k.previous, k.current = k.current, key
	k.known = min(k.known+1, 2)
	return nil
}

// proven reports whether proof shows that a checker was called for subject (see
// [checkers.ProofKey.Prove]).
func (k *proofKeys) proven(subject, nonce, proof string) bool {
	k.mu.Lock()
	keys, known := [2]checkers.ProofKey{k.current, k.previous}, k.known
	k.mu.Unlock()
	for _, key := range keys[:known] {
		if key.VerifyProof(proof, nonce, subject) {
			return true
		}
	}
	return false
}
