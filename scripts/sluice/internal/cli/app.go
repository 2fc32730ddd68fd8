package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appGroup() *cobra.Command {
	return a.group("app", "Manage apps, deployments, gates and webhooks",
		a.appCreate(), a.appList(), a.appShow(), a.appOpen(), a.appDelete(),
		a.appUpdate(), a.appHistory(), a.appRollback(), a.appPromote(),
		a.gateGroup(), a.gitGroup(), a.webhookGroup(), a.buildGroup(),
	)
}

func (a *application) appList() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "list", Short: "List an environment's apps", SuggestFor: []string{"ls"},
		Example: `  sluice app list --project shop --environment prod`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "apps", w.Apps(ctx, w.project, w.environment), []render.Column{
			{Name: "APP", Whole: true},
			{Name: "KIND", Rank: 3},
			{Name: "REVISION", Right: true, Rank: 1},
			{Name: "IMAGE", Tail: true},
			{Name: "GATE"},
			{Name: "URL", Whole: true, Rank: 2},
		}, func(p wire.App) []render.Cell {
			cells := render.Plainly(p.Name, p.Kind, number(p.Revision), p.Image, p.Gate.State, p.URL)
			cells[4].Tone = gateTone(p.Gate.State)
			return cells
		})
	})
}

func readApp(ctx context.Context, w work) (wire.App, error) {
	return w.App(ctx, w.project, w.environment, w.args[0])
}

func (a *application) appShow() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "show APP", Short: "Show an app", SuggestFor: []string{"get", "describe", "status"},
		Example: `  sluice app show hello`,
	}, showResult(a.showApp, readApp))
}

func (a *application) showApp(p wire.App) error {
	fields := []render.Field{
		{Name: "App", Value: p.Name},
		{Name: "Environment", Value: p.Project + "/" + p.Environment},
		{Name: "URL", Value: p.URL},
		{Name: "Kind", Value: p.Kind},
		{Name: "Image", Value: p.Image},
		{Name: "Revision", Value: number(p.Revision)},
		{Name: "Port", Value: number(int64(p.Port))},
	}
	if p.GitSource != nil {
		fields = append(fields, sourceFields(*p.GitSource)...)
	}
	return a.showFields(p, append(fields, gateFields(p)...))
}

func ifSet[T any](f *pflag.FlagSet, name string, value *T) *T {
	if !f.Changed(name) {
		return nil
	}
	return value
}

func (a *application) appCreate() *cobra.Command {
	var image, host, preflight string
	var port int
	cmd := &cobra.Command{
		Use: "create APP", Short: "Create an app from an image or a git source", SuggestFor: []string{"add", "new"},
		Long: `Create an app from an image or a git source. A git source is built from the head of its branch.
If the namespace already has a workload of that name, the app adopts it only if a cluster
administrator has annotated it with sluice.dev/adopt: "true".

With --wait, the command ends when the first revision is live. If the revision fails, the
command fails with the reason, and the app still exists. --wait-timeout applies separately to
the build and to the deployment.`,
		Example: `  sluice app create hello --image registry.example.com/hello:v1 --wait
  sluice app create site --repository https://git.example.com/shop/site --branch main`,
	}
	f := cmd.Flags()
	f.StringVar(&image, "image", "", "full image reference, with a tag or a digest")
	f.StringVar(&host, "host", "", "host of the app's URL, e.g. shop.example.com (default derived from its name)")
	f.IntVar(&port, "port", 0, "port that the app listens on (default 8080)")
	f.StringVar(&preflight, "preflight", string(app.PreflightApp), "handling of CORS preflights without a key: "+oneOf(app.Preflights()))
	a.fixed(cmd, "preflight", words(app.Preflights())...)
	source := sourceFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("image", "repository")
	waits := a.waitFlags(cmd)
	return a.command(inEnvironment, cmd, showResult(a.showApp, func(ctx context.Context, w work) (wire.App, error) {
		create := wire.CreateApp{
			Name: &w.args[0], Image: ifSet(f, "image", &image), GitSource: ifSet(f, "repository", source),
			Host: ifSet(f, "host", &host), Port: ifSet(f, "port", &port), Preflight: ifSet(f, "preflight", &preflight),
		}
		if create.Image == nil && create.GitSource == nil {
			return wire.App{}, usage("--image or --repository is required")
		}
		p, err := w.CreateApp(ctx, w.project, w.environment, create)
		if err != nil || !waits.wait {
			return p, err
		}
		return a.waitFirst(ctx, w, waits, p)
	}))
}

