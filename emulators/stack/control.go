package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const superviseEvery = 500 * time.Millisecond

func (s *Stack) find(name string) (*managed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.services[name]
	if !ok {
		return nil, fmt.Errorf("the stack has no process called %q", name)
	}
	return m, nil
}

// Pid returns the process ID of a process.
func (s *Stack) Pid(name string) (int, error) {
	m, err := s.find(name)
	if err != nil {
		return 0, err
	}
	return m.Pid(), nil
}

// Signal sends a signal to a process.
func (s *Stack) Signal(name string, sig os.Signal) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	return m.Signal(sig)
}

// Kill kills a process. It stays down until Restart.
func (s *Stack) Kill(name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	s.setStopped(m, true)
	return m.Kill()
}

// Restart stops a process if it runs, starts it again, and waits until it is ready and its
// Service routes to it. A restarted store is empty.
func (s *Stack) Restart(ctx context.Context, name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	s.setStopped(m, true)
	if err := m.Restart(ctx); err != nil {
		return err
	}
	s.setStopped(m, false)
	if m.pod != "" {
		if err := s.waitListed(ctx, m.pod); err != nil {
			return err
		}
	}
	return s.writeInfo()
}

func (s *Stack) setStopped(m *managed, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.stopped = down
}

func (s *Stack) supervise(life context.Context) {
	tick := time.NewTicker(superviseEvery)
	defer tick.Stop()
	reported := map[string]int{}
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for name, m := range s.ended() {
			if reported[name] == m.Pid() {
				continue
			}
			reported[name] = m.Pid()
			s.log.Error("process exited", "process", name, "error", m.Process().Err())
			s.progress.Say("%s exited unexpectedly; see %s/%s.log", name, s.logs(), name)
			if m.function {
				s.restartFunction(life, name, m)
			}
		}
	}
}

func (s *Stack) restartFunction(life context.Context, name string, m *managed) {
	if err := m.Restart(life); err != nil {
		s.log.Error("restart process failed", "process", name, "error", err)
		return
	}
	s.progress.Say("%s restarted", name)
	if err := s.writeInfo(); err != nil {
		s.log.Error("write process IDs failed", "error", err)
	}
}

func (s *Stack) ended() map[string]*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := map[string]*managed{}
	for name, m := range s.services {
		select {
		case <-m.Process().Done():
			if !m.stopped {
				ended[name] = m
			}
		default:
		}
	}
	return ended
}

// closeProcesses stops the ingress, then functions and emulators, then the API server, then the
// stores.
func (s *Stack) closeProcesses() error {
	s.mu.Lock()
	rounds := make([][]*managed, 4)
	for name, m := range s.services {
		m.stopped = true
		round := 1
		switch name {
		case "traefik":
			round = 0
		case "kube-apiserver":
			round = 2
		case "etcd", "firestore":
			round = 3
			// The processes that end first may still write to a stopped store.
			_ = m.Signal(syscall.SIGCONT)
		}
		rounds[round] = append(rounds[round], m)
	}
	s.mu.Unlock()
	var failed error
	for _, round := range rounds {
		errs := make([]error, len(round))
		var wait sync.WaitGroup
		for i, m := range round {
			wait.Go(func() { errs[i] = m.Close() })
		}
		wait.Wait()
		failed = errors.Join(failed, errors.Join(errs...))
	}
	return failed
}

func (s *Stack) closeResources() error {
	s.mu.Lock()
	closers := s.closers
	s.closers = nil
	s.mu.Unlock()
	var failed error
	for _, closer := range slices.Backward(closers) {
		failed = errors.Join(failed, closer())
	}
	return failed
}
