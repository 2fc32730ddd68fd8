package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) gateGroup() *cobra.Command {
	return a.group("gate", "The gate in front of an app: Require API key",
		a.gateSwitch("on", true, "engaged", "Require an API key for an app", `Require an API key for an app. The gate is in place once its state is engaged, usually
within a minute; --wait waits for that and fails with the reason if it does not come.`),
		a.gateSwitch("off", false, "ungated", "Let requests to an app in without a key", `Let requests to an app in without a key. The gate is gone once its state is ungated;
--wait waits for that.`),
		a.gateStatus())
}

func (a *application) gateSwitch(word string, on bool, target, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: word + " APP", Short: short, Long: long,
		Example: `  sluice app gate ` + word + ` hello --wait`,
		Args:    takes("APP"),
	}
	waits := a.waiting(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		p, err := w.RequireAPIKey(ctx, w.project, w.environment, args[0], on)
		if err != nil {
			return err
		}
		if waits.wait {
			if p, err = a.waitGate(ctx, w, waits, p, target); err != nil {
				return err
			}
		}
		return a.showGate(p)
	})
	return cmd
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
	return &cobra.Command{
		Use: "status APP", Short: "Show the state of an app's gate", SuggestFor: []string{"show", "get"},
		Example: `  sluice app gate status hello`,
		Args:    takes("APP"),
		RunE: a.inEnvironment(func(ctx context.Context, w work, args []string) error {
			p, err := w.App(ctx, w.project, w.environment, args[0])
			if err != nil {
				return err
			}
			return a.showGate(p)
		}),
	}
}

func (a *application) showGate(p wire.App) error {
	return a.show(p, func(s render.Screen) error {
		return s.Fields(append([]render.Field{{Name: "App", Value: p.Name}}, gateFields(p)...)...)
	})
}

func gateFields(p wire.App) []render.Field {
	fields := []render.Field{
		{Name: "Require API key", Value: yesNo(p.RequireAPIKey)},
		{Name: "Gate", Value: gateText(p.Gate), Tone: gateTone(p.Gate.State)},
	}
	if !p.Gate.Since.IsZero() {
		fields = append(fields, render.Field{Name: "Since", Value: stamp(p.Gate.Since)})
	}
	return fields
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
