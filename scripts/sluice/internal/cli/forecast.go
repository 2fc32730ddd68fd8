package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// notedKeys is the number of exceeding keys to show before a confirmation.
const notedKeys = 10

func (a *application) planForecast() *cobra.Command {
	cmd := &cobra.Command{
		Use: "forecast PLAN", Short: "Show the keys that used more than a new quota", SuggestFor: []string{"preview"},
		Long: `Compare the stored usage of a plan's active keys with a new quota, and change nothing. The
comparison uses the allowed requests of the UTC days, weeks or months in the last 92 days. A
key is listed with its busiest period. Limits without a flag are those of the plan.

The effect of --rate and --burst is unknown, because usage is stored per day.`,
		Example: `  sluice plan forecast plan-starter --quota 50000 --quota-period month`,
	}
	l, changed := a.limits(cmd), cmd.Flags().Changed
	return a.command(inEnvironment, cmd, showResult(a.showForecast, func(ctx context.Context, w work) (wire.PlanForecast, error) {
		return w.ForecastPlan(ctx, w.project, w.environment, w.args[0], l.change(changed))
	}))
}

func (a *application) showForecast(f wire.PlanForecast) error {
	return a.show(f, func(s render.Screen) error {
		for _, line := range f.Lines() {
			if err := s.Line("%s", line); err != nil {
				return err
			}
		}
		return showExceeding(s, f, len(f.WouldExceed))
	})
}

func showExceeding(s render.Screen, f wire.PlanForecast, most int) error {
	if f.Exceeding == 0 {
		return nil
	}
	var rows [][]render.Cell
	for _, k := range f.WouldExceed[:min(len(f.WouldExceed), most)] {
		rows = append(rows, render.Plainly(k.KeyID, k.Name, k.PeriodStart, count(k.Used), number(k.Quota), number(int64(k.Periods))))
	}
	err := s.Table([]render.Column{
		{Name: "KEY", Whole: true},
		{Name: "NAME"},
		{Name: "PERIOD", Whole: true},
		{Name: "USED", Right: true, Whole: true},
		{Name: "QUOTA", Right: true, Whole: true},
		{Name: "PERIODS OVER", Right: true, Rank: 1},
	}, rows)
	if rest := f.Exceeding - len(rows); err == nil && rest > 0 {
		return s.Line("%d more.", rest)
	}
	return err
}

// confirmQuota shows the forecast of a new quota, and asks for confirmation if keys used more than
// the quota.
func (a *application) confirmQuota(ctx context.Context, w work, confirm *confirmation, u wire.UpdatePlan) error {
	if !confirm.required() || u.Quota.Value == nil && u.QuotaPeriod.Value == nil {
		return nil
	}
	f, err := w.ForecastPlan(ctx, w.project, w.environment, w.args[0], u)
	if err != nil {
		err = a.noteNoForecast(ctx, err)
	} else {
		a.noteLines(f.Lines())
		if f.Exceeding == 0 {
			return nil
		}
		err = showExceeding(render.Screen{Out: a.term.Err, Width: a.term.Width}, f, notedKeys)
	}
	if err != nil {
		return err
	}
	return confirm.ask(ctx, "Update "+w.args[0]+" of "+w.place()+"?", w.args[0])
}

// confirmGate asks before a gate is turned on or off. It first shows the keys that can access an app
// with a gate.
func (a *application) confirmGate(ctx context.Context, w work, confirm *confirmation, on bool) error {
	question := "Allow requests to " + w.args[0] + " of " + w.place() + " without an API key?"
	if on {
		question = "Require an API key for " + w.args[0] + " of " + w.place() + "?"
		if err := a.noteGate(ctx, w, confirm); err != nil {
			return err
		}
	}
	return confirm.ask(ctx, question, w.args[0])
}

func (a *application) noteGate(ctx context.Context, w work, confirm *confirmation) error {
	if !confirm.required() {
		return nil
	}
	f, err := w.ForecastGate(ctx, w.project, w.environment, w.args[0])
	if err == nil {
		a.noteLines(f.Lines(w.args[0]))
		return nil
	}
	if err := a.noteNoForecast(ctx, err); err != nil {
		return err
	}
	a.note("Requests without a valid key will be denied.")
	return nil
}

func (a *application) noteLines(lines []string) {
	for _, line := range lines {
		a.note("%s", line)
	}
}

// rejectsBoth returns the statuses that a change returns if its forecast does.
func rejectsBoth() []int {
	return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity}
}

// noteNoForecast reports a failed forecast, which does not prevent the change. It returns an error
// that the change would return too.
func (a *application) noteNoForecast(ctx context.Context, err error) error {
	var rejected *client.Error
	if ctx.Err() != nil || errors.As(err, &rejected) && slices.Contains(rejectsBoth(), rejected.Status) {
		return err
	}
	a.note("The effect on keys is unknown: %s", a.explain(ctx, err).message)
	return nil
}
