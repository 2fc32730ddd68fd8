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

// Step runs run and reports how long it took.
func (p *Progress) Step(name string, run func() error) error {
	return p.step(name, "", run)
}

func (p *Progress) step(name, note string, run func() error) error {
	began := p.now()
	if err := run(); err != nil {
		return err
	}
	p.Say("%-16s ready after %.1f s%s", name, p.now().Sub(began).Seconds(), note)
	return nil
}

// Part is a part of a start. It begins when all the parts that it needs are ready.
type Part struct {
	Name  string
	Needs []string // names of other parts
	Run   func(context.Context) error
}

// Run runs the parts concurrently. For a part that waited, it reports how long and for which
// part last. It returns the first error, or an error if a needed part does not exist.
func (p *Progress) Run(ctx context.Context, parts []Part) error {
	ready := map[string]chan struct{}{}
	for _, part := range parts {
		ready[part.Name] = make(chan struct{})
	}
	began := p.now()
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error {
			last := ""
			for _, name := range part.Needs {
				if ready[name] == nil {
					return fmt.Errorf("%s needs the unknown part %s", part.Name, name)
				}
				select {
				case <-ready[name]:
					continue
				default:
				}
				select {
				case <-ready[name]:
					last = name
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			note := ""
			if last != "" {
				note = fmt.Sprintf(", waited %.1f s for %s", p.now().Sub(began).Seconds(), last)
			}
			if err := p.step(part.Name, note, func() error { return part.Run(ctx) }); err != nil {
				return err
			}
			close(ready[part.Name])
			return nil
		})
	}
	return g.Wait()
}
