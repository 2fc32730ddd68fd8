package cli

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appHistory() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "history APP", Short: "List an app's deploy history, newest first", SuggestFor: []string{"deployments", "revisions", "log"},
		Example: `  sluice app history hello --limit 10`,
		Args:    takes("APP"),
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "show only so many; 0 shows all")
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if limit < 0 {
			return usage("--limit must not be negative")
		}
		return showList(a, "deployments", first(limit, w.Deployments(ctx, w.project, w.environment, args[0])), []render.Column{
			{Name: "REVISION", Whole: true},
			{Name: "IMAGE", Tail: true},
			{Name: "COMMIT"},
			{Name: "TRIGGER"},
			{Name: "WHEN (UTC)", Whole: true},
			{Name: "STATUS", Extra: true},
			{Name: "BY", Extra: true},
			{Name: "MESSAGE", Extra: true},
		}, historyRow)
	})
	return cmd
}

func historyRow(d wire.Deployment) []render.Cell {
	revision, trigger := number(d.Revision), d.Trigger
	if d.Current {
		revision += " (current)"
	}
	if d.SourceRevision != 0 {
		trigger += " of " + number(d.SourceRevision)
	}
	cells := render.Plainly(revision, d.Image, short(d.Commit), trigger, minute(d.DeployedAt), d.Status, d.Actor, d.Message)
	cells[5].Tone = deployTone(d)
	return cells
}

// short abbreviates a commit as git does.
func short(commit string) string { return commit[:min(len(commit), 12)] }

// first is the beginning of a list; 0 is all of it.
func first[T any](limit int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	if limit == 0 {
		return list
	}
	return func(yield func(T, error) bool) {
		n := 0
		for item, err := range list {
			n++
			if !yield(item, err) || n == limit {
				return
			}
		}
	}
}
