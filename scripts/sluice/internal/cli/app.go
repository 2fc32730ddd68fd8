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
	return a.group("app", "Apps: deploys, gates, webhooks",
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

// readApp reads the app that a command names.
func readApp(ctx context.Context, w work) (wire.App, error) {
	return w.App(ctx, w.project, w.environment, w.args[0])
}

func (a *application) appShow() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "show APP", Short: "Show an app", SuggestFor: []string{"get", "describe", "status"},
		Example: `  sluice app show hello`,
	}, then(a.showApp, readApp))
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

// ifSet returns the value of a flag that is set, and nil otherwise.
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
		Long: `Create an app from an image, or from a git source. A git source is built from the head of
its branch. If the cluster has a workload of that name, the app adopts it only if an
administrator of the cluster annotated it with sluice.dev/adopt: "true".

With --wait, the command ends when the first revision is live. It fails with the reason if
the revision fails; the app exists then. --wait-timeout applies to the build and to the
deployment separately.`,
		Example: `  sluice app create hello --image registry.example.com/hello:v1 --wait
  sluice app create site --repository https://git.example.com/shop/site --branch main`,
	}
	f := cmd.Flags()
	f.StringVar(&image, "image", "", "full image reference, with a tag or a digest")
	f.StringVar(&host, "host", "", "host of the app's URL; by default made from its name")
	f.IntVar(&port, "port", 0, "port that the app listens on")
	f.StringVar(&preflight, "preflight", string(app.PreflightApp), "handling of CORS preflights without a key: "+oneOf(app.Preflights()))
	a.fixed(cmd, "preflight", words(app.Preflights())...)
	source := sourceFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("image", "repository")
	waits := a.waiting(cmd)
	return a.command(inEnvironment, cmd, then(a.showApp, func(ctx context.Context, w work) (wire.App, error) {
		create := wire.CreateApp{
			Name: &w.args[0], Image: ifSet(f, "image", &image), GitSource: ifSet(f, "repository", source),
			Host: ifSet(f, "host", &host), Port: ifSet(f, "port", &port), Preflight: ifSet(f, "preflight", &preflight),
		}
		if create.Image == nil && create.GitSource == nil {
			return wire.App{}, usage("an app needs --image or --repository")
		}
		p, err := w.CreateApp(ctx, w.project, w.environment, create)
		if err != nil || !waits.wait {
			return p, err
		}
		return a.waitFirst(ctx, w, waits, p)
	}))
}

// waitFirst waits until the first revision of a new app is live: the one that it was
// made with, or the one that its first build deploys.
func (a *application) waitFirst(ctx context.Context, w work, waits *waiting, p wire.App) (wire.App, error) {
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
		Long: `Delete an app with its workload, route and history. The app leaves the scopes of API keys,
and the command lists these keys. A key whose scope named only this app then covers no app.
The app's host is reserved for the project for 30 days; an admin can release it earlier.`,
		Example: `  sluice app delete hello`,
	}
	confirm := a.confirmation(cmd, names)
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

// showDeleted shows that an app is deleted, and the keys whose scopes named it.
func showDeleted(s render.Screen, name string, d wire.DeletedApp) error {
	if err := s.Line("App %s is deleted.", name); err != nil {
		return err
	}
	if !d.HostReservedUntil.IsZero() { // an earlier server reserves none
		if err := s.Line("Its host, %s, is reserved for the project until %s.", d.Host, stamp(d.HostReservedUntil)); err != nil {
			return err
		}
	}
	if d.KeyCount == 0 {
		return nil
	}
	if err := s.Line("API keys whose scopes named it: %d. The apps that these keys cover now:", d.KeyCount); err != nil {
		return err
	}
	for _, k := range d.Keys {
		if err := s.Line("%s %s: %s", k.KeyID, k.Name, scopeText(k.Apps, k.Scope)); err != nil {
			return err
		}
	}
	if more := d.KeyCount - len(d.Keys); more > 0 {
		return s.Line("Keys that are not listed: %d. The audit log lists them.", more)
	}
	return nil
}

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
	}
	source := sourceFlags(cmd)
	return a.command(inEnvironment, cmd, then(a.showApp, func(ctx context.Context, w work) (wire.App, error) {
		if source.Repository == "" {
			return wire.App{}, usage("a git source needs --repository")
		}
		return w.SetGitSource(ctx, w.project, w.environment, w.args[0], *source)
	}))
}

