package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/progress"
)

type status struct {
	name  string
	total int
	show  *progress.Progress
	began time.Time

	mu   sync.Mutex
	done int
}

func (p Program) newStatus() *status {
	return &status{name: p.Name, show: progress.Of(p.Progress, time.Now), began: time.Now()}
}

// Write counts lines.
func (s *status) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

func (s *status) line(after time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := min(s.done, s.total)
	line := fmt.Sprintf("building %s (first time only): %d of %d packages", s.name, done, s.total)
	if done == 0 {
		return line
	}
	left := after * time.Duration(s.total-done) / time.Duration(done)
	return fmt.Sprintf("%s, about %v left", line, left.Round(time.Second))
}

func (s *status) wait(ctx context.Context, run *child.Process) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		after := time.Since(s.began).Round(time.Second)
		select {
		case <-run.Done():
			if err := run.Wait(); err != nil {
				return err
			}
			s.show.Say("built %s in %v", s.name, after)
			return nil
		case <-tick.C:
			s.show.Status(s.line(after))
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), run.Kill())
		}
	}
}
