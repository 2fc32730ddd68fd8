package checker

import (
	"sync/atomic"
	"time"
)

// life follows one listener's signs of life. Until its first batch is complete,
// any message is one: a large collection takes its time. From then on only the
// canaries count, whose coming back is the listener's whole purpose.
type life struct {
	now   func() time.Time
	zero  time.Time
	began atomic.Int64 // when the listener started, in nanoseconds since zero
	heard atomic.Int64 // last message, or the start
	first atomic.Int64 // when the first batch was complete; 0 before
}

// begin notes that the listener starts.
func (l *life) begin() {
	now := l.since()
	l.first.Store(0)
	l.heard.Store(now)
	l.began.Store(now)
}

// Heard notes a message.
func (l *life) Heard() { l.heard.Store(l.since()) }

// synced notes that a batch is complete.
func (l *life) synced() { l.first.CompareAndSwap(0, max(l.since(), 1)) }

// coming tells whether the first batch is under way: something of it has been heard.
func (l *life) coming() bool { return l.first.Load() == 0 && l.heard.Load() > l.began.Load() }

// silence is for how long there has been no sign of life; proof is the age of the
// latest canary that has come back, as far as there is one.
func (l *life) silence(proof time.Duration, proven bool) time.Duration {
	now := l.since()
	first := l.first.Load()
	if first == 0 {
		return time.Duration(now - l.heard.Load())
	}
	silent := time.Duration(now - first)
	if proven {
		silent = min(silent, proof)
	}
	return silent
}

func (l *life) since() int64 { return int64(l.now().Sub(l.zero)) }