func (a *application) gitRemove() *cobra.Command {
	return a.removal(inEnvironment, asks, &cobra.Command{
		Use: "remove APP", Short: "Detach an app's git source; it keeps its current image", SuggestFor: []string{"delete", "detach", "rm"},
		Long: `Detach an app's git source. The app keeps running its current image and becomes an image
app: its webhook takes an image from then on.`,
		Example: `  sluice app git remove site --project shop --environment prod`,
	}, func(w work) removal {
		return removal{
			question: "Detach the git source of " + w.args[0] + "?",
			do:       func(ctx context.Context) error { return w.RemoveGitSource(ctx, w.project, w.environment, w.args[0]) },
			done:     "The git source of " + w.args[0] + " is detached; it keeps its current image.",
		}
	})
}

func (a *application) gateGroup() *cobra.Command {
	return a.group("gate", "The gate in front of an app: Require API key",
		a.gateSwitch("on", true, "engaged", "Require an API key for an app", `Require an API key for an app. The gate is in place once its state is engaged, usually
within a minute; --wait waits for that and fails with the reason if it does not come.`),
		a.gateSwitch("off", false, "ungated", "Let requests to an app in without a key", `Let requests to an app in without a key. The gate is gone once its state is ungated;
--wait waits for that. On a terminal it asks first.`),
		a.gatePreflight(), a.gateStatus())
}

func (a *application) gateSwitch(word string, on bool, target, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: word + " APP", Short: short, Long: long,
		Example: `  sluice app gate ` + word + ` hello --wait`,
	}
	var confirm *confirmation
	if !on {
		confirm = a.confirmation(cmd, asks)
	}
	waits := a.waiting(cmd)
	return a.command(inEnvironment, cmd, then(a.showGate, func(ctx context.Context, w work) (wire.App, error) {
		if !on {
			if err := confirm.ask(ctx, "Open "+w.args[0]+" of "+w.place()+" to everyone, without an API key?", w.args[0]); err != nil {
				return wire.App{}, err
			}
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
		Use: "preflight APP HANDLING", Short: "Set who answers CORS preflights without a key",
		Long: `Set how the gate handles a CORS preflight without a key. HANDLING is app or refuse:
app, the default, passes it to the app, without cookies, credentials and a body; refuse denies
it with 401. Browsers send no key with a preflight, so refuse keeps pages of other origins
from calling the app. --wait waits until the gate is engaged again.`,
		Example: `  sluice app gate preflight hello refuse --wait`,
	}
	waits := a.waiting(cmd)
	return a.command(inEnvironment, cmd, then(a.showGate, func(ctx context.Context, w work) (wire.App, error) {
		handling := app.Preflight(w.args[1])
		if app.CheckPreflight(handling) != nil {
			return wire.App{}, usage("HANDLING is %s, not %q", oneOf(app.Preflights()), handling)
		}
		return a.rewire(ctx, w, waits, wire.UpdateApp{Preflight: (*string)(&handling)})
	}))
}

// rewire changes settings of an app that its gate has to be proven with. With --wait it waits
// for that.
func (a *application) rewire(ctx context.Context, w work, waits *waiting, update wire.UpdateApp) (wire.App, error) {
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

// waitGate waits until the gate is in a state.
func (a *application) waitGate(ctx context.Context, w work, waits *waiting, p wire.App, target string) (wire.App, error) {
	err := waits.until(ctx, "the gate of "+p.Name, func(ctx context.Context, first bool) (string, bool, error) {
		if !first {
			now, err := w.App(ctx, w.project, w.environment, p.Name)
			if err != nil {
				return "", false, err
			}
			p = now
			if p.RequireAPIKey != (target == "engaged") {
				return "", false, failed("superseded", "The gate of %s was switched by someone else meanwhile.", p.Name)
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
	}, then(a.showGate, readApp))
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

// preflightText returns the handling of preflights for people.
func preflightText(handling string) string {
	switch app.Preflight(handling) {
	case app.PreflightApp:
		return "answered by the app"
	case app.PreflightRefuse:
		return "refused without a key"
	}
	return handling // of a newer server
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
