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

// superviseEvery is from one look for processes that have ended to the next.
const superviseEvery = 500 * time.Millisecond

// find gives a process by its name, such as "firestore" or "checker-0".
func (s *Stack) find(name string) (*managed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.services[name]
	if !ok {
		return nil, fmt.Errorf("the stack has no process called %q", name)
	}
	return m, nil
}

// Pid is the current process id of a process.
func (s *Stack) Pid(name string) (int, error) {
	m, err := s.find(name)
	if err != nil {
		return 0, err
	}
	return m.Pid(), nil
}

// Signal sends a signal to a process, such as SIGSTOP.
func (s *Stack) Signal(name string, sig os.Signal) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	return m.Signal(sig)
}

// Kill ends a process at once. It stays down until Restart.
func (s *Stack) Kill(name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	s.setMeant(m, true)
	return m.Kill()
}

// Restart ends a process if it runs and starts it again with the same arguments;
// it waits until it answers and its Service leads to it. A store that is restarted is
// empty.
func (s *Stack) Restart(ctx context.Context, name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	s.setMeant(m, true)
	if err := m.Restart(ctx); err != nil {
		return err
	}
	s.setMeant(m, false)
	if m.pod != "" {
		if err := s.waitListed(ctx, m.pod); err != nil {
			return err
		}
	}
	return s.writeInfo()
}

func (s *Stack) setMeant(m *managed, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.meant = down
}

// supervise tells of processes that end by themselves, and starts functions
// again, as a kubelet does.
func (s *Stack) supervise(life context.Context) {
	tick := time.NewTicker(superviseEvery)
	defer tick.Stop()
	told := map[string]int{} // process id of the last end that was told of
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for name, m := range s.ended() {
			if told[name] == m.Pid() {
				continue
			}
			told[name] = m.Pid()
			s.log.Error("process ended", "process", name, "error", m.Process().Err())
			s.progress.Say("%s ended by itself; see %s/%s.log", name, s.logs(), name)
			if m.function {
				s.again(life, name, m)
			}
		}
	}
}

// again starts a function that has ended. One that fails is tried again at each
// look.
func (s *Stack) again(life context.Context, name string, m *managed) {
	if err := m.Restart(life); err != nil {
		s.log.Error("process not started again", "process", name, "error", err)
		return
	}
	s.progress.Say("%s started again", name)
	if err := s.writeInfo(); err != nil {
		s.log.Error("process ids not written", "error", err)
	}
}

// ended gives the processes that should run but do not.
func (s *Stack) ended() map[string]*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := map[string]*managed{}
	for name, m := range s.services {
		select {
		case <-m.Process().Done():
			if !m.meant {
				ended[name] = m
			}
		default:
		}
	}
	return ended
}

// closeProcesses ends them in rounds: the ingress, what serves, what stores.
func (s *Stack) closeProcesses() error {
	s.mu.Lock()
	rounds := make([][]*managed, 4)
	for name, m := range s.services {
		m.meant = true
		round := 1
		switch name {
		case "traefik":
			round = 0
		case "kube-apiserver":
			round = 2
		case "etcd", "firestore":
			round = 3
			// What ends before it may want to write once more.
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

// closeOpened closes the rest, last opened first.
func (s *Stack) closeOpened() error {
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
