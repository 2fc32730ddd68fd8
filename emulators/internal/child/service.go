package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Check returns an error if a program does not respond.
type Check func(context.Context) error

// Service is a restartable child. It is safe for concurrent use.
type Service struct {
	name    string
	limit   time.Duration
	prepare func() (Command, Check)

	mu sync.Mutex
	p  *Process
}

// Run starts a service and waits up to limit until it responds. prepare is called for each
// start.
func Run(ctx context.Context, name string, limit time.Duration, prepare func() (Command, Check)) (*Service, error) {
	s := &Service{name: name, limit: limit, prepare: prepare}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("no response within %v", s.limit))
	defer cancel()
	command, check := s.prepare()
	command.Name = s.name
	p, err := Start(command)
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, check); err != nil {
		return errors.Join(err, p.Close())
	}
	s.mu.Lock()
	s.p = p
	s.mu.Unlock()
	return nil
}

// Process returns the current process.
func (s *Service) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// Pid returns the current process ID.
func (s *Service) Pid() int { return s.Process().Pid() }

// Signal sends a signal to the process.
func (s *Service) Signal(sig os.Signal) error { return s.Process().Signal(sig) }

// Kill kills the process. Restart starts it again.
func (s *Service) Kill() error { return s.Process().Kill() }

// Close stops the process.
func (s *Service) Close() error { return s.Process().Close() }

// Restart stops the process if it runs, starts it again and waits until it responds.
func (s *Service) Restart(ctx context.Context) error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Get returns an error unless a GET request returns 200.
func Get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("call %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("call %s: %w", url, err)
	}
	defer resp.Body.Close()
	// This allows reuse of the connection.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil {
		return fmt.Errorf("call %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("call %s: %s: %.200s", url, resp.Status, body)
	}
	return nil
}

// Until calls check until it returns nil, or returns its last error when ctx ends.
func Until(ctx context.Context, every time.Duration, check func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
