package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appGroup() *cobra.Command {
	return a.group("app", "Apps: deploys, gates, webhooks",
		a.appCreate(), a.appList(), a.appShow(), a.appDelete(),
		a.appUpdate(), a.appHistory(), a.appRollback(), a.appPromote(),
		a.gateGroup(), a.gitGroup(), a.webhookGroup(), a.buildGroup(),
	)
}

func (a *application) appList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List an environment's apps", SuggestFor: []string{"ls"},
		Example: `  sluice app list --project shop --environment prod`,
		Args:    takes(),
		RunE: a.inEnvironment(func(ctx context.Context, w work, _ []string) error {
			return showList(a, "apps", w.Apps(ctx, w.project, w.environment), []render.Column{
				{Name: "APP", Whole: true},
				{Name: "KIND", Extra: true},
				{Name: "REVISION", Right: true, Extra: true},
				{Name: "IMAGE", Tail: true},
				{Name: "GATE"},
				{Name: "URL", Extra: true},
			}, func(p wire.App) []render.Cell {
				cells := render.Plainly(p.Name, p.Kind, number(p.Revision), p.Image, p.Gate.State, p.URL)
				cells[4].Tone = gateTone(p.Gate.State)
				return cells
			})
		}),
	}
}

func (a *application) appShow() *cobra.Command {
	return &cobra.Command{
		Use: "show APP", Short: "Show an app", SuggestFor: []string{"get", "describe", "status"},
		Example: `  sluice app show hello`,
		Args:    takes("APP"),
		RunE: a.inEnvironment(func(ctx context.Context, w work, args []string) error {
			p, err := w.App(ctx, w.project, w.environment, args[0])
			if err != nil {
				return err
			}
			return a.showApp(p)
		}),
	}
}

func (a *application) showApp(p wire.App) error {
	return a.show(p, func(s render.Screen) error {
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
		return s.Fields(append(fields, gateFields(p)...)...)
	})
}

func (a *application) appDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete APP", Short: "Delete an app with its workload and route", SuggestFor: []string{"remove", "rm"},
		Example: `  sluice app delete hello`,
		Args:    takes("APP"),
	}
	confirm := a.confirmation(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if err := confirm.ask(ctx, "Delete app "+args[0]+" of "+w.project+"/"+w.environment+", its workload and its history?"); err != nil {
			return err
		}
		if err := w.DeleteApp(ctx, w.project, w.environment, args[0]); err != nil {
			return err
		}
		return a.done("App %s is deleted.", args[0])
	})
	return cmd
}
