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

// Check tells whether a program that was started answers.
type Check func(context.Context) error

// Service is a child that is known to answer once it is started, and that can be
// started again. Its methods can be called by several goroutines.
type Service struct {
	name    string
	limit   time.Duration
	prepare func() (Command, Check)

	mu sync.Mutex
	p  *Process
}

// Run starts a service and waits at most limit until it answers. prepare makes
// the command and the check of each start.
func Run(ctx context.Context, name string, limit time.Duration, prepare func() (Command, Check)) (*Service, error) {
	s := &Service{name: name, limit: limit, prepare: prepare}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("no answer within %v", s.limit))
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

// Process is the current one.
func (s *Service) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// Pid is the process id of the current process.
func (s *Service) Pid() int { return s.Process().Pid() }

// Signal sends a signal to the process.
func (s *Service) Signal(sig os.Signal) error { return s.Process().Signal(sig) }

// Kill ends the process at once; Restart brings the service back.
func (s *Service) Kill() error { return s.Process().Kill() }

// Close ends the process.
func (s *Service) Close() error { return s.Process().Close() }

// Restart ends the process if it still runs, starts the service again and waits
// until it answers.
func (s *Service) Restart(ctx context.Context) error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Get asks an address for a sign of life: 200 is one.
func Get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	// Read, so that the connection can be used again.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s: %.200s", url, resp.Status, body)
	}
	return nil
}

// Until runs check until it gives nil. When ctx ends before that, the error has
// what check said last.
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
