package deploys

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// followGrace is how much longer than the progress deadline a rollout is
	// followed, so that its failure is seen too.
	followGrace = 10 * time.Second

	// maxFollowers bounds rollouts that are followed at the same time. What finds no
	// room is the next tick's.
	maxFollowers = 64

	// slowest is how many times longer than at first the pauses between looks become
	// in a rollout that takes long.
	slowest = 10
)

// followOnce works on an app and tells whether its rollout is over.
func (s *Service) followOnce(ctx context.Context, ref app.Ref) bool {
	rev, err := s.reconcile(ctx, ref)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "app does not run its revision yet", "app", ref.String(), "error", err)
		}
		return false
	}
	return rev.Number == 0 || rev.Finished()
}

// followers work on apps again and again until their rollouts are over, one
// goroutine for each app. They end with close.
type followers struct {
	work  func(context.Context, app.Ref) (over bool)
	every time.Duration
	limit time.Duration // for one app

	ctx    context.Context //nolint:containedctx // the followers' own: they outlive the requests that cause them
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running map[app.Ref]*followed
}

// followed is an app that is being followed.
type followed struct {
	news  bool          // since the work began
	cause trace.Request // the latest request that had it followed
}

func newFollowers(work func(context.Context, app.Ref) bool, every, limit time.Duration) *followers {
	ctx, cancel := context.WithCancel(context.Background())
	return &followers{work: work, every: every, limit: limit, ctx: ctx, cancel: cancel, running: map[app.Ref]*followed{}}
}

// follow starts to follow an app, or tells its follower that there is news. Of ctx it
// takes the request's id alone: a rollout outlives the request that causes it.
func (f *followers) follow(ctx context.Context, ref app.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cause, _ := trace.Of(ctx)
	if one, ok := f.running[ref]; ok {
		one.news, one.cause = true, cause
		return
	}
	if f.closed || len(f.running) >= maxFollowers {
		return
	}
	f.running[ref] = &followed{cause: cause}
	f.group.Go(func() { //nolint:contextcheck // a rollout outlives the request that causes it
		for f.until(ref); f.again(ref); {
			f.until(ref)
		}
	})
}

// follows tells whether an app is being followed.
func (f *followers) follows(ref app.Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[ref] != nil
}

// until works on an app until its rollout is over or has taken too long.
func (f *followers) until(ref app.Ref) {
	ctx, cancel := context.WithTimeout(f.ctx, f.limit)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := f.every; ; wait = min(wait*5/4, slowest*f.every) {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if f.work(f.caused(ctx, ref), ref) {
			return
		}
		pause.Reset(wait)
	}
}

// again tells whether there was news; without any the app is not followed any more.
func (f *followers) again(ref app.Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.running[ref]
	news := one.news && !f.closed
	if news {
		one.news = false
	} else {
		delete(f.running, ref)
	}
	return news
}

// caused gives the context of one look: the system's own work, in the latest request
// that had the app followed.
func (f *followers) caused(ctx context.Context, ref app.Ref) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return trace.As(trace.Begin(ctx, f.running[ref].cause), trace.Actor{Kind: trace.System, Name: "system"})
}

// close ends all followers and waits for them.
func (f *followers) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.group.Wait()
}
