package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appCreate() *cobra.Command {
	var image, host string
	var port int
	cmd := &cobra.Command{
		Use: "create APP", Short: "Create an app from an image or a git source", SuggestFor: []string{"add", "new"},
		Long: `Create an app from an image, or from a git source, whose branch's head is built at once. A
workload of that name that is there already is adopted.`,
		Example: `  sluice app create hello --image registry.example.com/hello:v1
  sluice app create site --repository https://git.example.com/shop/site --branch main`,
		Args: takes("APP"),
	}
	f := cmd.Flags()
	f.StringVar(&image, "image", "", "full image reference, with a tag or a digest")
	f.StringVar(&host, "host", "", "host of the app's URL; by default made from its name")
	f.IntVar(&port, "port", 0, "port that the app listens on")
	source := sourceFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("image", "repository")
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		create := wire.CreateApp{Name: &args[0]}
		switch {
		case f.Changed("image"):
			create.Image = &image
		case f.Changed("repository"):
			create.GitSource = source
		default:
			return usage("an app needs --image or --repository")
		}
		if f.Changed("host") {
			create.Host = &host
		}
		if f.Changed("port") {
			create.Port = &port
		}
		p, err := w.CreateApp(ctx, w.project, w.environment, create)
		if err != nil {
			return err
		}
		return a.showApp(p)
	})
	return cmd
}
