package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
)

func (a *application) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show which sluice this is",
		Example: `  sluice version`,
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			b := a.env.Build
			return a.show(b, func(s render.Screen) error {
				return s.Fields(
					render.Field{Name: "Version", Value: b.Version},
					render.Field{Name: "Commit", Value: b.Commit},
					render.Field{Name: "Go", Value: b.Go},
				)
			})
		},
	}
}

func (a *application) completion() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a completion script for bash, zsh, fish or powershell",
		Long: `Print a script that lets a shell complete commands and flags. SHELL is bash, zsh, fish or
powershell. Load it in the shell's start-up file.`,
		Example: `  source <(sluice completion bash)
  sluice completion zsh > "${fpath[1]}/_sluice"
  sluice completion fish > ~/.config/fish/completions/sluice.fish`,
		Args:      takes("SHELL"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), a.term.Out
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usage("SHELL is bash, zsh, fish or powershell, not %q", args[0])
		},
	}
}
