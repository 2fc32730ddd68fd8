package meter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/store"
)

// sharing knows how far this process's counts and those of others are known to each
// other; the package's documentation says what follows from it. Its times are in
// nanoseconds since start.
type sharing struct {
	replica  string
	start    time.Time
	patience time.Duration // [Config.MaxUnshared]
	horizon  time.Duration

	shared atomic.Int64  // what was counted before is committed, and its commit was heard
	heard  atomic.Int64  // what was committed before is in the sums
	others atomic.Uint64 // replicas

	mu             sync.Mutex // guards what follows, and setting the above
	oldest, newest flushed    // of the flushes whose commits have not been heard
	until          time.Time  // everything committed until then has been heard, by the store's clock
	canaries       map[string]heardCanary
}

// forgotten is when a replica that is gone is forgotten: its canary is deleted by then,
// and not sent anew with all others.
const forgotten = 48 * time.Hour

// flushed is a flush that wrote all there was.
type flushed struct {
	begun     int64
	committed time.Time // the last write, by the store's clock; of an earlier flush if this one had nothing to write
	wrote     bool
}

// heardCanary is another replica's last canary.
type heardCanary struct {
	store.Canary

	at int64 // when it was first heard
}

func newSharing(cfg Config, now time.Time) *sharing {
	s := &sharing{
		replica: cfg.Replica, start: now, patience: cfg.MaxUnshared, horizon: cfg.Horizon,
		canaries: map[string]heardCanary{},
	}
	s.others.Store(1)
	return s
}

func (s *sharing) since(now time.Time) int64 { return int64(now.Sub(s.start)) }

func (s *sharing) age(now time.Time) time.Duration {
	return time.Duration(s.since(now) - s.shared.Load())
}

// reserve is how much of a quota others may use until they are heard: nothing that
// matters while counts are shared.
func (s *sharing) reserve(b bucket.Shape, now time.Time) uint64 {
	if s.age(now) <= s.patience {
		return 0
	}
	unheard := time.Duration(s.since(now) - s.heard.Load())
	return s.others.Load() * b.Most(unheard+s.horizon)
}

// flush notes a flush that wrote all there was. Two of those that are not heard of
// yet are kept, the first and the last: from a slow store commits are heard while
// others are made.
func (s *sharing) flush(f flushed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heardCommit(f) {
		return
	}
	if s.oldest == (flushed{}) {
		s.oldest = f
	}
	s.newest = f
}

// complete notes that all that was committed until then, by the store's clock, is in the
// sums.
func (s *sharing) complete(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.until) {
		s.until = until
	}
	if s.oldest == (flushed{}) || !s.heardCommit(s.oldest) {
		return
	}
	s.oldest = flushed{}
	if !s.heardCommit(s.newest) {
		s.oldest = s.newest
	}
}

// heardCommit tells whether a flush's commit has been heard, and what was counted before it
// is shared. The caller holds mu.
func (s *sharing) heardCommit(f flushed) bool {
	if f.committed.After(s.until) {
		return false
	}
	s.shared.Store(max(s.shared.Load(), f.begun))
	if f.wrote {
		s.heard.Store(max(s.heard.Load(), f.begun))
	}
	return true
}

// Proven takes in the canaries that came with the counters heard last. begun is when
// the writing of the latest of this replica's own began that has come back.
func (m *Meter) Proven(begun time.Time, canaries []store.Canary) {
	m.share.proven(begun, canaries, m.cfg.Now())
}

func (s *sharing) proven(begun time.Time, canaries []store.Canary, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.Store(max(s.heard.Load(), s.since(begun)))
	for _, c := range canaries {
		if last, ok := s.canaries[c.Replica]; c.Replica != s.replica && (!ok || last.Run != c.Run || last.Seq != c.Seq) {
			s.canaries[c.Replica] = heardCanary{c, s.since(now)}
		}
	}
	// This is the only place where replicas drop out: in an outage nobody is taken for gone.
	others := uint64(0)
	for name, c := range s.canaries {
		switch silent := time.Duration(s.since(now) - c.at); {
		case silent > forgotten:
			delete(s.canaries, name)
		case silent <= s.horizon:
			others++
		}
	}
	s.others.Store(max(1, others))
}
