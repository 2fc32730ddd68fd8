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

type propagationFlags struct {
	a      *application
	noWait bool
	limit  time.Duration
}

func (a *application) propagationFlags(cmd *cobra.Command) *propagationFlags {
	e := &propagationFlags{a: a}
	cmd.Flags().BoolVar(&e.noWait, "no-wait", false, "do not wait for the checkers to apply the change")
	cmd.Flags().DurationVar(&e.limit, "wait-timeout", 10*time.Second, "maximum time to wait for the checkers, up to 30s")
	return e
}

func (e *propagationFlags) withWait(w work) work {
	if !e.noWait {
		w.Client = w.WithWait(e.limit)
	}
	return w
}

// waitForPropagation is like showResult, for a change that waits for the checkers. verb describes the
// result, e.g. "rejected by".
func waitForPropagation[T interface{ Force() *wire.InForce }](e *propagationFlags, verb string, show func(T) error, call func(ctx context.Context, w work) (T, error)) run {
	return func(ctx context.Context, w work) error {
		v, err := call(ctx, e.withWait(w))
		if err == nil {
			err = show(v)
		}
		if err != nil {
			return err
		}
		return e.a.printPropagation(verb, v.Force())
	}
}

// printPropagation reports a change that is in force. It returns an error if the change is not in
// force at every checker.
func (a *application) printPropagation(verb string, f *wire.InForce) error {
	if f == nil {
		return nil
	}
	if !f.Everywhere {
		return failed("not_in_force", "Change saved, but not yet confirmed as %s %s. To check again, run: sluice change %s", verb, strings.Join(pendingCheckers(f.Replicas), ", "), f.Change)
	}
	after, applied := int64(0), 0
	for _, r := range f.Replicas {
		if r.State == string(checkers.Applied) {
			applied++
		}
		if r.AfterMS != nil {
			after = max(after, *r.AfterMS)
		}
	}
	text := fmt.Sprintf("%s %s", capital(verb), everyChecker(applied))
	if after > 0 {
		text += fmt.Sprintf(" after %d ms", after)
	}
	if rest := len(f.Replicas) - applied; rest > 0 {
		deny := "deny"
		if rest == 1 {
			deny = "denies"
		}
		text += fmt.Sprintf("; %d more %s all requests", rest, deny)
	}
	a.note("%s.", text)
	return nil
}

func pendingCheckers(replicas []wire.ReplicaInForce) []string {
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
		Long: `Show whether a key or plan change is in force. It is in force when no checker can allow a
request that only the previous version allows. CHANGE is the ID in the output of the command
that made the change, or in the Sluice-Change response header.`,
		Example: `  sluice change 7ff9ad4c0d7a3f2fabc123def456 --project shop`,
	}
	e := a.propagationFlags(cmd)
	return a.command(inProject, cmd, func(ctx context.Context, w work) error {
		f, err := e.withWait(w).Change(ctx, w.project, w.args[0])
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
		return a.printPropagation("applied by", &f)
	})
}
