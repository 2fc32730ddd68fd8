package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/wire"
)

// effect is the --no-wait of a command whose change the checkers are to follow.
type effect struct {
	a     *application
	not   bool
	limit time.Duration
}

func (a *application) effect(cmd *cobra.Command) *effect {
	e := &effect{a: a}
	cmd.Flags().BoolVar(&e.not, "no-wait", false, "return when the change is saved, before the checkers apply it")
	cmd.Flags().DurationVar(&e.limit, "wait-timeout", 10*time.Second, "maximum time to wait for the checkers, up to 30s")
	return e
}

// waiting gives w with changes that wait.
func (e *effect) waiting(w work) work {
	if !e.not {
		w.Client = w.Waiting(e.limit)
	}
	return w
}

// effective is [then] for such a command; the checkers have done what does says, e.g.
// "refused by".
func effective[T interface{ Force() *wire.InForce }](e *effect, does string, show func(T) error, call func(ctx context.Context, w work) (T, error)) run {
	return func(ctx context.Context, w work) error {
		v, err := call(ctx, e.waiting(w))
		if err == nil {
			err = show(v)
		}
		if err != nil {
			return err
		}
		return e.a.tell(does, v.Force())
	}
}

// tell says whether a change is in force; nil was not asked for. One that is not is a
// failure: it was made, but not all follow it.
func (a *application) tell(does string, f *wire.InForce) error {
	if f == nil {
		return nil
	}
	if !f.Everywhere {
		return failed("not_in_force", "Change saved, but not yet confirmed as %s %s. To check again, run: sluice change %s", does, strings.Join(silent(f.Replicas), ", "), f.Change)
	}
	after, followed := int64(0), 0
	for _, r := range f.Replicas {
		if r.State == string(checkers.Applied) {
			followed++
		}
		if r.AfterMS != nil {
			after = max(after, *r.AfterMS)
		}
	}
	text := fmt.Sprintf("%s %s", capital(does), everyChecker(followed))
	if after > 0 {
		text += fmt.Sprintf(" after %d ms", after)
	}
	if rest := len(f.Replicas) - followed; rest > 0 {
		verb := "deny"
		if rest == 1 {
			verb = "denies"
		}
		text += fmt.Sprintf("; %d more %s all requests", rest, verb)
	}
	a.note("%s.", text)
	return nil
}

// silent says of each checker that does not say what it does until when that matters.
func silent(replicas []wire.ReplicaInForce) []string {
	var all []string
	for _, r := range replicas {
		if r.DeniesFrom != nil {
			all = append(all, fmt.Sprintf("%s (denies all requests from %s unless it applies the change)", r.Replica, stamp(*r.DeniesFrom)))
		}
	}
	if len(all) == 0 {
		return []string{"the checkers (the list of checkers is unavailable)"}
	}
	return all
}

func everyChecker(n int) string {
	switch n {
	case 0:
		return "every checker (none is running)"
	case 1:
		return "the only checker"
	case 2:
		return "both checkers"
	}
	return fmt.Sprintf("all %d checkers", n)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (a *application) changeShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "change CHANGE", Short: "Show whether a key or plan change is in force",
		Long: `Show whether a key or plan change is in force: no checker can allow a request by the previous
version. CHANGE is the ID in the output of the command that made the change, or in the
Sluice-Change response header.`,
		Example: `  sluice change 7ff9ad4c0d7a3f2fabc123def456 --project shop`,
	}
	e := a.effect(cmd)
	return a.command(inProject, cmd, func(ctx context.Context, w work) error {
		f, err := e.waiting(w).Change(ctx, w.project, w.args[0])
		if err != nil {
			return err
		}
		err = a.show(f, func(s render.Screen) error {
			rows := make([][]render.Cell, 0, len(f.Replicas))
			for _, r := range f.Replicas {
				rows = append(rows, render.Plainly(r.Replica, r.State, stampOf(r.DeniesFrom)))
			}
			return s.Table([]render.Column{{Name: "CHECKER", Whole: true}, {Name: "STATE"}, {Name: "DENIES FROM"}}, rows)
		})
		if err != nil {
			return err
		}
		return a.tell("applied by", &f)
	})
}
