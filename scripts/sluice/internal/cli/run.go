package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/shared/client"
)

// signedIn runs a command with a client that is signed in.
func (a *application) signedIn(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// work is what a command within a project or an environment works on.
type work struct {
	*client.Client

	project     string
	environment string // "" in a command of the whole project
}

// inProject runs a command in a project.
func (a *application) inProject(run func(ctx context.Context, w work, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		project, err := a.project()
		if err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), work{Client: c, project: project}, args)
	}
}

// inEnvironment runs a command in an environment.
func (a *application) inEnvironment(run func(ctx context.Context, w work, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		project, environment, err := a.place()
		if err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), work{Client: c, project: project, environment: environment}, args)
	}
}
