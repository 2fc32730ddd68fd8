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
	livenessGrace    = time.Second
)

func (s *Stack) keepAlive(m *managed, r replica) {
	if !s.o.NoLiveness {
		s.tasks.Go(func() { s.probeLiveness(s.life, m, r.process(), s.o.at(r.host(), checkerPort)) })
	}
}

// probeLiveness ends a checker that stops responding, so that supervise restarts it.
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
			s.log.Error("stop hung process failed", "process", name, "error", err)
		}
	}
}

func (s *Stack) replaced(name string, m *managed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[name] != m
}

// down reports whether a process has ended or is stopped on purpose.
func (s *Stack) down(m *managed, p *child.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.Done():
		return true
	default:
		return m.stopped
	}
}

func endHung(p *child.Process) error {
	_ = p.Signal(syscall.SIGTERM) // fails only if the process has ended
	late := time.NewTimer(livenessGrace)
	defer late.Stop()
	select {
	case <-p.Done():
		return nil
	case <-late.C:
		return p.Kill()
	}
}
