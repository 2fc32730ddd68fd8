package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) buildGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use: "build APP", Short: "Build a git app, or show its builds", SuggestFor: []string{"rebuild", "retry"},
		Long: `Build a git app from the head of its branch, or from --commit. To retry a failed build, build
its commit again. With --wait, the command ends when the build ends. It fails with the reason
if the build deploys nothing.`,
		Example: `  sluice app build site --wait
  sluice app build site --commit 9fceb02d0ae598e95dc970b74767f19372d61af8`,
	}
	commit := cmd.Flags().String("commit", "", "commit hash, or its first digits (default the branch's head)")
	waits := a.waitFlags(cmd)
	cmd.AddCommand(a.buildList(), a.buildShow())
	return a.command(inEnvironment, cmd, showResult(a.showBuild, func(ctx context.Context, w work) (wire.Build, error) {
		w, _, err := w.once(ctx)
		if err != nil {
			return wire.Build{}, err
		}
		b, err := w.RequestBuild(ctx, w.project, w.environment, w.args[0], *commit)
		if err != nil || !waits.wait {
			return b, err
		}
		return a.waitBuilt(ctx, w, w.args[0], waits, b)
	}))
}

// waitBuilt waits until a build ends. It returns an error with the reason if the build deploys
// nothing.
func (a *application) waitBuilt(ctx context.Context, w work, app string, waits *waitFlags, b wire.Build) (wire.Build, error) {
	err := waits.until(ctx, "build "+number(b.Build)+" of "+app, func(ctx context.Context, first bool) (string, bool, error) {
		if !first {
			now, err := w.Build(ctx, w.project, w.environment, app, b.Build)
			if err != nil {
				return "", false, err
			}
			b = now
		}
		switch b.Status {
		case "failed":
			return "", false, failed("build_failed", "Build %d of %s failed: %s", b.Build, app, b.Message)
		case "superseded":
			return "", false, failed("superseded", "Build %d of %s was not deployed: %s", b.Build, app, b.Message)
		}
		return b.Status, b.Status == "succeeded", nil
	})
	return b, err
}

func (a *application) buildList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list APP", Short: "List a git app's builds, newest first", SuggestFor: []string{"ls"},
		Example: `  sluice app build list site`,
	}
	limit := limited(cmd, 0)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		return showFirst(a, *limit, "builds", w.Builds(ctx, w.project, w.environment, w.args[0]), []render.Column{
			{Name: "BUILD", Whole: true},
			{Name: "COMMIT"},
			{Name: "STATUS"},
			{Name: "REQUESTED (UTC)", Whole: true},
			{Name: "REVISION", Right: true},
			{Name: "IMAGE", Rank: 2, Tail: true},
			{Name: "MESSAGE", Rank: 1},
		}, func(b wire.Build) []render.Cell {
			cells := render.Plainly(number(b.Build), short(string(b.Commit)), b.Status, minute(b.RequestedAt), revisionNumber(int64(b.Revision)), string(b.Image), string(b.Message))
			cells[2].Tone = buildTone(b.Status)
			return cells
		})
	})
}

func (a *application) buildShow() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "show APP BUILD", Short: "Show a build", SuggestFor: []string{"get", "describe", "status"},
		Example: `  sluice app build show site 7`,
	}, showResult(a.showBuild, func(ctx context.Context, w work) (wire.Build, error) {
		n, err := strconv.ParseInt(w.args[1], 10, 64)
		if err != nil || n < 1 {
			return wire.Build{}, usage("BUILD must be a build number, not %q", w.args[1])
		}
		return w.Build(ctx, w.project, w.environment, w.args[0], n)
	}))
}

func (a *application) showBuild(b wire.Build) error {
	fields := []render.Field{
		{Name: "Build", Value: number(b.Build)},
		{Name: "Status", Value: b.Status, Tone: buildTone(b.Status)},
		{Name: "Message", Value: string(b.Message)},
		{Name: "Commit", Value: string(b.Commit)},
	}
	return a.showFields(b, append(append(fields, sourceFields(b.GitSource)...),
		render.Field{Name: "Image", Value: string(b.Image)},
		render.Field{Name: "Revision", Value: revisionNumber(int64(b.Revision))},
		render.Field{Name: "Requested", Value: stamp(b.RequestedAt) + " by " + b.Actor},
		render.Field{Name: "Finished", Value: stampOf(b.FinishedAt)},
	))
}

func revisionNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

func buildTone(status string) render.Tone {
	switch status {
	case "succeeded":
		return render.Good
	case "failed":
		return render.Bad
	case "queued", "running":
		return render.Watch
	}
	return render.Faint
}
