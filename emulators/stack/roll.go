package stack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

// preStop is from the moment when a checker's Service no longer leads to it to its
// SIGTERM, as the preStop hook of infra/checker has it, but shorter: here endpoints
// change at once.
const preStop = time.Second

// Roll replaces the checkers as a Deployment with one more than wanted (maxSurge 1)
// and none less (maxUnavailable 0) does: a new one starts, and once the Service leads
// to it, an old one is taken out of the Service and then told to end, which lets open
// requests finish and writes what is counted. Info tells where the new ones listen.
func (s *Stack) Roll(ctx context.Context) error {
	for i := range checkers {
		if err := s.replace(ctx, i); err != nil {
			return fmt.Errorf("replace checker %d: %w", i, err)
		}
	}
	return s.writeInfo()
}

func (s *Stack) replace(ctx context.Context, i int) error {
	s.mu.Lock()
	old := s.replicas[i]
	s.mu.Unlock()
	fresh := replica{index: i, generation: old.generation + 1}
	service, err := s.startChecker(ctx, s.life, fresh)
	if err != nil {
		return err
	}
	leaving := s.swap(old, fresh, service)
	if err := s.waitListed(ctx, fresh.pod()); err != nil {
		return err
	}
	s.pods.Remove(old.pod())
	pause := time.NewTimer(preStop)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait before SIGTERM: %w", context.Cause(ctx))
	case <-pause.C:
	}
	if err := leaving.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.services, old.pod()+" (replaced)")
	s.mu.Unlock()
	return nil
}

// swap makes the fresh replica the one of its name. The old one stays among the
// stack's processes until it has ended.
func (s *Stack) swap(old, fresh replica, service *child.Service) (leaving *managed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaving = s.services[old.process()]
	leaving.meant = true
	s.services[old.pod()+" (replaced)"] = leaving
	s.services[fresh.process()] = &managed{Service: service, function: true, pod: fresh.pod()}
	s.replicas[fresh.index] = fresh
	s.info.Checkers = slices.Clone(s.info.Checkers) // Info has given the old one away
	s.info.CheckerMetrics = slices.Clone(s.info.CheckerMetrics)
	s.info.Metrics = maps.Clone(s.info.Metrics)
	s.info.Checkers[fresh.index] = "https://" + s.o.at(fresh.host(), checkerPort+fresh.index)
	s.info.CheckerMetrics[fresh.index] = "http://" + s.o.at(fresh.host(), metricsPort+fresh.index) + "/metrics"
	s.info.Metrics[fresh.process()] = s.info.CheckerMetrics[fresh.index]
	return leaving
}
