package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) webhookDeliveries() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deliveries APP", Short: "List an app's webhook deliveries", SuggestFor: []string{"calls", "list", "history", "log"},
		Long: `List the calls to an app's webhook and their results, newest first. They are stored for seven
days. Calls without a valid token are counted on one line, as are calls over the rate limit.`,
		Example: `  sluice app webhook deliveries hello`,
	}
	limit := limited(cmd, 50)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		return showFirst(a, *limit, "deliveries", w.Deliveries(ctx, w.project, w.environment, w.args[0]), []render.Column{
			{Name: "WHEN (UTC)", Whole: true},
			{Name: "RESULT", Whole: true},
			{Name: "DETAIL", Cap: 40},
			{Name: "EVENT", Rank: 1},
			{Name: "COMMIT", Rank: 2, Cap: 12},
			{Name: "REQUEST", Rank: 3},
			{Name: "DELIVERY ID", Rank: 4},
		}, deliveryRow)
	})
}

func deliveryRow(d wire.WebhookDelivery) []render.Cell {
	cells := render.Plainly(minute(d.At), d.Result, deliveryDetail(d), string(d.Event), string(d.Commit), string(d.RequestID), string(d.Delivery))
	switch hook.Result(d.Result) {
	case hook.Deployed, hook.Building, hook.Ponged:
		cells[1].Tone = render.Good
	case hook.Refused, hook.Unproven, hook.Broken:
		cells[1].Tone = render.Bad
	case hook.Throttled:
		cells[1].Tone = render.Watch
	case hook.Ignored, hook.Replayed:
	}
	return cells
}

func deliveryDetail(d wire.WebhookDelivery) string {
	switch {
	case d.Count > 1:
		return fmt.Sprintf("%d calls until %s: %s", d.Count, minute(d.LastAt), d.Code)
	case d.Revision > 0:
		return "revision " + number(int64(d.Revision))
	case d.Build > 0:
		return "build " + number(int64(d.Build))
	case d.Code != "":
		return string(d.Code)
	}
	return string(d.Reason)
}

func (a *application) webhookTest() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "test APP", Short: "Send a ping to an app's webhook", SuggestFor: []string{"ping", "try"},
		Long: `Send a ping, as a git provider does, to an app's webhook and show the response. The server
sends it over the network path of a pipeline's call. Nothing is deployed or built. The exit
status is 1 unless the response is a pong.`,
		Example: `  sluice app webhook test hello`,
	}, func(ctx context.Context, w work) error {
		t, err := w.TestWebhook(ctx, w.project, w.environment, w.args[0])
		if err != nil {
			return err
		}
		if err := a.showFields(t, testFields(t)); err != nil || t.Result == wire.HookTestPong {
			return err
		}
		return failed("no_pong", "%s", t.Message)
	})
}

func testFields(t wire.WebhookTest) []render.Field {
	fields := []render.Field{{Name: "Result", Value: t.Result, Tone: render.Bad}}
	if t.Result == wire.HookTestPong {
		fields[0].Tone = render.Good
	}
	if t.Status != 0 {
		fields = append(fields, render.Field{Name: "HTTP status", Value: number(int64(t.Status))})
	}
	return append(fields, render.Field{Name: "Took", Value: (time.Duration(t.DurationMS) * time.Millisecond).String()},
		render.Field{Name: "Request", Value: t.RequestID})
}
