package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) trustGroup() *cobra.Command {
	g := a.group("trust", "Manage the trusted pipelines of an app's webhook", a.trustAdd(), a.trustList(), a.trustRemove())
	g.Long = `Manage trusted pipelines, which deploy an app without a stored secret. A trusted pipeline calls
the webhook with an OpenID Connect token of its CI system instead of the webhook's token. A
trust selects pipelines by the issuer and the audience of the token, and by patterns that the
token's claims must match.

The operator of the installation configures the allowed issuers.`
	return g
}

type trustFlags struct {
	repositories map[app.Provider]*string
	where        app.TrustConditions
	issuer       string
	audience     string
	claims       []string
}

func (a *application) trustAdd() *cobra.Command {
	f := trustFlags{repositories: map[app.Provider]*string{}}
	cmd := &cobra.Command{
		Use: "add APP", Short: "Add a trusted pipeline to an app's webhook", SuggestFor: []string{"create", "set"},
		Long: `Let pipelines deploy an app without a stored secret, and print the CI snippet.

Values are exact, or patterns: "*" matches any text without "/", "**" matches any text. Without
--ref and --ci-environment, every branch of the repository can deploy.

On GitHub and Forgejo, only runs of push, workflow_dispatch, schedule and release events can
deploy. On GitLab, only runs on protected branches and tags can deploy; merge requests cannot.
--any-event and --unprotected remove these restrictions; --claim event_name=PATTERN selects
events.

--claim adds a condition on any claim of the provider's tokens. With only --issuer and
--claim, pipelines of any issuer that the installation trusts can deploy.`,
		Example: `  sluice app webhook trust add hello --github org/repo --ref refs/heads/main
  sluice app webhook trust add hello --gitlab group/project --ci-environment production
  sluice app webhook trust add hello --issuer https://ci.example.com --claim sub=org/repo`,
	}
	for p, name := range map[app.Provider]string{app.GitHub: "GitHub", app.GitLab: "GitLab", app.Forgejo: "Forgejo"} {
		f.repositories[p] = cmd.Flags().String(string(p), "", "repository on "+name+", e.g. org/repo")
	}
	cmd.Flags().StringVar(&f.where.Ref, "ref", "", "ref of the run, e.g. refs/heads/main")
	cmd.Flags().StringVar(&f.where.Environment, "ci-environment", "", "environment of the run, as named in the CI system")
	cmd.Flags().StringVar(&f.where.Workflow, "workflow", "", "name of the workflow (not on GitLab)")
	cmd.Flags().BoolVar(&f.where.AnyEvent, "any-event", false, "also allow pull requests and all other events")
	cmd.Flags().BoolVar(&f.where.Unprotected, "unprotected", false, "also allow unprotected branches and tags on GitLab")
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "issuer of the tokens (default the public issuer of GitHub or GitLab)")
	cmd.Flags().StringVar(&f.audience, "audience", "", "audience of the tokens (default the webhook's URL)")
	cmd.Flags().StringArrayVar(&f.claims, "claim", nil, "additional claim as NAME=PATTERN; repeatable")
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		body, err := f.body()
		if err != nil {
			return err
		}
		added, err := w.AddTrust(ctx, w.project, w.environment, w.args[0], body)
		if err != nil {
			return err
		}
		return a.showTrust(ctx, w, added)
	})
}

