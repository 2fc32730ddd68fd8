package meter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/store"
)

// sharing bounds the requests beyond a soft quota while replicas cannot share their counts. Each
// process knows two times, by its monotonic clock:
//
//   - b (shared): all own counts from before b are committed, and the commit has returned through
//     the listener.
//   - h (received): the sums contain all counts of others that were committed before h. h is the
//     start of the last flush with writes, or of the last canary, that has returned.
//
// While b is at most MaxUnshared old, the sums decide. Later, a request is admitted only if the
// quota holds even if every other replica uses its whole bucket from h until now + Horizon:
//
//	own + received + others × (burst + rate × (now − h + Horizon)) < quota
//
// Otherwise the result is Unshared, which counts nothing. Thus all replicas together stay below
// the quota until now + Horizon: own is exact, the sums contain all counts from before h, and the
// buckets bound all later requests. By then, others have received the counts of this process, or
// every process has stopped by the same rule.
//
// The requests beyond the quota are those that the sums admitted while b aged: each process's own
// requests of MaxUnshared, and as many requests of others that it had not received. They are at
// most the requests that all replicas admit in twice MaxUnshared. The bound excludes three cases:
//
//   - A replica that alone is cut off for more than Horizon, the ceiling.
//   - A killed process: the requests that it had not flushed can be admitted again.
//   - Replicas that have started since. At least one other replica is assumed.
type sharing struct {
	replica     string
	start       time.Time
	maxUnshared time.Duration
	horizon     time.Duration

	shared   atomic.Int64 // time b, since start
	received atomic.Int64 // time h, since start
	others   atomic.Uint64

	mu             sync.Mutex // guards the following fields, and setting those above
	oldest, newest flushResult
	completeUntil  time.Time // by the store's clock; all earlier commits are received
	canaries       map[string]peerCanary
}

// canaryTTL is the time after which a replica without new canaries is forgotten. Its canary is
// deleted by then.
const canaryTTL = 48 * time.Hour

// flushResult is a flush that wrote all changes.
type flushResult struct {
	begun     int64
	committed time.Time // last write of this flush or an earlier one, by the store's clock
	wrote     bool
}

type peerCanary struct {
	store.Canary

	at int64
}

func newSharing(cfg Config, now time.Time) *sharing {
	s := &sharing{
		replica: cfg.Replica, start: now, maxUnshared: cfg.MaxUnshared, horizon: cfg.Horizon,
		canaries: map[string]peerCanary{},
	}
	s.others.Store(1)
	return s
}

func (s *sharing) since(now time.Time) int64 { return int64(now.Sub(s.start)) }

func (s *sharing) age(now time.Time) time.Duration {
	return time.Duration(s.since(now) - s.shared.Load())
}

// reserve returns the part of a quota that others may use before their counts arrive.
func (s *sharing) reserve(b bucket.Params, now time.Time) uint64 {
	if s.age(now) <= s.maxUnshared {
		return 0
	}
	unreceived := time.Duration(s.since(now) - s.received.Load())
	return s.others.Load() * b.MaxWithin(unreceived+s.horizon)
}

// flush records a flush. Of the flushes that have not returned, it stores only the oldest and the
// newest: with a slow store, new flushes are made before old ones return.
func (s *sharing) flush(f flushResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commitReceived(f) {
		return
	}
	if s.oldest == (flushResult{}) {
		s.oldest = f
	}
	s.newest = f
}

// complete records that the sums contain all commits until a time.
func (s *sharing) complete(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.completeUntil) {
		s.completeUntil = until
	}
	if s.oldest == (flushResult{}) || !s.commitReceived(s.oldest) {
		return
	}
	s.oldest = flushResult{}
	if !s.commitReceived(s.newest) {
		s.oldest = s.newest
	}
}

// commitReceived must be called with mu held.
func (s *sharing) commitReceived(f flushResult) bool {
	if f.committed.After(s.completeUntil) {
		return false
	}
	s.shared.Store(max(s.shared.Load(), f.begun))
	if f.wrote {
		s.received.Store(max(s.received.Load(), f.begun))
	}
	return true
}

// Proven applies the canaries received with counters. begun is the start of the write of this
// replica's last returned canary.
func (m *Meter) Proven(begun time.Time, canaries []store.Canary) {
	m.share.proven(begun, canaries, m.cfg.Now())
}

func (s *sharing) proven(begun time.Time, canaries []store.Canary, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received.Store(max(s.received.Load(), s.since(begun)))
	for _, c := range canaries {
		if last, ok := s.canaries[c.Replica]; c.Replica != s.replica && (!ok || last.Run != c.Run || last.Seq != c.Seq) {
			s.canaries[c.Replica] = peerCanary{c, s.since(now)}
		}
	}
	// Replicas are removed only here, so none is removed during an outage.
	others := uint64(0)
	for name, c := range s.canaries {
		switch silent := time.Duration(s.since(now) - c.at); {
		case silent > canaryTTL:
			delete(s.canaries, name)
		case silent <= s.horizon:
			others++
		}
	}
	s.others.Store(max(1, others))
}
