package stack

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows a person what the start is at. Its methods can be called by
// several goroutines.
type progress struct {
	now func() time.Time

	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{now: now, out: out}
}

// Write passes whole lines on.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *progress) say(format string, args ...any) {
	// A line that can't be shown must not stop the start.
	_, _ = fmt.Fprintf(p, format+"\n", args...)
}

// step runs one part of the start and tells when it is done.
func (p *progress) step(name string, run func() error) error {
	began := p.now()
	if err := run(); err != nil {
		return err
	}
	p.say("%-16s ready after %.1f s", name, p.now().Sub(began).Seconds())
	return nil
}