// waitFirst waits until the first revision of a new app is live. For a git app, its first build
// deploys that revision.
func (a *application) waitFirst(ctx context.Context, w work, waits *waitFlags, p wire.App) (wire.App, error) {
	revision := p.Revision
	if revision == 0 {
		var b wire.Build
		for newest, err := range w.Builds(ctx, w.project, w.environment, p.Name) {
			if err != nil {
				return p, err
			}
			b = newest
			break
		}
		b, err := a.waitBuilt(ctx, w, p.Name, waits, b)
		if err != nil {
			return p, err
		}
		revision = int64(b.Revision)
	}
	if _, err := a.waitLive(ctx, w, p.Name, waits, wire.Deployment{Revision: revision, Status: "rolling_out"}); err != nil {
		return p, err
	}
	return readApp(ctx, w)
}

func (a *application) appDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete APP", Short: "Delete an app with its workload and route", SuggestFor: []string{"remove", "rm"},
		Long: `Delete an app with its workload, route and history. The app is removed from the scopes of API
keys, and the command lists those keys. A key that was valid only for this app is then valid
for no app. The app's host is reserved for the project for 30 days; an admin can release it
earlier.`,
		Example: `  sluice app delete hello`,
	}
	confirm := a.confirmation(cmd, requireName)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		if err := confirm.ask(ctx, "Delete app "+w.args[0]+" of "+w.place()+", its workload and its history? Its host stays reserved for the project for 30 days.", w.args[0]); err != nil {
			return err
		}
		deleted, err := w.DeleteApp(ctx, w.project, w.environment, w.args[0])
		if err != nil {
			return err
		}
		return a.show(deleted, func(s render.Screen) error { return showDeleted(s, w.args[0], deleted) })
	})
}

func showDeleted(s render.Screen, name string, d wire.DeletedApp) error {
	if err := s.Line("App %s deleted.", name); err != nil {
		return err
	}
	if !d.HostReservedUntil.IsZero() { // earlier servers do not reserve hosts
		if err := s.Line("Its host, %s, is reserved for the project until %s.", d.Host, stamp(d.HostReservedUntil)); err != nil {
			return err
		}
	}
	if d.KeyCount == 0 {
		return nil
	}
	if err := s.Line("API keys that had the app in their scope: %d. Their apps are now:", d.KeyCount); err != nil {
		return err
	}
	for _, k := range d.Keys {
		if err := s.Line("%s %s: %s", k.KeyID, k.Name, scopeText(k.Apps, k.Scope)); err != nil {
			return err
		}
	}
	if more := d.KeyCount - len(d.Keys); more > 0 {
		return s.Line("Keys not listed here: %d. The audit log lists them.", more)
	}
	return nil
}

func (a *application) gitGroup() *cobra.Command {
	return a.group("git", "Manage the git source of an app", a.gitSet(), a.gitRemove())
}

func sourceFlags(cmd *cobra.Command) *wire.GitSource {
	var s wire.GitSource
	cmd.Flags().StringVar(&s.Repository, "repository", "", "URL of the git repository")
	cmd.Flags().StringVar(&s.Branch, "branch", "main", "branch whose pushes are built")
	cmd.Flags().StringVar(&s.Path, "path", "", "folder of the repository to build (default the root)")
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
		Long: `Build an app from a git source, or change its git source. The app runs its current image until
a build deploys a new one.`,
		Example: `  sluice app git set site --repository https://git.example.com/shop/site --branch main`,
	}
	source := sourceFlags(cmd)
	return a.command(inEnvironment, cmd, showResult(a.showApp, func(ctx context.Context, w work) (wire.App, error) {
		if source.Repository == "" {
			return wire.App{}, usage("--repository is required")
		}
		return w.SetGitSource(ctx, w.project, w.environment, w.args[0], *source)
	}))
}

func (a *application) gitRemove() *cobra.Command {
	return a.removal(inEnvironment, promptOnly, &cobra.Command{
		Use: "remove APP", Short: "Remove an app's git source", SuggestFor: []string{"delete", "detach", "rm"},
		Long: `Remove an app's git source. The app becomes an image app and keeps running its current image.
Calls to its webhook must then contain an image reference.`,
		Example: `  sluice app git remove site --project shop --environment prod`,
	}, func(w work) removal {
		return removal{
			question: "Remove the git source of " + w.args[0] + "?",
			do:       func(ctx context.Context) error { return w.RemoveGitSource(ctx, w.project, w.environment, w.args[0]) },
			done:     "Git source of " + w.args[0] + " removed. The app keeps running its current image.",
		}
	})
}

func (a *application) gateGroup() *cobra.Command {
	return a.group("gate", "Turn Require API key on or off",
		a.gateSwitch("on", true, "engaged", "Require an API key for an app", `Require an API key for an app. The gate takes effect when its state is engaged, usually within
a minute. --wait waits for that state and, on a timeout, fails with the reason.

On a terminal, the command shows how many keys can access the app, and asks for confirmation.`),
		a.gateSwitch("off", false, "ungated", "Allow requests to an app without an API key", `Allow requests to an app without an API key. The gate is removed when its state is ungated;
--wait waits for that state. The command asks for confirmation; scripts need --yes.`),
		a.gatePreflight(), a.gateStatus())
}

