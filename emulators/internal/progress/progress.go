// Package progress reports the progress of a long start.
package progress

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"
)

const (
	statusEvery = 15 * time.Second
	clearLine   = "\r\x1b[K"
)

// Progress writes lines for a person. It is safe for concurrent use.
type Progress struct {
	now      func() time.Time
	terminal bool

	mu     sync.Mutex
	out    io.Writer
	status time.Time
	open   bool
}

// New returns a Progress that writes to out; nil discards everything.
func New(out io.Writer, now func() time.Time) *Progress {
	if out == nil {
		out = io.Discard
	}
	file, ok := out.(*os.File)
	return &Progress{now: now, out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// Of returns out if it is a Progress, or New(out, now).
func Of(out io.Writer, now func() time.Time) *Progress {
	if p, ok := out.(*Progress); ok && p != nil {
		return p
	}
	return New(out, now)
}

// Write writes complete lines.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		p.open = false
		_, _ = io.WriteString(p.out, clearLine) // a failed write must not stop the start
	}
	return p.out.Write(b)
}

// Status shows the state of a long part. A terminal shows it in its last line until the next
// output; a log gets a line at most every 15 s.
func (p *Progress) Status(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := clearLine + line
	if !p.terminal {
		now := p.now()
		if now.Sub(p.status) < statusEvery {
			return
		}
		p.status, text = now, line+"\n"
	}
	p.open = p.terminal
	_, _ = io.WriteString(p.out, text) // a failed write must not stop the start
}

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
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

// Part is a part of a start. It begins when the parts that it needs are ready.
type Part struct {
	Name  string
	Needs []string
	Run   func(context.Context) error
}

// Run runs the parts concurrently and returns the first error. For a part that waited, it
// reports the duration and the last dependency.
func (p *Progress) Run(ctx context.Context, parts []Part) error {
	ready := map[string]chan struct{}{}
	for _, part := range parts {
		ready[part.Name] = make(chan struct{})
	}
	began := p.now()
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error {
			last, err := part.wait(ctx, ready)
			if err != nil {
				return err
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

// wait returns the dependency that was ready last, or "" if all were ready.
func (part Part) wait(ctx context.Context, ready map[string]chan struct{}) (last string, err error) {
	for _, name := range part.Needs {
		if ready[name] == nil {
			return "", fmt.Errorf("%s needs the unknown part %s", part.Name, name)
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
			return "", context.Cause(ctx)
		}
	}
	return last, nil
}
