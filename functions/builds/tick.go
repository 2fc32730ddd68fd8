package builds

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
)

const (
	buildTimeout = 20 * time.Second // for one piece of work on one build
	startTimeout = 5 * time.Second  // for a caller's wait until the build that was asked for has its run
	tickTimeout  = 50 * time.Second // for a tick; what it has not come to is the next one's
	pendingPage  = 200
)

// tick works on every build that is not final. Only one tick runs in a process; one
// that comes meanwhile has nothing to add.
func (s *Service) tick(ctx context.Context) error {
	select {
	case s.ticking <- struct{}{}:
		defer func() { <-s.ticking }()
	default:
		return nil
	}
	running := 0
	err := s.workOn(ctx, func(store.PendingBuild) bool { running++; return true })
	s.gauges.running.Set(float64(running))
	return err
}

// workOn works on the builds that are not final and chosen, a number at a time.
// Trouble with one is logged and is the next tick's.
func (s *Service) workOn(ctx context.Context, chosen func(store.PendingBuild) bool) error {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	var open sync.WaitGroup
	defer open.Wait()
	room := make(chan struct{}, s.cfg.Workers)
	for page := (store.Page{Size: pendingPage}); ; {
		pending, next, err := s.builds.PendingBuilds(ctx, page)
		if err != nil {
			return err
		}
		for _, p := range pending {
			if !chosen(p) {
				continue
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			open.Go(func() {
				defer func() { <-room }()
				if err := s.work(ctx, p); err != nil {
					s.log.WarnContext(ctx, "build not moved on", "app", p.App.String(), "build", p.Number, "error", err)
				}
			})
		}
		if page.Token = next; next == "" {
			return nil
		}
	}
}

// work works on one build.
func (s *Service) work(ctx context.Context, p store.PendingBuild) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	b, err := s.builds.Build(ctx, p.App, p.Number)
	if problem.Is(err, problem.NotFound) || err == nil && b.Final() {
		return s.builds.ForgetBuild(ctx, p)
	}
	if err != nil {
		return err
	}
	return s.look(ctx, p.App, b)
}
