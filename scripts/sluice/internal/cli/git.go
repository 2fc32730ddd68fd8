package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) gitGroup() *cobra.Command {
	return a.group("git", "The git source that an app is built from", a.gitSet(), a.gitRemove())
}

// sourceFlags are those of a git source.
func sourceFlags(cmd *cobra.Command) *wire.GitSource {
	var s wire.GitSource
	cmd.Flags().StringVar(&s.Repository, "repository", "", "URL of the git repository")
	cmd.Flags().StringVar(&s.Branch, "branch", "main", "branch whose pushes are built")
	cmd.Flags().StringVar(&s.Path, "path", "", "folder of the repository to build; by default its root")
	return &s
}

func sourceFields(s wire.GitSource) []render.Field {
	return []render.Field{
		{Name: "Repository", Value: s.Repository},
		{Name: "Branch", Value: s.Branch},
		{Name: "Path", Value: s.Path},
	}
}

func (a *application) gitSet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set APP", Short: "Build an app from a git source", SuggestFor: []string{"add", "attach"},
		Long: `Make an app a git app, or change what it is built from. It keeps running its current
image until a build has deployed another.`,
		Example: `  sluice app git set site --repository https://git.example.com/shop/site --branch main`,
		Args:    takes("APP"),
	}
	source := sourceFlags(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if source.Repository == "" {
			return usage("a git source needs --repository")
		}
		p, err := w.SetGitSource(ctx, w.project, w.environment, args[0], *source)
		if err != nil {
			return err
		}
		return a.showApp(p)
	})
	return cmd
}

func (a *application) gitRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove APP", Short: "Detach an app's git source; it keeps its current image", SuggestFor: []string{"delete", "detach", "rm"},
		Long: `Detach an app's git source. The app keeps running its current image and becomes an image
app: its webhook takes an image from then on.`,
		Example: `  sluice app git remove site --project shop --environment prod`,
		Args:    takes("APP"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Detach the git source of "+args[0]+"?"); err != nil {
			return err
		}
		if err := w.RemoveGitSource(ctx, w.project, w.environment, args[0]); err != nil {
			return err
		}
		return a.done("The git source of %s is detached; it keeps its current image.", args[0])
	})
	return cmd
}
