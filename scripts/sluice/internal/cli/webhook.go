package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) webhookGroup() *cobra.Command {
	return a.group("webhook", "Manage an app's deploy webhook", a.webhookEnable(), a.webhookStatus(), a.webhookDisable(), a.webhookDeliveries(), a.webhookTest(), a.trustGroup())
}

func (a *application) webhookEnable() *cobra.Command {
	var ci string
	cmd := &cobra.Command{
		Use: "enable APP", Short: "Enable an app's webhook or replace its token", SuggestFor: []string{"regenerate", "create"},
		Long: `Enable an app's deploy webhook. The command prints the URL, the secret token and CI snippets
for GitHub Actions, GitLab CI and curl; --ci selects one. A service token cannot enable a
webhook.

If the webhook is enabled already, the command replaces the token, and the previous token
stops working immediately. On a terminal, it asks for confirmation.`,
		Example: `  sluice app webhook enable hello --project shop --environment prod --ci github`,
	}
	cmd.Flags().StringVar(&ci, "ci", "all", "snippet to print: "+oneOf(snippetChoices()))
	a.fixed(cmd, "ci", words(snippetChoices())...)
	confirm := a.confirmation(cmd, promptOnly)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		systems, err := chosen(ci)
		if err != nil {
			return err
		}
		// Read the app first: without it, no snippet can show the new token.
		app, err := readApp(ctx, w)
		if err != nil {
			return err
		}
		hook, err := a.enableWebhook(ctx, w, confirm)
		if err != nil {
			return err
		}
		return a.show(wireHook(hook), func(s render.Screen) error {
			if err := s.Fields(hookFields(hook)...); err != nil {
				return err
			}
			return printSnippets(s, snippetHook(app, hook), systems)
		})
	})
}

func (a *application) enableWebhook(ctx context.Context, w work, confirm *confirmation) (client.Webhook, error) {
	before, err := w.Webhook(ctx, w.project, w.environment, w.args[0])
	if err != nil {
		return before, err
	}
	if before.Enabled {
		question := "The webhook of " + w.args[0] + " is enabled already. Replace its token? The current token stops working immediately."
		if err := confirm.ask(ctx, question, w.args[0]); err != nil {
			return before, err
		}
	}
	hook, err := w.EnableWebhook(ctx, w.project, w.environment, w.args[0])
	if err == nil && before.Enabled {
		a.note("The previous token no longer works. Give the new token to your pipelines.")
	}
	return hook, err
}

func snippetChoices() []snippet.CI { return append(snippet.All(), "all", "none") }

func chosen(ci string) ([]snippet.CI, error) {
	switch {
	case ci == "all":
		return snippet.All(), nil
	case ci == "none":
		return []snippet.CI{}, nil
	case slices.Contains(snippet.All(), snippet.CI(ci)):
		return []snippet.CI{snippet.CI(ci)}, nil
	}
	return nil, usage("--ci must be %s, not %q", oneOf(snippetChoices()), ci)
}

func snippetHook(app wire.App, hook client.Webhook) snippet.Hook {
	h := snippet.Hook{App: app.Name, URL: hook.URL, Token: string(hook.Token), Image: app.Image, Git: app.Kind == "git"}
	if app.GitSource != nil {
		h.Branch = app.GitSource.Branch
	}
	return h
}

func printSnippets(s render.Screen, h snippet.Hook, systems []snippet.CI) error {
	for _, ci := range systems {
		if err := s.Text("\n# " + h.Title(ci) + "\n\n" + h.For(ci)); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) webhookStatus() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "status APP", Short: "Show an app's webhook and its token", SuggestFor: []string{"show", "get"},
		Long:    `Show an app's webhook and its token. Viewers and service tokens do not see the token.`,
		Example: `  sluice app webhook status hello`,
	}, showResult(func(h client.Webhook) error {
		return a.showFields(wireHook(h), hookFields(h))
	}, func(ctx context.Context, w work) (client.Webhook, error) {
		return w.Webhook(ctx, w.project, w.environment, w.args[0])
	}))
}

func (a *application) webhookDisable() *cobra.Command {
	return a.removal(inEnvironment, promptOnly, &cobra.Command{
		Use: "disable APP", Short: "Disable an app's webhook", SuggestFor: []string{"delete", "remove"},
		Long:    `Disable an app's webhook. Its token becomes invalid; enabling the webhook creates a new token.`,
		Example: `  sluice app webhook disable hello`,
	}, func(w work) removal {
		return removal{
			question: "Disable the webhook of " + w.args[0] + "? Its token becomes invalid.",
			do:       func(ctx context.Context) error { return w.DisableWebhook(ctx, w.project, w.environment, w.args[0]) },
			done:     "Webhook of " + w.args[0] + " disabled.",
		}
	})
}

func wireHook(h client.Webhook) wire.Webhook {
	out := wire.Webhook{Enabled: h.Enabled, URL: h.URL, Issuers: append([]string{}, h.Issuers...)}
	if h.Token != "" {
		token := string(h.Token)
		out.Token = &token
	}
	return out
}

func hookFields(h client.Webhook) []render.Field {
	state := render.Field{Name: "Webhook", Value: "disabled", Tone: render.Watch}
	if h.Enabled {
		state = render.Field{Name: "Webhook", Value: "enabled", Tone: render.Good}
	}
	return []render.Field{state, {Name: "URL", Value: h.URL}, {Name: "Token", Value: string(h.Token)}}
}