func (a *application) gateSwitch(word string, on bool, target, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: word + " APP", Short: short, Long: long,
		Example: `  sluice app gate ` + word + ` hello --wait`,
	}
	g := promptOnly
	if !on {
		g = requireYes
		cmd.Example += " --yes"
	}
	confirm := a.confirmation(cmd, g)
	waits := a.waitFlags(cmd)
	return a.command(inEnvironment, cmd, showResult(a.showGate, func(ctx context.Context, w work) (wire.App, error) {
		if err := a.confirmGate(ctx, w, confirm, on); err != nil {
			return wire.App{}, err
		}
		p, err := w.RequireAPIKey(ctx, w.project, w.environment, w.args[0], on)
		if err != nil || !waits.wait {
			return p, err
		}
		return a.waitGate(ctx, w, waits, p, target)
	}))
}

func (a *application) gatePreflight() *cobra.Command {
	cmd := &cobra.Command{
		Use: "preflight APP HANDLING", Short: "Set the handling of CORS preflights",
		Long: `Set how the gate handles a CORS preflight without a key. HANDLING is "app" or "refuse".

"app", the default, passes the preflight to the app, without cookies, credentials or a body.
"refuse" denies the preflight with 401. Browsers send no key with a preflight, so "refuse"
prevents pages of other origins from calling the app.

--wait waits until the gate is engaged again.`,
		Example: `  sluice app gate preflight hello refuse --wait`,
	}
	waits := a.waitFlags(cmd)
	return a.command(inEnvironment, cmd, showResult(a.showGate, func(ctx context.Context, w work) (wire.App, error) {
		handling := app.Preflight(w.args[1])
		if app.CheckPreflight(handling) != nil {
			return wire.App{}, usage("HANDLING must be %s, not %q", oneOf(app.Preflights()), handling)
		}
		return a.rewire(ctx, w, waits, wire.UpdateApp{Preflight: (*string)(&handling)})
	}))
}

// rewire changes settings after which the gate must be proven again. With --wait, it waits for the
// proof.
func (a *application) rewire(ctx context.Context, w work, waits *waitFlags, update wire.UpdateApp) (wire.App, error) {
	p, err := w.UpdateApp(ctx, w.project, w.environment, w.args[0], update)
	if err != nil || !waits.wait {
		return p, err
	}
	target := app.Ungated
	if p.RequireAPIKey {
		target = app.Engaged
	}
	return a.waitGate(ctx, w, waits, p, string(target))
}

func (a *application) waitGate(ctx context.Context, w work, waits *waitFlags, p wire.App, target string) (wire.App, error) {
	err := waits.until(ctx, "the gate of "+p.Name, func(ctx context.Context, first bool) (string, bool, error) {
		if !first {
			now, err := w.App(ctx, w.project, w.environment, p.Name)
			if err != nil {
				return "", false, err
			}
			p = now
			if p.RequireAPIKey != (target == "engaged") {
				return "", false, failed("superseded", "Another user switched the gate of %s in the meantime.", p.Name)
			}
		}
		return gateText(p.Gate), p.Gate.State == target, nil
	})
	return p, err
}

func (a *application) gateStatus() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "status APP", Short: "Show the state of an app's gate", SuggestFor: []string{"show", "get"},
		Example: `  sluice app gate status hello`,
	}, showResult(a.showGate, readApp))
}

func (a *application) showGate(p wire.App) error {
	return a.showFields(p, append([]render.Field{{Name: "App", Value: p.Name}}, gateFields(p)...))
}

func gateFields(p wire.App) []render.Field {
	fields := []render.Field{
		{Name: "Require API key", Value: yesNo(p.RequireAPIKey)},
		{Name: "Preflights", Value: preflightText(p.Preflight)},
		{Name: "Gate", Value: gateText(p.Gate), Tone: gateTone(p.Gate.State)},
	}
	if !p.Gate.Since.IsZero() {
		fields = append(fields, render.Field{Name: "Since", Value: stamp(p.Gate.Since)})
	}
	return fields
}

func preflightText(handling string) string {
	switch app.Preflight(handling) {
	case app.PreflightApp:
		return "handled by the app"
	case app.PreflightRefuse:
		return "denied without a key"
	}
	return handling // unknown value of a newer server
}

func gateText(g wire.Gate) string {
	if g.Message == "" {
		return g.State
	}
	return fmt.Sprintf("%s: %s", g.State, g.Message)
}

func gateTone(state string) render.Tone {
	switch state {
	case "engaged":
		return render.Good
	case "pending", "releasing":
		return render.Watch
	}
	return render.Plain
}