func (f *trustFlags) body() (wire.AddTrust, error) {
	provider := app.Other
	for p, repository := range f.repositories {
		if *repository == "" {
			continue
		}
		if provider != app.Other {
			return wire.AddTrust{}, usage("--github, --gitlab and --forgejo cannot be used together")
		}
		provider, f.where.Repository = p, *repository
	}
	switch {
	case provider == app.GitLab && f.where.Workflow != "":
		return wire.AddTrust{}, usage("--workflow cannot be used with --gitlab: its tokens contain no workflow name")
	case provider == app.Other && f.where.AnyEvent:
		return wire.AddTrust{}, usage("--any-event needs --github, --gitlab or --forgejo")
	case provider != app.GitLab && f.where.Unprotected:
		return wire.AddTrust{}, usage("--unprotected needs --gitlab")
	}
	claims := provider.Claims(f.where)
	for _, given := range f.claims {
		name, pattern, ok := strings.Cut(given, "=")
		if !ok || name == "" || pattern == "" {
			return wire.AddTrust{}, usage("--claim must be NAME=PATTERN, not %q", given)
		}
		claims[name] = pattern
	}
	return wire.AddTrust{Provider: string(provider), Issuer: f.issuer, Audience: f.audience, Claims: claims}, nil
}

func (a *application) showTrust(ctx context.Context, w work, t wire.Trust) error {
	shown, err := readApp(ctx, w)
	if err != nil {
		return err
	}
	hook, err := w.Webhook(ctx, w.project, w.environment, w.args[0])
	if err != nil {
		return err
	}
	if t.Claims["ref"] == "" && t.Claims["environment"] == "" && t.Claims["sub"] == "" {
		a.note("Runs of every branch can deploy. To select some, use --ref or --ci-environment.")
	}
	a.noteOpen(t)
	return a.show(t, func(s render.Screen) error {
		if err := s.Fields(trustFields(t)...); err != nil {
			return err
		}
		h := snippetHook(shown, hook)
		h.Audience = t.Audience
		ci := snippet.CI(t.Provider)
		if app.Provider(t.Provider) == app.Other {
			ci = snippet.Curl
		}
		return printSnippets(s, h, []snippet.CI{ci})
	})
}

func (a *application) noteOpen(t wire.Trust) {
	if t.Open {
		a.note("%s is too broad: it allows pull requests, unprotected branches or any owner. Add a narrower trust, then remove this one.", t.ID)
	}
}

func trustFields(t wire.Trust) []render.Field {
	fields := []render.Field{{Name: "Trust", Value: t.ID}, {Name: "Provider", Value: t.Provider}, {Name: "Issuer", Value: t.Issuer}, {Name: "Audience", Value: t.Audience}}
	for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
		fields = append(fields, render.Field{Name: "Claim " + name, Value: t.Claims[name]})
	}
	return fields
}

func (a *application) trustList() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "list APP", Short: "List the trusted pipelines of an app's webhook", SuggestFor: []string{"ls"},
		Example: `  sluice app webhook trust list hello`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "trusts", w.Trusts(ctx, w.project, w.environment, w.args[0]), []render.Column{
			{Name: "ID", Whole: true},
			{Name: "PROVIDER"},
			{Name: "OPEN"},
			{Name: "CLAIMS", Cap: 60},
			{Name: "ISSUER", Rank: 1},
			{Name: "AUDIENCE", Rank: 3},
			{Name: "CREATED BY", Rank: 2},
		}, func(t wire.Trust) []render.Cell {
			a.noteOpen(t)
			return render.Plainly(t.ID, t.Provider, yesNo(t.Open), claimsText(t.Claims), t.Issuer, t.Audience, t.CreatedBy)
		})
	})
}

func claimsText(claims map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		parts = append(parts, name+"="+claims[name])
	}
	return strings.Join(parts, " ")
}

func (a *application) trustRemove() *cobra.Command {
	return a.removal(inEnvironment, promptOnly, &cobra.Command{
		Use: "remove APP ID", Short: "Remove a trusted pipeline from an app's webhook", SuggestFor: []string{"delete", "rm"},
		Example: `  sluice app webhook trust remove hello trust-k3xq7m2pza`,
	}, func(w work) removal {
		return removal{
			question: "Remove " + w.args[1] + " from " + w.args[0] + "? Pipelines that match it can no longer deploy.",
			do: func(ctx context.Context) error {
				return w.RemoveTrust(ctx, w.project, w.environment, w.args[0], w.args[1])
			},
			done: "Trust " + w.args[1] + " removed.",
		}
	})
}
