package cli

import (
	"context"
	"net/url"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
)

func (a *application) appOpen() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "open APP", Short: "Open an app in a browser", SuggestFor: []string{"browse", "url"},
		Long: `Open an app's URL in the browser that BROWSER names, or else in the system's default browser.
In a script, or with --output json or yaml, only print the URL.`,
		Example: `  sluice app open hello
  curl -i "$(sluice app open hello)"`,
	}, func(ctx context.Context, w work) error {
		p, err := readApp(ctx, w)
		if err != nil {
			return err
		}
		if !a.term.Interactive || !a.format().ForPeople() {
			return a.show(map[string]string{"url": p.URL}, func(s render.Screen) error { return s.Line("%s", p.URL) })
		}
		if at, err := url.Parse(p.URL); err != nil || at.Scheme != "http" && at.Scheme != "https" {
			return failed("no_address", "A browser cannot open the app's URL.")
		}
		if err := a.env.Browse(ctx, a.env.Getenv("BROWSER"), p.URL); err != nil {
			return failed("no_browser", "No browser could be started. Open this URL: %s", p.URL)
		}
		return a.done("Opened %s.", p.URL)
	})
}

func browse(ctx context.Context, program, address string) error {
	command := []string{program}
	if program == "" {
		switch runtime.GOOS {
		case "darwin":
			command = []string{"open"}
		case "windows":
			command = []string{"rundll32", "url.dll,FileProtocolHandler"}
		default:
			command = []string{"xdg-open"}
		}
	}
	return exec.CommandContext(ctx, command[0], append(command[1:], address)...).Run() //nolint:gosec // the user's own program, and a URL with a checked scheme
}
