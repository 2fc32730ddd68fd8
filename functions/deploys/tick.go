package deploys

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// tickTimeout bounds a tick. What it has not come to is the next one's.
const tickTimeout = 50 * time.Second

// tick has the cluster run what every app's document says, a number of apps at a
// time. The workloads are listed before the apps are read, so that an app is
// skipped only if its workload runs what is recorded now, and that is live, or if its
// rollout is being followed anyway. Only one tick runs in a process; one that comes
// meanwhile has nothing to add.
func (s *Service) tick(ctx context.Context) error {
	select {
	case s.ticking <- struct{}{}:
		defer func() { <-s.ticking }()
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	s.announcer.kick()
	seen, err := s.cluster.Workloads(ctx)
	if err != nil {
		return err
	}
	var open sync.WaitGroup
	defer open.Wait()
	room := make(chan struct{}, s.cfg.Workers)
	unsettled := 0
	for a, err := range s.apps.AllApps(ctx) {
		if err != nil {
			return err
		}
		if a.Revision == 0 || s.settled.at(a.Ref(), a.Revision) && seen.Of(a.Ref()).Runs(a) {
			continue
		}
		unsettled++
		if s.followers.follows(a.Ref()) {
			continue
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		open.Go(func() {
			defer func() { <-room }()
			if _, err := s.reconcile(ctx, a.Ref()); err != nil {
				s.log.WarnContext(ctx, "app does not run its revision yet", "app", a.Ref().String(), "revision", a.Revision, "error", err)
			}
		})
	}
	s.gauges.unsettled.Set(float64(unsettled))
	return nil
}

// settled remembers which revisions are known to be live, so that a tick does not
// read them again. It only saves reads: what it has forgotten is read.
type settled struct {
	mu   sync.Mutex
	live map[app.Ref]int64
}

func newSettled() *settled { return &settled{live: map[app.Ref]int64{}} }

func (s *settled) note(ref app.Ref, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[ref] = revision
}

func (s *settled) at(ref app.Ref, revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.live[ref]
	return ok && n == revision
}

func (s *settled) forget(ref app.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, ref)
}
