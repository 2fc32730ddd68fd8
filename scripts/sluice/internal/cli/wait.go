package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
)

type waitFlags struct {
	a     *application
	wait  bool
	limit time.Duration
}

func (a *application) waitFlags(cmd *cobra.Command) *waitFlags {
	w := &waitFlags{a: a}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait for the result and show progress")
	cmd.Flags().DurationVar(&w.limit, "wait-timeout", 5*time.Minute, "maximum time for --wait")
	return w
}

// pollFunc returns the current state and reports whether the wait is over. In the first call, it
// uses the response to the change.
type pollFunc func(ctx context.Context, first bool) (state string, done bool, err error)

func (w *waitFlags) until(ctx context.Context, what string, poll pollFunc) error {
	limited, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	interval := w.a.env.Poll
	if interval == 0 {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	p := w.a.progress(what)
	defer p.end()
	state := ""
	for first := true; ; first = false {
		now, done, err := poll(limited, first)
		switch {
		case err == nil:
			state = now
			p.show(state)
			if done {
				return nil
			}
		case limited.Err() == nil && !isTransient(err):
			return err
		}
		if limited.Err() != nil && ctx.Err() == nil {
			return failed("timeout", "Timed out after %s: %s is still %s.", w.limit, what, state)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case <-limited.Done():
		}
	}
}

func isTransient(err error) bool {
	var own failure
	var answer *client.Error
	if errors.As(err, &answer) {
		return answer.Status >= http.StatusInternalServerError || answer.Status == http.StatusTooManyRequests
	}
	return !errors.As(err, &own)
}

type progress struct {
	a    *application
	what string
	last string
	turn int
}

func (a *application) progress(what string) *progress { return &progress{a: a, what: what} }

func (p *progress) show(state string) {
	if !p.a.term.ErrLive {
		if state != p.last {
			p.a.note("%s: %s", p.what, state)
		}
		p.last = state
		return
	}
	marks := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	line := oneLine(fmt.Sprintf("%c %s: %s", marks[p.turn%len(marks)], p.what, state))
	if p.a.term.Width > 0 {
		line = render.Cut(line, p.a.term.Width-1)
	}
	_, _ = fmt.Fprintf(p.a.term.Err, "\r\x1b[K%s", line)
	p.turn++
}

func (p *progress) end() {
	if p.turn > 0 {
		_, _ = fmt.Fprint(p.a.term.Err, "\r\x1b[K")
	}
}
