package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) keyGroup() *cobra.Command {
	return a.group("key", "API keys and their usage",
		a.keyCreate(), a.keyList(), a.keyShow(), a.keyUpdate(), a.keyDisable(), a.keyEnable(),
		a.keyRevoke(), a.keyRotate(), a.keyUsage(),
	)
}

func (a *application) keyList() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List API keys", SuggestFor: []string{"ls"},
		Long: `List the API keys of an environment, or with --all-environments those of the whole
project.`,
		Example: `  sluice key list --project shop --environment prod`,
		Args:    takes(),
	}
	cmd.Flags().BoolVar(&all, "all-environments", false, "of every environment of the project")
	list := func(ctx context.Context, w work, _ []string) error {
		return showList(a, "keys", w.Keys(ctx, w.project, w.environment), []render.Column{
			{Name: "KEY", Whole: true},
			{Name: "NAME"},
			{Name: "STATUS"},
			{Name: "PLAN"},
			{Name: "APPS"},
			{Name: "LAST SEEN", Extra: true},
			{Name: "EXPIRES", Extra: true},
			{Name: "ENVIRONMENT", Extra: true},
		}, func(k wire.Key) []render.Cell {
			cells := render.Plainly(k.ID, k.Name, k.Status, k.Plan, scope(k), dayOf(k.LastSeen), stampOf(k.ExpiresAt), k.Environment)
			cells[2].Tone, cells[6].Tone = statusTone(k.Status), a.expiryTone(k)
			return cells
		})
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all {
			return a.inProject(list)(cmd, args)
		}
		return a.inEnvironment(list)(cmd, args)
	}
	return cmd
}

func (a *application) keyShow() *cobra.Command {
	return &cobra.Command{
		Use: "show KEY", Short: "Show an API key, without its secret", SuggestFor: []string{"get", "describe"},
		Example: `  sluice key show key-ab12cd34 --project shop`,
		Args:    takes("KEY"),
		RunE: a.inProject(func(ctx context.Context, w work, args []string) error {
			k, err := w.Key(ctx, w.project, args[0])
			if err != nil {
				return err
			}
			return a.showKey(k)
		}),
	}
}

func (a *application) showKey(k wire.Key) error {
	return a.show(k, func(s render.Screen) error { return s.Fields(a.keyFields(k)...) })
}

func (a *application) keyFields(k wire.Key) []render.Field {
	expires := render.Field{Name: "Expires", Value: stampOf(k.ExpiresAt), Tone: a.expiryTone(k)}
	if k.ExpiresAt == nil {
		expires.Value = "never"
	}
	fields := []render.Field{
		{Name: "Key", Value: k.ID},
		{Name: "Name", Value: k.Name},
		{Name: "Status", Value: k.Status, Tone: statusTone(k.Status)},
		{Name: "Plan", Value: k.Plan},
		{Name: "Environment", Value: k.Project + "/" + k.Environment},
		{Name: "Apps", Value: scope(k)},
		expires,
		{Name: "Last seen", Value: dayOf(k.LastSeen)},
		{Name: "Created", Value: stamp(k.CreatedAt) + " by " + k.CreatedBy},
	}
	if k.PreviousSecretExpiresAt != nil {
		fields = append(fields, render.Field{Name: "Previous secret until", Value: stampOf(k.PreviousSecretExpiresAt), Tone: render.Watch})
	}
	return fields
}

// scope shows the apps that a key opens.
func scope(k wire.Key) string {
	if len(k.Apps) == 0 {
		return "all"
	}
	return strings.Join(k.Apps, ", ")
}

// dayOf shows the last day on which a key was used.
func dayOf(seen *string) string {
	if seen == nil {
		return "never"
	}
	return *seen
}

func statusTone(status string) render.Tone {
	switch status {
	case "active":
		return render.Good
	case "disabled":
		return render.Watch
	}
	return render.Bad
}

// expiryWarning is the time before a key's expiry in which it stands out
// (specification section 8).
const expiryWarning = 14 * 24 * time.Hour

func (a *application) expiryTone(k wire.Key) render.Tone {
	switch {
	case k.ExpiresAt == nil:
		return render.Plain
	case !a.env.Now().Before(*k.ExpiresAt):
		return render.Bad
	case a.env.Now().Add(expiryWarning).After(*k.ExpiresAt):
		return render.Watch
	}
	return render.Plain
}
