// Package progress shows a person what a long start is at.
package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Progress takes lines for a person to read. Its methods can be called by several
// goroutines.
type Progress struct {
	now func() time.Time

	mu  sync.Mutex
	out io.Writer
}

// New makes one that writes to out; nil drops everything.
func New(out io.Writer, now func() time.Time) *Progress {
	if out == nil {
		out = io.Discard
	}
	return &Progress{now: now, out: out}
}

// Write passes whole lines on.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
	// A line that can't be shown must not stop the start.
	_, _ = fmt.Fprintf(p, format+"\n", args...)
}

// Step runs one part of the start and tells when it is done.
func (p *Progress) Step(name string, run func() error) error {
	began := p.now()
	if err := run(); err != nil {
		return err
	}
	p.Say("%-16s ready after %.1f s", name, p.now().Sub(began).Seconds())
	return nil
}

// SideBySide runs parts of the start at the same time, each as a step.
func (p *Progress) SideBySide(ctx context.Context, parts map[string]func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for name, part := range parts {
		g.Go(func() error { return p.Step(name, func() error { return part(ctx) }) })
	}
	return g.Wait()
}
