package wiring

import (
	"context"
	"errors"
	"sync"

	"github.com/sluicegate/sluice/shared/app"
)

// errInterrupted is why a job's context ends when there is news about its app.
var errInterrupted = errors.New("there is news about the app")

// jobs lets one piece of work at a time run for an app in this process. That only
// saves effort: replicas do not see each other's.
type jobs struct {
	mu      sync.Mutex
	running map[app.Ref]*job
}

type job struct {
	news   context.Context //nolint:containedctx // of what came since the round began; nil when nothing did
	cancel context.CancelCauseFunc
}

func newJobs() *jobs { return &jobs{running: map[app.Ref]*job{}} }

// run does work for an app, unless that is being done already. news then
// interrupts what runs, which is about an older state of affairs, and has it start
// over; without news there is nothing to do.
func (j *jobs) run(ctx context.Context, ref app.Ref, news bool, work func(context.Context)) {
	mine := j.start(ctx, ref, news)
	if mine == nil {
		return
	}
	defer func() { // also when work panics
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.running[ref] == mine {
			delete(j.running, ref)
		}
	}()
	for round := ctx; round != nil; round = j.next(mine, ref) { //nolint:contextcheck // news has a context of its own
		once, cancel := context.WithCancelCause(round)
		j.arm(mine, cancel)
		work(once)
		cancel(nil)
	}
}

// start registers a job, or tells the one that runs; it is nil then.
func (j *jobs) start(ctx context.Context, ref app.Ref, news bool) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if running, ok := j.running[ref]; ok {
		if news {
			running.news = ctx
			if running.cancel != nil {
				running.cancel(errInterrupted)
			}
		}
		return nil
	}
	mine := &job{}
	j.running[ref] = mine
	return mine
}

func (j *jobs) arm(mine *job, cancel context.CancelCauseFunc) {
	j.mu.Lock()
	defer j.mu.Unlock()
	mine.cancel, mine.news = cancel, nil
}

// next gives the context in which to work on the news that came while the job ran: that
// of the news, so that its request's id is logged, without its end, so that it is worked
// on whole. It is nil without news: the job is over.
func (j *jobs) next(mine *job, ref app.Ref) context.Context {
	j.mu.Lock()
	defer j.mu.Unlock()
	if mine.news == nil {
		delete(j.running, ref)
		return nil
	}
	return context.WithoutCancel(mine.news)
}
