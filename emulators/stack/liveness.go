package stack

import (
	"context"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

// The liveness probe of a checker, as in infra/chart/templates/checker.yaml.
const (
	livenessPeriod   = time.Second
	livenessTimeout  = time.Second
	livenessFailures = 3
	livenessGrace    = time.Second // from SIGTERM to SIGKILL
)

// keepAlive probes a checker in the background, unless the stack has no liveness probes.
func (s *Stack) keepAlive(m *managed, r replica) {
	if !s.o.NoLiveness {
		s.tasks.Go(func() { s.probeLiveness(s.life, m, r.process(), s.o.at(r.host(), checkerPort)) })
	}
}

// probeLiveness ends a checker that stops responding, so that supervise starts it again. It
// returns when the stack ends or replaces the checker.
func (s *Stack) probeLiveness(life context.Context, m *managed, name, address string) {
	tick := time.NewTicker(livenessPeriod)
	defer tick.Stop()
	var probed *child.Process
	failures := 0
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		if s.replaced(name, m) {
			return
		}
		if p := m.Process(); p != probed { // a new process responded once before it is current
			probed, failures = p, 0
		}
		ctx, cancel := context.WithTimeout(life, livenessTimeout)
		err := s.askGate(ctx, address, "/healthz")
		cancel()
		if life.Err() != nil {
			return
		}
		if err == nil || s.down(m, probed) {
			failures = 0
			continue
		}
		if failures++; failures < livenessFailures {
			continue
		}
		s.log.Error("liveness probe failed", "process", name, "error", err)
		if err := endHung(probed); err != nil {
			s.log.Error("hung process not ended", "process", name, "error", err)
		}
	}
}

// replaced reports whether another process has the name of m.
func (s *Stack) replaced(name string, m *managed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[name] != m
}

// down reports whether a process has ended, or is meant to.
func (s *Stack) down(m *managed, p *child.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.Done():
		return true
	default:
		return m.meant
	}
}

// endHung sends SIGTERM, and SIGKILL after the grace period.
func endHung(p *child.Process) error {
	_ = p.Signal(syscall.SIGTERM) // it fails only if the process has just ended
	late := time.NewTimer(livenessGrace)
	defer late.Stop()
	select {
	case <-p.Done():
		return nil
	case <-late.C:
		return p.Kill()
	}
}
